"""Comparison of two run directories of the same suite, paired by dialogue or question."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import DialogTrace, EvalSummary, TurnEvalRow
from memfin.contracts.base import Record
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import iter_individual_results, read_sums
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.contracts.run import ChangedCase, Comparison, Outcome, PairedValue
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.interval import CONFIDENCE, holm, paired_difference, smallest_difference
from memfin.metrics.state import is_failed
from memfin.report.dialogs import ReplyShapes
from memfin.report.glossary import MARK_SCALE, MARKS, METRICS
from memfin.report.rag_report import RESULTS
from memfin.report.reader import CONFIG, ROWS, SUMMARY, TRACES

FAILED: Final = "failed"
"""The share of turns, or questions, without an answer; less is better."""

HEADLINES: Final = frozenset(
    {FAILED, "score", *(f"{metric.name}.{metric.values[0].key}" for metric in METRICS)}
)
"""The values that speak for a run: failures, one of each metric, and the score of a benchmark."""

_COMPARED: Final = frozenset(
    {"agent", "agent_version", "agent_settings", "model", "rag", "rag_version", "rag_settings"}
)
"""Inputs that two runs are compared because of; the others should be the same."""

_INPUT_NAMES: Final = {
    "dataset_sha256": "dataset",
    "benchmark_sha256": "benchmark",
    "document_sha256": "document",
    "lexicon_hashes": "lexicons",
    "prompt_hashes": "prompts",
}

Suite = Literal["dialogues", "rag"]
_MAX_CHANGED: Final = 20
_CASES: Final[Mapping[Suite, str]] = {"rag": "question", "dialogues": "dialogue"}

Unit = tuple[str, int]
"""A dialogue and the index of a turn in it, 0 for a value of the whole dialogue; or a question and 0."""


class Measured(NamedTuple):
    """A value of one run: numerator and denominator of every unit, its range, and which direction is good."""

    units: dict[Unit, tuple[float, float]]
    span: float = 1.0
    higher_is_better: bool = True


def compare_runs(run_a: Path, run_b: Path, margins: Mapping[str, float] | None = None) -> Comparison:
    """Compare run b with run a: every value over the turns or questions that both answered.

    ``margins`` are, by the name of a value, how much worse b may be and still count as not inferior.

    Raises:
        UsageError: a directory holds no finished run, the two are runs of different suites or have nothing in
            common, or a margin names a value that they do not have.
    """
    suite, other = _suite(run_a), _suite(run_b)
    if suite != other:
        raise UsageError(
            f"{run_a} is a run of the suite {suite}, {run_b} one of {other}; give two of the same"
        )
    measured = _questions if suite == "rag" else _dialogs
    (name_a, values_a), (name_b, values_b) = measured(run_a), measured(run_b)
    cases_a, cases_b = (
        {case for value in values.values() for case, _ in value.units} for values in (values_a, values_b)
    )
    if not cases_a & cases_b:
        raise UsageError(f"{run_a} and {run_b} have no {_CASES[suite]} in common; nothing can be compared")
    shared = [name for name in values_a if name in values_b]  # in the order of metrics, and of types
    values = {name: paired_value(values_a[name], values_b[name]) for name in shared}
    judge_together(values, HEADLINES, margins or {})
    return Comparison(
        a=name_a,
        b=name_b,
        suite=suite,
        pairs=len(cases_a & cases_b),
        only_a=len(cases_a - cases_b),
        only_b=len(cases_b - cases_a),
        inputs_changed=_inputs_changed(run_a, run_b),
        values=values,
        changed=most_changed(
            case
            for name in shared
            if name in HEADLINES
            for case in changed_cases(name, values_a[name], values_b[name])
        ),
        warnings=[
            f"{name}: {warning}"
            for name, run in (("a", run_a), ("b", run_b))
            if suite == "dialogues"
            for warning in _degenerate(run)
        ],
    )


def _suite(path: Path) -> Suite:
    if not path.is_dir():
        raise UsageError(f"{path}: no such directory; give the directory of a run, such as runs/RUN_ID")
    if (path / RAG_SUMMARY).is_file():
        return "rag"
    if (path / SUMMARY).is_file() and (path / ROWS).is_file():
        return "dialogues"
    if (path / ROWS).is_file() or (path / RESULTS).is_file():
        raise UsageError(f"{path}: the run has not finished; memfin resume {path} goes on with it")
    raise UsageError(f"{path}: not a run directory; it holds neither {SUMMARY} nor {RAG_SUMMARY}")


def _dialogs(path: Path) -> tuple[str, dict[str, Measured]]:
    """Return the run's name and its values; those of M2, one per dialogue, are in the summary."""
    summary = read_json(path / SUMMARY, EvalSummary)
    state = MetricsState()
    failed = Measured({}, higher_is_better=False)
    values: dict[str, Measured] = {}
    for _, row in iter_jsonl(path / ROWS, TurnEvalRow):
        unit = (row.dialog_id, row.turn_pair_id)
        failed.units[unit] = (float(is_failed(row)), 1.0)
        for part in (state.m1, state.m3, state.m4, state.m5):
            for share, hits, of in part.units(row):
                name = f"{part.name}.{share.name}"
                if name not in values:
                    values[name] = Measured({}, share.high - share.low, not share.lower_is_better)
                values[name].units[unit] = (hits, of)
    if (profile := summary.metrics.get(state.m2.name)) is not None:
        for name in (share.name for share in state.m2.shares if share.broken_down):
            found = {(key, 0): (each[name], 1.0) for key, each in profile.by_dialog.items() if name in each}
            if found:
                values[f"{state.m2.name}.{name}"] = Measured(found)
    return summary.run_id, {FAILED: failed} | {name: values[name] for name in sorted(values)}


def _questions(path: Path) -> tuple[str, dict[str, Measured]]:
    """Return the run's name and the scores of its questions, together and by type."""
    place = path / RAG_SUMMARY
    groups: dict[str, dict[Unit, tuple[float, float]]] = {}
    for one in iter_individual_results(place):
        unit = (one.id, 0)
        groups.setdefault(FAILED, {})[unit] = (float(one.error is not None), 1.0)
        if one.error is not None:
            continue
        groups.setdefault("score", {})[unit] = (one.score, one.max_score)
        groups.setdefault("pass_rate", {})[unit] = (float(one.passed), 1.0)
        groups.setdefault(f"{one.type}.score", {})[unit] = (one.score, one.max_score)
        for mark in MARKS:
            if one.judge is not msgspec.UNSET and one.judge[mark] is not None:
                groups.setdefault(f"judge.{mark}", {})[unit] = (one.judge[mark], 1.0)
    low, high = MARK_SCALE
    return read_sums(place).run_id, {
        name: Measured(units, high - low if name.startswith("judge.") else 1.0, name != FAILED)
        for name, units in groups.items()
    }


def _degenerate(path: Path) -> Iterator[str]:
    """Yield what is wrong with the replies of a run: empty, echoed, always the same."""
    if not (path / TRACES).is_file():
        return
    shapes = ReplyShapes()
    for _, trace in iter_jsonl(path / TRACES, DialogTrace):
        for turn in trace.turns:
            if turn.turn_status == "ok":
                shapes.add(turn.user_text, turn.pred_assistant_text or "", turn.gt_assistant_text)
    for warning in shapes.warnings():
        yield f"{warning.title.lower()}: {warning.detail}"


class _Inputs(Record):
    """The part of ``config.json`` that is the same in every suite."""

    fingerprint_inputs: dict[str, Any] = {}


def _inputs_changed(run_a: Path, run_b: Path) -> list[str]:
    a, b = (
        read_json(path / CONFIG, _Inputs).fingerprint_inputs if (path / CONFIG).is_file() else {}
        for path in (run_a, run_b)
    )
    changed = (name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name))
    return [_INPUT_NAMES.get(name, name) for name in changed if name not in _COMPARED]


def paired_value(a: Measured, b: Measured) -> PairedValue:
    """Compare a value over the units that carry it, with the same denominator, in both runs.

    The verdict is that of this value alone; see `judge_together`.
    """
    dialogs: dict[str, tuple[float, float, float]] = {}
    better, worse = 0, 0
    shared = _shared(a, b)
    for unit in shared:
        (before, of), (after, _) = a.units[unit], b.units[unit]
        gain, loss = max(0.0, after - before), max(0.0, before - after)
        gained, lost, total = dialogs.get(unit[0], (0.0, 0.0, 0.0))
        dialogs[unit[0]] = (gained + gain, lost + loss, total + of)
        better += after > before if a.higher_is_better else after < before
        worse += after < before if a.higher_is_better else after > before
    found = paired_difference(dialogs.values(), a.span)
    first, second = (
        math.fsum(run.units[unit][0] for unit in shared)
        / (math.fsum(run.units[unit][1] for unit in shared) or 1.0)
        for run in (a, b)
    )
    value = PairedValue(
        a=first,
        b=second,
        difference=found.difference,
        ci95=found.interval,
        verdict="unknown",
        pairs=len(dialogs),
        higher_is_better=a.higher_is_better,
        units=len(shared),
        improved=better,
        worsened=worse,
        p_value=found.p_value,
    )
    return _with_verdict(value, found.p_value, 1)


def judge_together(
    values: dict[str, PairedValue], headlines: Collection[str], margins: Mapping[str, float]
) -> None:
    """Adjust the verdicts of the headline values for their number, and hold values against their margins.

    Raises:
        UsageError: a margin names a value that is not there.
    """
    family = {name: value.p_value for name, value in values.items() if name in headlines}
    for name, adjusted in holm(family).items():
        value = msgspec.structs.replace(values[name], p_adjusted=adjusted)
        values[name] = _with_verdict(value, adjusted, len(family))
    for name, margin in margins.items():
        if name not in values:
            raise UsageError(f"--margin: unknown value {name!r}; known: {', '.join(values)}")
        low, high = values[name].ci95 or (-math.inf, math.inf)
        passed = low > -margin if values[name].higher_is_better else high < margin
        values[name] = msgspec.structs.replace(values[name], margin=margin, non_inferior=passed)


def _with_verdict(value: PairedValue, p_value: float, tests: int) -> PairedValue:
    smallest = None if value.ci95 is None else smallest_difference(value.ci95, value.pairs, tests)
    verdict: Outcome = "no_difference"
    if value.ci95 is None or (smallest is None and value.difference):
        verdict = "unknown"
    elif p_value <= 1 - CONFIDENCE and not value.ci95[0] <= 0 <= value.ci95[1]:
        verdict = "better" if (value.difference > 0) == value.higher_is_better else "worse"
    return msgspec.structs.replace(value, smallest=smallest, verdict=verdict)


def _shared(a: Measured, b: Measured) -> list[Unit]:
    """Return the units that both runs can be compared in, in order."""
    both = sorted(a.units.keys() & b.units.keys())
    return [unit for unit in both if a.units[unit][1] == b.units[unit][1]]


def changed_cases(name: str, a: Measured, b: Measured) -> list[ChangedCase]:
    """Return the cases in which a value is not the same in both runs; ``change`` above 0 is good."""
    sign = 1 if a.higher_is_better else -1
    cases: dict[str, list[Unit]] = {}
    for unit in _shared(a, b):
        cases.setdefault(unit[0], []).append(unit)
    found = []
    for case, units in cases.items():
        total = sum(a.units[unit][1] for unit in units)
        before, after = (sum(run.units[unit][0] for unit in units) / total for run in (a, b))
        if before != after:
            first = next(turn for _, turn in units if a.units[case, turn] != b.units[case, turn])
            found.append(
                ChangedCase(
                    id=case, value=name, a=before, b=after, change=sign * (after - before), turn=first or None
                )
            )
    return found


def most_changed(found: Iterable[ChangedCase]) -> list[ChangedCase]:
    """Return the cases that changed most, the worst first, then those that are better, by how much."""
    ordered = sorted(found, key=lambda case: (-abs(case.change), case.id, case.value))[:_MAX_CHANGED]
    return sorted(ordered, key=lambda case: (case.change, case.id, case.value))
