"""M1, context continuity: required facts in memory, and advice that respects them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from memfin.contracts import MetricResult, SourceHits, TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import BadRow, Cell, RowState, Share, is_read

NO_RECALL: Final = marked("the agent reported no recall in any turn")

_NO_KEY: Final = marked("no answered turn requires a memory key that the dataset resolves")
_NO_FIELD: Final = marked(
    "no answered turn requires a memory key that the dataset resolves, or the rows lack the field"
)
_NO_SOURCE: Final = marked("the rows name no source of their hits")
_SOURCES: Final = ("short_term_hit_rate", "long_term_hit_rate", "profile_hit_rate")


class ContextCell(Cell, frozen=True, gc=False):
    """M1 sums of one dialogue; key totals are over its eligible turns, unresolvable keys over all.

    ``contradictions_outside`` are those of turns without a required key.
    """

    required: int = 0
    hits: int = 0
    strict: int = 0
    contradictions: int = 0
    contradiction_of: int = 0
    undecided: int = 0
    contradictions_outside: int = 0
    short_term: int = 0
    long_term: int = 0
    profile: int = 0
    guarded_of: int = 0
    guarded_hits: int = 0
    recoverable: int = 0
    recoverable_hits: int = 0
    unrevealed: int = 0
    self_reference: int = 0
    unresolvable: int = 0
    unreported: int = 0
    probes: int = 0
    probes_right: int = 0


def _source_hits(row: TurnEvalRow) -> SourceHits:
    """Return the hits by source, from the keys where they are given and from the turn's sums otherwise."""
    if not row.key_hit_sources:
        return row.m1_source_hits
    named = [source for sources in row.key_hit_sources for source in sources]
    return SourceHits(
        short_term=named.count("short_term"),
        long_term=named.count("long_term"),
        profile=named.count("profile"),
    )


def hit_flags(row: TurnEvalRow, required: int) -> Sequence[int]:
    """Return the hit flags of the resolvable keys.

    The older draft aligned the flags with all keys; those of unresolvable ones are left out then.
    """
    flags, keys = row.key_hit_flags, row.resolved_keys
    if len(flags) == required:
        return flags
    if len(flags) == len(keys):
        return [flag for flag, key in zip(flags, keys, strict=True) if key.resolvable]
    raise BadRow("key_hit_flags", f"{len(flags)} flags for {required} resolvable keys")


class M1State(RowState[ContextCell]):
    """Mergeable state of M1.

    A turn is in the denominator when its row is eligible and requires at least one resolvable key.
    Guarded hits and recoverability are MemFin's own fields: rows without them stay out of the
    denominators of ``key_coverage_guarded`` and ``recoverable_key_coverage``. A turn whose contradictions
    the judge was to find and did not (``unjudged``) stays out of that of ``contradiction_rate``; one with a
    constraint that nobody could decide counts there as no contradiction, and in ``contradiction_undecided``.
    """

    name: MetricName = "m1_context_continuity"
    shares: tuple[Share[ContextCell], ...] = (
        Share("key_coverage", lambda cell: cell.hits, lambda cell: cell.required, empty=_NO_KEY),
        Share("strict_key_hit_rate", lambda cell: cell.strict, lambda cell: cell.turns, empty=_NO_KEY),
        Share(
            "contradiction_rate",
            lambda cell: cell.contradictions,
            lambda cell: cell.contradiction_of,
            lower_is_better=True,
            empty=marked("no answered turn that requires a memory key was read for contradictions"),
        ),
        *(
            Share(name, hits, of, broken_down=False, empty=empty)
            for name, hits, of, empty in (
                ("short_term_hit_rate", lambda cell: cell.short_term, lambda cell: cell.required, _NO_KEY),
                ("long_term_hit_rate", lambda cell: cell.long_term, lambda cell: cell.required, _NO_KEY),
                ("profile_hit_rate", lambda cell: cell.profile, lambda cell: cell.required, _NO_KEY),
                (
                    "key_coverage_guarded",
                    lambda cell: cell.guarded_hits,
                    lambda cell: cell.guarded_of,
                    _NO_FIELD,
                ),
                (
                    "recoverable_key_coverage",
                    lambda cell: cell.recoverable_hits,
                    lambda cell: cell.recoverable,
                    _NO_FIELD,
                ),
            )
        ),
        Share("probed", lambda cell: cell.probes_right, lambda cell: cell.probes, optional=True),
    )

    def add_record(self, row: TurnEvalRow) -> None:
        """Count one row, and the probes with an answer to know, whatever became of their turn."""
        super().add_record(row)
        if right := probes_to_know(row):
            self._put(row.dialog_id, ContextCell(probes=len(right), probes_right=sum(right)))

    def _contribution(self, row: TurnEvalRow) -> ContextCell:
        keys = row.resolved_keys
        required = sum(key.resolvable for key in keys) if keys else len(row.key_hit_flags)
        unresolvable = len(keys) - required if keys else 0
        read = is_read(row, "contradiction")
        contradictions = row.constraint_contradiction if read else 0
        if not row.eligible_m1 or not required:
            return ContextCell(unresolvable=unresolvable, contradictions_outside=contradictions)
        flags = hit_flags(row, required)
        hits = sum(flags)
        sources = _source_hits(row)
        if max(sources.short_term, sources.long_term, sources.profile) > required:
            field = "key_hit_sources" if row.key_hit_sources else "m1_source_hits"
            raise BadRow(field, f"a source holds more than the {required} resolvable keys")
        guarded, recoverability = row.key_hit_guarded, row.key_recoverability
        if guarded is not None and len(guarded) != required:
            raise BadRow("key_hit_guarded", f"{len(guarded)} flags for {required} resolvable keys")
        if recoverability is not None and len(recoverability) != required:
            message = f"{len(recoverability)} entries for {required} resolvable keys"
            raise BadRow("key_recoverability", message)
        kinds = recoverability or ()
        return ContextCell(
            turns=1,
            required=required,
            hits=hits,
            strict=int(hits == required),
            contradictions=contradictions,
            contradiction_of=int(read),
            undecided=int(read and not row.constraint_contradiction and bool(row.undecided_constraints)),
            short_term=sources.short_term,
            long_term=sources.long_term,
            profile=sources.profile,
            guarded_of=0 if guarded is None else required,
            guarded_hits=0 if guarded is None else sum(guarded),
            recoverable=kinds.count("recoverable"),
            recoverable_hits=sum(
                flag for flag, kind in zip(flags, kinds, strict=False) if kind == "recoverable"
            ),
            unrevealed=kinds.count("unrevealed"),
            self_reference=kinds.count("self_reference"),
            unresolvable=unresolvable,
            unreported=int(row.recall_reported is False),
        )

    def _unreported(self, total: Callable[[Callable[[ContextCell], int]], int]) -> dict[str, str]:
        if total(lambda cell: cell.turns - cell.unreported):
            named = total(lambda cell: cell.short_term + cell.long_term + cell.profile)
            return {} if named or not total(lambda cell: cell.hits) else dict.fromkeys(_SOURCES, _NO_SOURCE)
        return {
            share.name: NO_RECALL
            for share in self.shares
            if share.name not in ("contradiction_rate", "probed")
        }

    def _counts(self, total: Callable[[Callable[[ContextCell], int]], int]) -> dict[str, int]:
        probes = total(lambda cell: cell.probes)
        return {
            "eligible_turns": total(lambda cell: cell.turns),
            "required_key_total": total(lambda cell: cell.required),
            "required_key_hit_total": total(lambda cell: cell.hits),
            "short_term_hit_total": total(lambda cell: cell.short_term),
            "long_term_hit_total": total(lambda cell: cell.long_term),
            "profile_hit_total": total(lambda cell: cell.profile),
            "guarded_key_total": total(lambda cell: cell.guarded_of),
            "guarded_key_hit_total": total(lambda cell: cell.guarded_hits),
            "recoverable_key_total": total(lambda cell: cell.recoverable),
            "unrevealed_key_total": total(lambda cell: cell.unrevealed),
            "self_reference_key_total": total(lambda cell: cell.self_reference),
            "unresolvable_key_total": total(lambda cell: cell.unresolvable),
            "contradiction_count": total(lambda cell: cell.contradictions),
            "contradiction_turns": total(lambda cell: cell.contradiction_of),
            "contradiction_undecided": total(lambda cell: cell.undecided),
            "contradictions_outside": total(lambda cell: cell.contradictions_outside),
            "judge_failed_turns": total(lambda cell: cell.turns - cell.contradiction_of),
            **({"probed_total": probes} if probes else {}),
        }


def probes_to_know(row: TurnEvalRow) -> list[bool]:
    """Return for each probe of a row with an answer to know if it is right."""
    return [probe.correct for probe in row.probes or () if probe.known]


def compute_m1_context_continuity(
    turn_rows: Iterable[TurnEvalRow | Mapping[str, Any]],
) -> MetricResult:
    """Compute M1 from turn_eval rows, structs or plain data; never raises (metrics contract 6.1)."""
    return M1State.over(turn_rows)
