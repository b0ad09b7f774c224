"""Rows of turn_eval: all data of one turn for the metrics, from one reading of its reply.

Implements trace schema sections 5 and 7 and metrics contract section 5. A row is a pure function of
the dialogue, its trace and the turn; the judge's part is filled in afterwards, by
`memfin.scoring.verdicts`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from memfin.contracts import (
    TRACE_VERSION,
    TRACE_VERSION_EXTENDED,
    ClientReading,
    Dialog,
    DialogTrace,
    Finding,
    HistoryMode,
    ProfileTruth,
    SourceHits,
    Turn,
    TurnEvalRow,
    TurnTrace,
    met_risk_tags,
)
from memfin.contracts.reading import check_trace_version, convert, upgrade
from memfin.dataset import normalize_dialog
from memfin.errors import UsageError
from memfin.scoring.compliance import (
    CATEGORIES,
    forbidden_hits,
    label_from_content,
    label_from_trace,
    worst_label,
)
from memfin.scoring.constraint_texts import unread_constraints
from memfin.scoring.contradiction import FIELD as CONTRADICTION
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.detectors import read_content
from memfin.scoring.keys import DialogKeys, memory_sources
from memfin.scoring.profile import canonical_horizon, canonical_level
from memfin.scoring.risk import canonical_risk_tag
from memfin.scoring.rubric import rubric_hits
from memfin.scoring.statements import Analysis
from memfin.scoring.user_detectors import compile_patterns, forbidden_matches, with_detections

DETECTORS: Final = "lexicon+classifier"
"""Name of the offline detectors of risk disclosures and compliance in the rows of a run."""

_ELIGIBLE: Final = ("eligible_m1", "eligible_m2", "eligible_m3", "eligible_m4", "eligible_m5")


def prepare_scoring() -> None:
    """Load the lexicons and weights ahead of the first turn of a run."""
    ConstraintChecker(["不使用杠杆"]).check("不建议使用杠杆, 现金20%")
    read_content("市场存在不确定性")


class TagTable(Protocol):
    """Canonical risk tags by a dataset's names, such as a dictionary."""

    def get(self, name: str, /) -> str | None:
        """Return the tag of a name, None for an unknown one."""
        ...


def no_callback() -> None:
    """Callback that does nothing."""


class DialogScorer:
    """Builder of the rows of one dialogue, turn by turn; the data that its turns share is prepared once.

    Args:
        dialog: the dialogue with its ground truth.
        run_id: the run that the rows belong to.
        trace_version: version of the traces; rows are of v1 or v1.1.
        history_mode: what the agent was shown.
        risk_tag_mapper: required tags by the dataset's own wording, before the built-in names.
        forbidden_patterns: entries on top of the dialogue's ``blueprint.forbidden_list``, or regular
            expressions by category: a reply that one matches hits its category.
        detectors: references of users' detectors by their names in rows.
        score_chars: how many characters of a reply are read; those after them are not.

    Attributes:
        unread: the client's constraints that the detectors do not understand.
    """

    def __init__(
        self,
        dialog: Dialog,
        *,
        run_id: str,
        trace_version: str = TRACE_VERSION,
        history_mode: HistoryMode = "free",
        risk_tag_mapper: TagTable | None = None,
        forbidden_patterns: Sequence[str] | Mapping[str, Sequence[str]] = (),
        score_chars: int | None = None,
        detectors: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        truth = dialog.profile_gt
        self._run_id = run_id
        self._dialog_id = dialog.dialog_id
        self._keys = DialogKeys(dialog, history_mode)
        self._checker = ConstraintChecker(truth.constraints_gt)
        self.unread = unread_constraints(truth.constraints_gt)
        table = forbidden_patterns if isinstance(forbidden_patterns, Mapping) else {}
        self._patterns = compile_patterns(table)
        self._forbidden = [*dialog.blueprint.forbidden_list, *(() if table else forbidden_patterns)]
        self._mapper: TagTable = {} if risk_tag_mapper is None else risk_tag_mapper
        self._detectors = detectors
        self._constraints = truth.constraints_gt
        self._tags: dict[str, str | None] = {}
        self._version = trace_version if trace_version == TRACE_VERSION_EXTENDED else TRACE_VERSION
        self._score_chars = score_chars

    def row(
        self,
        turn: TurnTrace,
        earlier: Sequence[TurnTrace] = (),
        *,
        without: Mapping[str, str] = MappingProxyType({}),
        begin: Callable[[], None] = no_callback,
    ) -> TurnEvalRow:
        """Return the row of one turn after the ``earlier`` ones; `complete_rows` adds what their end tells.

        A turn that failed is eligible for nothing. An empty requirement is not eligible; M1 needs a
        key that resolves, M4 a reply and a true label. ``without`` are users' detectors that failed before,
        with their errors; ``begin`` is called before each of the others.
        """
        answered = turn.turn_status == "ok"
        tags = turn.gt_turn_tags
        resolved = [self._keys.resolve(key) for key in tags.memory_required_keys_gt]
        sources = memory_sources(turn)
        place, keys = turn.user_turn_abs_idx, tags.memory_required_keys_gt
        found = [self._keys.hit(key, sources, place, earlier) for key in keys]
        hits = [hit for hit in found if hit is not None]
        named = [source for hit in hits for source in hit.sources]
        required, unmapped = self._required_tags(tags.risk_disclosure_required_gt)
        whole = turn.pred_assistant_text if answered else None
        reply = None if whole is None else whole[: self._score_chars]
        cut = reply is not None and reply != whole
        if reply is not None and not reply.strip():
            reply = None
        row = TurnEvalRow(
            trace_version=self._version,
            run_id=self._run_id,
            dialog_id=self._dialog_id,
            turn_pair_id=turn.turn_pair_id,
            eligible_m1=answered and bool(hits),
            eligible_m2=False,
            eligible_m3=answered and bool(required),
            eligible_m4=reply is not None and tags.compliance_label_gt is not None,
            eligible_m5=answered and bool(tags.explainability_rubric_gt),
            required_keys_raw=tags.memory_required_keys_gt,
            resolved_keys=resolved,
            key_hit_flags=[1 if hit.sources else 0 for hit in hits],
            key_hit_sources=[hit.sources for hit in hits],
            m1_source_hits=SourceHits(
                short_term=named.count("short_term"),
                long_term=named.count("long_term"),
                profile=named.count("profile"),
            ),
            risk_required_tags=required,
            risk_unmapped_tags=unmapped,
            gt_compliance_label=tags.compliance_label_gt,
            rubric_required=tags.explainability_rubric_gt,
            turn_status=turn.turn_status,
            key_hit_guarded=[1 if hit.guarded else 0 for hit in hits],
            key_recoverability=[hit.recoverability for hit in hits],
            scored_chars=self._score_chars if cut and self._score_chars is not None else msgspec.UNSET,
            recall_reported=msgspec.UNSET if turn.recall is not None else False,
        )
        if reply is None:
            return row
        row = self._with_reply(row, turn, reply)
        if self._detectors:
            left = {name: each for name, each in self._detectors.items() if name not in without}
            row = with_detections(row, reply, turn.user_text, self._constraints, left, begin)
        if without:
            row = row.replace(detector_errors={**without, **row.get("detector_errors", {})})
        return row

    def _required_tags(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the required tags, canonical where known and each once, and those that are unknown."""
        required: dict[str, None] = {}
        unmapped: list[str] = []
        for name in names:
            if name not in self._tags:
                self._tags[name] = self._mapper.get(name) or canonical_risk_tag(name)
            tag = self._tags[name]
            if tag is None and name not in required:
                unmapped.append(name)
            required[tag or name] = None
        return list(required), unmapped

    def _with_reply(self, row: TurnEvalRow, turn: TurnTrace, reply: str) -> TurnEvalRow:
        """Return the row with what the detectors read in the reply."""
        analysis = Analysis(reply)
        reading = read_content(analysis, user_text=turn.user_text)
        checked = self._checker.check(analysis)
        matches = list(forbidden_matches(self._patterns, reply))
        matched = list(dict.fromkeys(each.value for each in matches))
        hits = forbidden_hits(self._forbidden, [*reading.categories, *matched], analysis.document)
        hits += [category for category in matched if category not in hits]
        shown = [category for category in matched if category in CATEGORIES]
        label = worst_label(reading.compliance, label_from_content(shown))
        compliance_detector = DETECTORS
        if turn.compliance is not None:
            label = worst_label(label, label_from_trace(turn.compliance))
            compliance_detector = f"{DETECTORS}+trace"
        met = met_risk_tags(row.risk_required_tags, reading.risk_tags)
        findings = [
            *reading.findings,
            *matches,
            *(
                Finding(
                    field=CONTRADICTION, value=each.constraint, rule=each.rule, start=each.start, end=each.end
                )
                for each in checked.broken
            ),
        ]
        return row.replace(
            constraint_contradiction=1 if checked.broken else 0,
            contradicted_constraints=[each.constraint for each in checked.broken],
            undecided_constraints=checked.undecided or msgspec.UNSET,
            risk_pred_tags=reading.risk_tags,
            risk_tag_hits=len(met),
            forbidden_hits=hits,
            pred_compliance_label=label,
            rubric_hit_items=rubric_hits(row.rubric_required, reading.rubric_items, analysis.document),
            findings=findings,
            unsure=reading.unsure or msgspec.UNSET,
            unread_constraints=self.unread or msgspec.UNSET,
            detectors={
                "risk": DETECTORS,
                "compliance": compliance_detector,
                "contradiction": "proposals",
                "rubric": "lexicon",
            },
        )


def complete_rows(dialog: Dialog, trace: DialogTrace, rows: Iterable[TurnEvalRow]) -> list[TurnEvalRow]:
    """Return the rows of a dialogue's turns with what only its end tells.

    Every row of a failed dialogue is eligible for nothing and carries no compliance label. M2 is eligible on
    the last answered turn of a dialogue whose true profile is complete.
    """
    if not trace.valid_dialog or trace.dialog_status in ("failed", "skipped"):
        nothing = {**dict.fromkeys(_ELIGIBLE, False), "pred_compliance_label": None}
        return [row.replace(**nothing) for row in rows]
    truth = dialog.profile_gt
    complete = None not in (
        canonical_level(truth.risk_level_gt),
        canonical_horizon(truth.horizon_gt),
        canonical_level(truth.liquidity_need_gt),
    )
    answered = [turn.turn_pair_id for turn in trace.turns if turn.turn_status == "ok"]
    last = answered[-1] if answered and complete else None
    completed = [
        row.replace(eligible_m2=True) if row.turn_pair_id == last and row.scoring_error is None else row
        for row in rows
    ]
    if completed and (client := trace.get("client")) is not None:
        errors = sum(turn.simulator_errors is not msgspec.UNSET for turn in trace.turns)
        reading = ClientReading(
            success=client.success, simulator_errors=errors, misspoken=len(client.misspoken)
        )
        completed[-1] = completed[-1].replace(client=reading)
    return completed


def score_dialog(
    dialog: Dialog,
    trace: DialogTrace,
    *,
    history_mode: HistoryMode | None = None,
    risk_tag_mapper: Mapping[str, str] | None = None,
    forbidden_patterns: Sequence[str] | Mapping[str, Sequence[str]] = (),
) -> list[TurnEvalRow]:
    """Return the rows of one replayed dialogue, without the judge's part.

    ``history_mode`` is by default what the trace says, else ``free``; the other arguments are those
    of `DialogScorer`.
    """
    dialog = held_dialog(dialog, trace)
    scorer = DialogScorer(
        dialog,
        run_id=trace.run_id,
        trace_version=trace.trace_version,
        history_mode=history_mode or ("free" if trace.history_mode is msgspec.UNSET else trace.history_mode),
        risk_tag_mapper=risk_tag_mapper,
        forbidden_patterns=forbidden_patterns,
    )
    turns = trace.turns
    return complete_rows(dialog, trace, [scorer.row(turn, turns[:place]) for place, turn in enumerate(turns)])


def build_turn_eval_rows(
    dialog_traces: Iterable[DialogTrace | Mapping[str, Any]],
    risk_tag_mapper: Mapping[str, str] | None = None,
    forbidden_patterns: Sequence[str] | Mapping[str, Sequence[str]] = (),
    *,
    dialogs: Mapping[str, Dialog | Mapping[str, Any]] | None = None,
    history_mode: HistoryMode | None = None,
) -> list[TurnEvalRow]:
    """Build the rows of several replayed dialogues, without the judge's part (metrics contract section 5).

    Traces and dialogues may be structs or plain data. Ground truth comes from ``dialogs``, by id, or from
    the trace where it carries its true profile (version v1.1). Without both, as plain v1 traces have it, no
    row is eligible for M1 or M2: keys and constraints are not known. Invalid dialogues have no rows. The
    other arguments are those of `DialogScorer`.

    Raises:
        InvalidDialogError: when plain data in ``dialogs`` is no valid dialogue.
        InvalidRecord: when plain data is no trace of a supported version.
        UsageError: when ``dialogs`` lacks a dialogue whose trace has no true profile.
    """
    rows: list[TurnEvalRow] = []
    for given in dialog_traces:
        trace = _read_trace(given)
        if not trace.valid_dialog:
            continue
        given_dialog = (dialogs or {}).get(trace.dialog_id)
        known = given_dialog is not None or trace.profile_gt is not msgspec.UNSET
        if not known and dialogs is not None:
            raise UsageError(
                f"dialogue {trace.dialog_id!r}: its ground truth is missing, which traces of v1 do not have; "
                f"pass dialogs={{{trace.dialog_id!r}: dialogue}} with the dialogue that was replayed"
            )
        scored = score_dialog(
            recorded_dialog(trace) if given_dialog is None else normalize_dialog(given_dialog),
            trace,
            history_mode=history_mode,
            risk_tag_mapper=risk_tag_mapper,
            forbidden_patterns=forbidden_patterns,
        )
        rows += scored if known else [row.replace(eligible_m1=False) for row in scored]
    return rows


def _read_trace(given: DialogTrace | Mapping[str, Any]) -> DialogTrace:
    trace = (
        given if isinstance(given, DialogTrace) else convert(upgrade(dict(given), DialogTrace), DialogTrace)
    )
    check_trace_version(trace.trace_version)
    return trace


def recorded_dialog(trace: DialogTrace) -> Dialog:
    """Rebuild the dialogue from a trace; the true profile is empty where the trace carries none."""
    turns: dict[int, Turn] = {}
    for turn in trace.turns:
        turns[turn.user_turn_abs_idx] = Turn(role="user", text=turn.user_text)
        turns[turn.gt_assistant_abs_idx] = Turn(
            role="assistant", text=turn.gt_assistant_text, turn_tags=turn.gt_turn_tags
        )
    # Turns that no pair holds were never sent; an empty one keeps the positions of the others.
    absent = Turn(role="assistant", text="")
    return Dialog(
        dialog_id=trace.dialog_id,
        profile_gt=ProfileTruth() if trace.profile_gt is msgspec.UNSET else trace.profile_gt,
        turns=[turns.get(position, absent) for position in range(max(turns, default=-1) + 1)],
        scenario_type=trace.scenario_type,
        difficulty=trace.difficulty,
        user_id=trace.client_id or None,
        session_index=trace.session_index or None,
        session_time=trace.session_time or None,
    )


def held_dialog(dialog: Dialog, trace: DialogTrace) -> Dialog:
    """Return a dialogue as its simulated client has held it, as if that were its script; others as they are.

    The facts are those of the sheet, told where the client has told them. They belong to this session.
    """
    if trace.client is msgspec.UNSET or dialog.client is None:
        return dialog
    told = trace.client.told
    facts = [each.fact.replace(told_at=told.get(each.fact.id)) for each in dialog.client.tells]
    return dialog.replace(turns=recorded_dialog(trace).turns, facts=facts, earlier=[], client=None)
