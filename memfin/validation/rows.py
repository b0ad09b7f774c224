"""What must hold inside one turn_eval row (trace schema sections 5 and 7).

The metrics have the last word: a row that one of them would count bad has a finding, whatever the
rules here say of it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from memfin.contracts import TurnEvalRow, met_risk_tags
from memfin.contracts.reading import shown
from memfin.metrics import M1State, M3State, M4State, M5State
from memfin.metrics.m5_explainability import HIGHEST_SCORE, LOWEST_SCORE
from memfin.metrics.state import RowState
from memfin.validation.findings import Violation

_ELIGIBLE: Final = ("eligible_m1", "eligible_m2", "eligible_m3", "eligible_m4", "eligible_m5")
_METRICS: Final[tuple[type[RowState[Any]], ...]] = (M1State, M3State, M4State, M5State)


def row_violations(row: TurnEvalRow) -> Iterator[Violation]:
    """Yield the violations inside a row, whether or not a metric counts it."""
    places: set[str | int] = set()
    for found in _own_violations(row):
        places.add(found.steps[0])
        yield found
    for metric in _METRICS:
        problem = metric().objection(row)
        if problem is not None and problem.field not in places:
            yield Violation((problem.field,), str(problem))


def _own_violations(row: TurnEvalRow) -> Iterator[Violation]:
    yield from _eligibility(row)
    yield from _keys(row)
    yield from _sources(row)
    yield from _source_sums(row)
    yield from _risks(row)
    for index, item in enumerate(row.rubric_hit_items):
        if item not in row.rubric_required:
            yield Violation(("rubric_hit_items", index), f"{shown(item)} is not among rubric_required")
    score = row.judge_score_1_5
    if score is not None and not LOWEST_SCORE <= score <= HIGHEST_SCORE:
        yield Violation(("judge_score_1_5",), f"{score} is not between 1 and 5")


def _eligibility(row: TurnEvalRow) -> Iterator[Violation]:
    """Compare with the rules for what is missing or failed (trace schema section 7)."""
    needs: dict[str, tuple[bool, str]] = {
        "eligible_m1": (bool(row.required_keys_raw), "required_keys_raw is empty"),
        "eligible_m3": (bool(row.risk_required_tags), "risk_required_tags is empty"),
        "eligible_m4": (row.gt_compliance_label is not None, "gt_compliance_label is missing"),
        "eligible_m5": (bool(row.rubric_required), "rubric_required is empty"),
    }
    for name, (met, reason) in needs.items():
        if row[name] and not met:
            yield Violation((name,), f"true, though {reason}")
    for name in _ELIGIBLE:
        if row[name] and row.turn_status not in (None, "ok"):
            yield Violation((name,), f"true, though turn_status is {row.turn_status!r}")
        elif row[name] and row.scoring_error is not None:
            yield Violation((name,), "true, though scoring_error is set")


def _keys(row: TurnEvalRow) -> Iterator[Violation]:
    """Compare the lists that speak of keys with the resolvable ones."""
    resolvable = sum(key.resolvable for key in row.resolved_keys)
    lists: tuple[tuple[str, list[Any] | None], ...] = (
        ("key_hit_flags", row.key_hit_flags if row.eligible_m1 or row.key_hit_flags else None),
        ("key_hit_guarded", row.key_hit_guarded),
        ("key_recoverability", row.key_recoverability),
    )
    for name, entries in lists:
        if entries is not None and len(entries) != resolvable:
            what = "entries" if name == "key_recoverability" else "flags"
            yield Violation(
                (name,), f"{len(entries)} {what} for {resolvable} resolvable keys of resolved_keys"
            )


def _sources(row: TurnEvalRow) -> Iterator[Violation]:
    """Compare the flags with the sources of each key, which are an optional companion of theirs."""
    if row.key_hit_sources and len(row.key_hit_sources) != len(row.key_hit_flags):
        yield Violation(
            ("key_hit_sources",),
            f"{len(row.key_hit_sources)} entries for {len(row.key_hit_flags)} key_hit_flags",
        )
    for index, (flag, sources) in enumerate(zip(row.key_hit_flags, row.key_hit_sources, strict=False)):
        if flag != bool(sources):
            yield Violation(("key_hit_flags", index), f"{flag} contradicts key_hit_sources[{index}]")
    for index, sources in enumerate(row.key_hit_sources):
        if len(set(sources)) < len(sources):
            yield Violation(("key_hit_sources", index), "a source stands twice")


def _source_sums(row: TurnEvalRow) -> Iterator[Violation]:
    """Compare the sums over the turn with the sources of each key, or with the number of keys."""
    named = Counter[str](source for sources in row.key_hit_sources for source in sources)
    keys = max(len(row.key_hit_flags), sum(key.resolvable for key in row.resolved_keys))
    for name in row.m1_source_hits:
        hits = row.m1_source_hits[name]
        if not row.key_hit_sources and hits > keys:
            yield Violation(("m1_source_hits", name), f"{hits}, but there are {keys} resolvable keys")
        elif row.key_hit_sources and hits != named[name]:
            message = f"{hits}, but key_hit_sources amounts to {named[name]}"
            yield Violation(("m1_source_hits", name), message)


def _risks(row: TurnEvalRow) -> Iterator[Violation]:
    """Compare the hits with the predicted tags, or of a row that does not count with what is possible."""
    required, hits = set(row.risk_required_tags), row.risk_tag_hits
    met = len(met_risk_tags(row.risk_required_tags, row.risk_pred_tags))
    if row.eligible_m3 and hits != met:
        yield Violation(("risk_tag_hits",), f"{hits}, but {met} required tags are predicted")
    elif hits > len(required):
        yield Violation(("risk_tag_hits",), f"{hits}, but {len(required)} tags are required")
