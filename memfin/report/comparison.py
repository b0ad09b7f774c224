"""Comparison of two run directories of the same suite, paired by dialogue or question."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import EvalSummary, TurnEvalRow
from memfin.contracts.base import Record
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import iter_individual_results, read_sums
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.contracts.run import ChangedCase, Comparison, Outcome, PairedValue
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.interval import paired_difference
from memfin.report.glossary import MARK_SCALE, MARKS, METRICS
from memfin.report.rag_report import RESULTS
from memfin.report.reader import CONFIG, ROWS, SUMMARY

_LOWER: Final = frozenset({"contradiction_rate", "severe_violation_rate", "forbidden_hit_rate"})
HEADLINES: Final = frozenset({"score", *(f"{metric.name}.{metric.headline.key}" for metric in METRICS)})
"""The values that speak for a run: one of each metric, and the score of a benchmark."""

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

Clusters = Mapping[str, tuple[float, float]]
"""Numerator and denominator of a value by dialogue or question."""


class Measured(NamedTuple):
    """A value of one run: its cases, its range, and which direction is good."""

    cases: Clusters
    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True


def compare_runs(run_a: Path, run_b: Path) -> Comparison:
    """Compare run b with run a: every value over the dialogues or questions that both have.

    Raises:
        UsageError: a directory holds no finished run, or the two are runs of different suites.
    """
    suite, other = _suite(run_a), _suite(run_b)
    if suite != other:
        raise UsageError(
            f"{run_a} is a run of the suite {suite}, {run_b} one of {other}; give two of the same"
        )
    measured = _questions if suite == "rag" else _dialogs
    (name_a, values_a), (name_b, values_b) = measured(run_a), measured(run_b)
    cases_a, cases_b = (
        {case for value in values.values() for case in value.cases} for values in (values_a, values_b)
    )
    if not cases_a & cases_b:
        raise UsageError(f"{run_a} and {run_b} have no {_CASES[suite]} in common; nothing can be compared")
    shared = [name for name in values_a if name in values_b]  # in the order of metrics, and of types
    return Comparison(
        a=name_a,
        b=name_b,
        suite=suite,
        pairs=len(cases_a & cases_b),
        only_a=len(cases_a - cases_b),
        only_b=len(cases_b - cases_a),
        inputs_changed=_inputs_changed(run_a, run_b),
        values={name: paired_value(values_a[name], values_b[name]) for name in shared},
        changed=most_changed(
            case
            for name in shared
            if name in HEADLINES
            for case in changed_cases(name, values_a[name], values_b[name])
        ),
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
    for _, row in iter_jsonl(path / ROWS, TurnEvalRow):
        state.add_row(row)
    values = {
        f"{part.name}.{share.name}": Measured(cases, share.low, share.high, share.name not in _LOWER)
        for part in (state.m1, state.m3, state.m4, state.m5)
        for share, cases in part.clusters()
    }
    if (profile := summary.metrics.get(state.m2.name)) is not None:
        for name in (share.name for share in state.m2.shares if share.broken_down):
            cases = {key: (found[name], 1.0) for key, found in profile.by_dialog.items() if name in found}
            values[f"{state.m2.name}.{name}"] = Measured(cases)
    return summary.run_id, {name: values[name] for name in sorted(values) if values[name].cases}


def _questions(path: Path) -> tuple[str, dict[str, Measured]]:
    """Return the run's name and the scores of its questions, together and by type."""
    place = path / RAG_SUMMARY
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    for one in iter_individual_results(place):
        score = (one.score, one.max_score)
        groups.setdefault("score", {})[one.id] = score
        groups.setdefault("pass_rate", {})[one.id] = (float(one.passed), 1.0)
        groups.setdefault(f"{one.type}.score", {})[one.id] = score
        for mark in MARKS:
            if one.judge is not msgspec.UNSET and one.judge[mark] is not None:
                groups.setdefault(f"judge.{mark}", {})[one.id] = (one.judge[mark], 1.0)
    return read_sums(place).run_id, {
        name: Measured(cases, *(MARK_SCALE if name.startswith("judge.") else (0.0, 1.0)))
        for name, cases in groups.items()
    }


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
    """Compare a value over the cases that carry it in both runs."""
    pairs = [(a.cases[case], b.cases[case]) for case in sorted(a.cases.keys() & b.cases.keys())]
    difference, bounds = paired_difference(pairs, a.low, a.high)
    return PairedValue(
        a=_value(first for first, _ in pairs),
        b=_value(second for _, second in pairs),
        difference=difference,
        ci95=bounds,
        verdict=_verdict(bounds, higher_is_better=a.higher_is_better),
        pairs=len(pairs),
        higher_is_better=a.higher_is_better,
    )


def changed_cases(name: str, a: Measured, b: Measured) -> list[ChangedCase]:
    """Return the cases in which a value is not the same in both runs; ``change`` above 0 is good."""
    sign = 1 if a.higher_is_better else -1
    found = []
    for case in a.cases.keys() & b.cases.keys():
        before, after = (hits / of for hits, of in (a.cases[case], b.cases[case]))
        if before != after:
            found.append(ChangedCase(id=case, value=name, a=before, b=after, change=sign * (after - before)))
    return found


def most_changed(found: Iterable[ChangedCase]) -> list[ChangedCase]:
    """Return the cases that changed most, the worst first, then those that are better, by how much."""
    ordered = sorted(found, key=lambda case: (-abs(case.change), case.id, case.value))[:_MAX_CHANGED]
    return sorted(ordered, key=lambda case: (case.change, case.id, case.value))


def _value(clusters: Iterable[tuple[float, float]]) -> float:
    kept = list(clusters)
    total = sum(of for _, of in kept)
    return sum(hits for hits, _ in kept) / total if total else 0.0


def _verdict(bounds: tuple[float, float] | None, *, higher_is_better: bool) -> Outcome:
    if bounds is None:
        return "unknown"
    low, high = bounds
    if low <= 0 <= high:
        return "no_difference"
    return "better" if (low > 0) == higher_is_better else "worse"
