"""Comparison of two runs of the same suite, paired by dialogue, question or sample."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from memfin.contracts import DialogTrace, EvalSummary, SoakSummary, TurnEvalRow, is_variant, many_failed
from memfin.contracts.base import Record
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import iter_individual_results
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.contracts.run import ChangedCase, Comparison, Outcome, PairedValue
from memfin.errors import UsageError
from memfin.language import tr
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.interval import CONFIDENCE, holm, paired_difference, smallest_difference
from memfin.metrics.m1_context import probes_to_know
from memfin.metrics.m2_profile import field_probes
from memfin.metrics.reliability import all_pass, count_passes
from memfin.metrics.state import is_failed
from memfin.report.dialogs import ReplyShapes
from memfin.report.glossary import ALL_METRICS, MARK_SCALE, MARKS, is_custom
from memfin.report.inspect_log import is_log, read_log, same_samples, settings_changed, span
from memfin.report.model import percent
from memfin.report.rag_report import RESULTS
from memfin.report.reader import CONFIG, ROWS, SUMMARY, TRACES
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY

FAILED: Final = "failed"
"""The share of turns, or questions, without an answer; less is better."""

PASS_K: Final = "pass_k"  # noqa: S105 - the name of a value
"""The probability that as many repeats of a dialogue, or question, as both runs have all pass."""

HEADLINES: Final = frozenset(
    {FAILED, PASS_K, "score", *(f"{metric.name}.{metric.values[0].key}" for metric in ALL_METRICS)}
)
"""Headline values of a run: failures, pass^k, one of each metric, and the score of a benchmark."""

_COMPARED: Final = frozenset(
    {
        "agent",
        "baselines",
        "agent_version",
        "agent_settings",
        "model",
        "rag",
        "rag_version",
        "rag_settings",
        "trace_sha256",
    }
)
"""Inputs that two runs are compared because of; the others should be the same."""

_INPUT_NAMES: Final = {
    "dataset_sha256": "dataset",
    "benchmark_sha256": "benchmark",
    "document_sha256": "document",
    "lexicon_hashes": "lexicons",
    "prompt_hashes": "prompts",
}

Suite = Literal["dialogues", "rag", "samples"]
_MAX_CHANGED: Final = 20
_CASES: Final[Mapping[Suite, str]] = {"rag": "question", "dialogues": "dialogue", "samples": "sample"}

Unit = tuple[str, int, int]
"""A dialogue, the epoch of a soak, and a turn, 0 for a value of the whole dialogue; or a question.

Of an inspect_ai log a sample, its epoch, and 0.
"""


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
    runs_a, runs_b = run_directories(run_a), run_directories(run_b)
    suite, other = suite_of(runs_a[0]), suite_of(runs_b[0])
    if suite != other and "samples" in (suite, other):
        log, run = (run_a, run_b) if suite == "samples" else (run_b, run_a)
        raise UsageError(f"{log} is a log of inspect_ai, {run} the directory of a run; give two of the same")
    if suite != other:
        raise UsageError(
            f"{run_a} is a run of the suite {suite}, {run_b} one of {other}; give two of the same"
        )
    repeats = min(len(runs_a), len(runs_b))
    if suite == "samples":
        a, b = _samples(run_a, run_b)
    else:
        measured = _questions if suite == "rag" else dialog_values
        a, b = measured(runs_a), measured(runs_b)
    if repeats > 1:
        for one, runs in ((a, runs_a), (b, runs_b)):
            one.values[PASS_K] = _pass_k(runs, repeats)
    values_a, values_b = a.values, b.values
    cases_a, cases_b = ({unit[0] for value in run.values.values() for unit in value.units} for run in (a, b))
    if not cases_a & cases_b:
        raise UsageError(f"{run_a} and {run_b} have no {_CASES[suite]} in common; nothing can be compared")
    values, not_measured = paired_values(a, b, suite, margins)
    name_a, name_b = a.name or run_a.resolve().name, b.name or run_b.resolve().name
    if name_a == name_b:
        name_a, name_b = str(run_a), str(run_b)
    return Comparison(
        a=name_a,
        b=name_b,
        suite=suite,
        pairs=len(cases_a & cases_b),
        only_a=len(cases_a - cases_b),
        only_b=len(cases_b - cases_a),
        inputs_changed=b.inputs_changed if suite == "samples" else inputs_changed(run_a, run_b),
        values=values,
        changed=most_changed(
            case
            for name in values
            if name in headlines(suite, values)
            for case in changed_cases(name, values_a[name], values_b[name])
        ),
        warnings=[
            f"{name}: {warning}"
            for name, run, path, runs in ((name_a, a, run_a, runs_a), (name_b, b, run_b, runs_b))
            for warning in (
                *_limits(path, runs, run.values[FAILED], suite),
                *(_degenerate(runs) if suite == "dialogues" else run.warnings),
            )
        ],
        not_measured=not_measured,
        repeats=repeats if repeats > 1 else msgspec.UNSET,
    )


def paired_values(
    a: "RunValues", b: "RunValues", suite: Suite, margins: Mapping[str, float] | None = None
) -> tuple[dict[str, PairedValue], dict[str, str]]:
    """Compare the values of two runs; also return those that one did not measure, with the reasons."""
    shared = [name for name in a.values if name in b.values]  # in the order of metrics, and of types
    values = {name: paired_value(a.values[name], b.values[name], a.clients) for name in shared}
    sides: dict[str, list[str]] = {}
    for side, one in (("a", a), ("b", b)):
        for name, reason in one.not_measured.items():
            sides.setdefault(name, []).append(f"{side}: {reason}")
    not_measured = {name: "; ".join(reasons) for name, reasons in sides.items()}
    judge_together(values, headlines(suite, values), margins or {}, not_measured)
    return values, not_measured


def headlines(suite: Suite, names: Collection[str]) -> Collection[str]:
    """Return the names of the headline values: of an inspect_ai log all values."""
    if suite == "dialogues":
        return HEADLINES.union(name for name in names if is_custom(name))
    return names if suite == "samples" else HEADLINES


def run_directories(path: Path) -> list[Path]:
    """Return the run directory itself, or those of the epochs of a soak that are complete and kept."""
    if not (path / SOAK_SUMMARY).is_file():
        return [path]
    epochs = sorted((path / "epochs").glob("*"))
    files = ((SUMMARY, ROWS), (RAG_SUMMARY, RESULTS))
    found = [each for each in epochs if any(all((each / name).is_file() for name in pair) for pair in files)]
    if not found:
        raise UsageError(f"{path}: the soak has no complete epoch with its rows; --keep-epochs keeps some")
    return found


def suite_of(path: Path) -> Suite:
    """Return the suite of a finished run or a log; raise `UsageError` for anything else."""
    if is_log(path):
        return "samples"
    if not path.is_dir():
        raise UsageError(f"{path}: no such directory; give the directory of a run, such as runs/RUN_ID")
    if (path / RAG_SUMMARY).is_file():
        return "rag"
    if (path / SUMMARY).is_file() and (path / ROWS).is_file():
        return "dialogues"
    if (path / ROWS).is_file() or (path / RESULTS).is_file():
        raise UsageError(f"{path}: the run has not finished; memfin resume {path} goes on with it")
    raise UsageError(f"{path}: not a run directory; it needs {SUMMARY} and {ROWS}, or {RAG_SUMMARY}")


class RunValues(NamedTuple):
    """The values of a run, or of the epochs of a soak; ``not_measured`` gives the reasons of others.

    ``clients`` maps dialogues that are sessions to their clients.
    """

    values: dict[str, Measured]
    not_measured: dict[str, str] = {}
    warnings: Sequence[str] = ()
    inputs_changed: list[str] = []
    name: str = ""
    clients: Mapping[str, str] = MappingProxyType({})


def dialog_values(runs: Sequence[Path]) -> RunValues:
    """Return the values of runs of dialogues; those of M2, one per dialogue, are in the summary."""
    state = MetricsState()
    failed = Measured({}, higher_is_better=False)
    values: dict[str, Measured] = {}
    reasons: dict[str, str] = {}
    clients: dict[str, str] = {}
    known: dict[tuple[float, float], tuple[float, float]] = {}  # most units have one of a few values
    for epoch, path in enumerate(runs, 1):
        summary = read_json(path / SUMMARY, EvalSummary)
        reasons |= {
            f"{metric}.{name}": reason
            for metric, result in summary.metrics.items()
            for name, reason in result.not_measured.items()
        }
        for row in _originals(path, clients):
            unit = (row.dialog_id, epoch, row.turn_pair_id)
            lost = (float(is_failed(row)), 1.0)
            failed.units[unit] = known.setdefault(lost, lost)
            for name, right in _probed(state, row):
                pair = (float(sum(right)), float(len(right)))
                values.setdefault(name, Measured({})).units[unit] = known.setdefault(pair, pair)
            for part in state.row_states(row):
                at = (row.dialog_id, epoch, 0) if part.of_dialog else unit
                for share, hits, of in part.units(row):
                    name = f"{part.name}.{share.name}"
                    if name not in values:
                        values[name] = Measured({}, share.high - share.low, not share.lower_is_better)
                    pair = (hits, of)
                    values[name].units[at] = known.setdefault(pair, pair)
        if (profile := summary.metrics.get(state.m2.name)) is not None:
            for name in (share.name for share in state.m2.shares if share.broken_down and not share.optional):
                found = {
                    (key, epoch, 0): (each[name], 1.0)
                    for key, each in profile.by_dialog.items()
                    if name in each
                }
                if found:
                    values.setdefault(f"{state.m2.name}.{name}", Measured({})).units.update(found)
    measured = {name: values[name] for name in sorted(values) if name not in reasons}
    return RunValues({FAILED: failed} | measured, reasons, clients=clients)


def _originals(run: Path, clients: dict[str, str]) -> Iterator[TurnEvalRow]:
    """Yield the rows of a run but those of variants, and note whose sessions the dialogues are."""
    for _, row in iter_jsonl(run / ROWS, TurnEvalRow):
        if row.client_id is not UNSET:
            clients[row.dialog_id] = row.client_id
        if not is_variant(row):
            yield row


def _probed(state: MetricsState, row: TurnEvalRow) -> list[tuple[str, list[bool]]]:
    """Return the probes of M1 and M2 in a row; an answer failed or given, they count after any turn."""
    found = ((state.m1.name, probes_to_know(row)), (state.m2.name, field_probes(row)))
    return [(f"{metric}.probed", right) for metric, right in found if right]


def _questions(runs: Sequence[Path]) -> RunValues:
    """Return the scores of the questions of benchmark runs, together and by type."""
    groups: dict[str, dict[Unit, tuple[float, float]]] = {}
    for epoch, path in enumerate(runs, 1):
        for one in iter_individual_results(path / RAG_SUMMARY):
            unit = (one.id, epoch, 0)
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
    return RunValues(
        {
            name: Measured(units, high - low if name.startswith("judge.") else 1.0, name != FAILED)
            for name, units in groups.items()
        },
    )


def _pass_k(runs: Sequence[Path], k: int) -> Measured:
    """Return the estimate of pass^k of every dialogue or question from the epochs of a soak."""
    passes = count_passes(runs).items()
    return Measured({(name, 0, 0): (all_pass(passed, len(runs), k), 1.0) for name, passed in passes})


def _samples(path_a: Path, path_b: Path) -> tuple[RunValues, RunValues]:
    """Return the scores of two inspect_ai logs; the second carries the settings that changed."""
    a, b = logs = read_log(path_a, FAILED), read_log(path_b, FAILED)
    if a.ids.keys() & b.ids.keys() and not same_samples(a, b):
        raise UsageError(
            f"{path_a} (task {a.settings['task']}) and {path_b} (task {b.settings['task']}) are logs of "
            "different datasets: no sample with the same id has the same input or target"
        )
    spans = {
        name: span(*(log.values[name] for log in logs if name in log.values)) for name in a.values | b.values
    }
    run_a, run_b = (
        RunValues(
            {name: Measured(units, spans[name], name != FAILED) for name, units in log.values.items()},
            log.not_measured,
            log.warnings,
            settings_changed(a, b),
            log.name,
        )
        for log in logs
    )
    return run_a, run_b


def _limits(path: Path, runs: Sequence[Path], failed: Measured, suite: Suite) -> Iterator[str]:
    """Yield what limits the values of a run: many failed turns, epochs that are missing."""
    units = {"rag": tr("questions"), "samples": tr("samples")}.get(suite, tr("turns"))
    count = sum(value for value, _ in failed.units.values())
    if many_failed(int(count), len(failed.units)):
        share = percent(count / len(failed.units))
        yield tr("{share} of the {units} failed, more than 5 %", share=share, units=units)
    if runs != [path]:
        summary = read_json(path / SOAK_SUMMARY, SoakSummary)
        planned = max(summary.limits.epochs or 0, summary.epochs)
        if summary.limits.vary_seed and len(runs) < planned:
            yield tr("{count} of {total} repeats are complete and kept", count=len(runs), total=planned)


def _degenerate(runs: Sequence[Path]) -> Iterator[str]:
    """Yield what is wrong with the replies of a run: empty, echoed, always the same."""
    shapes = ReplyShapes()
    for path in runs:
        for _, trace in iter_jsonl(path / TRACES, DialogTrace) if (path / TRACES).is_file() else ():
            for turn in trace.turns:
                if turn.turn_status == "ok":
                    shapes.add(turn.user_text, turn.pred_assistant_text or "", turn.gt_assistant_text)
    for warning in shapes.warnings():
        if warning.level == "warning":
            yield f"{warning.title.lower()}: {warning.detail}"


class _Inputs(Record):
    """The part of ``config.json`` that is the same in every suite."""

    fingerprint_inputs: dict[str, Any] = {}


def inputs_changed(run_a: Path, run_b: Path) -> list[str]:
    """Return the names of what two runs did not share besides what they are compared because of."""
    a, b = (
        read_json(path / CONFIG, _Inputs).fingerprint_inputs if (path / CONFIG).is_file() else {}
        for path in (run_a, run_b)
    )
    changed = (name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name))
    return [_INPUT_NAMES.get(name, name) for name in changed if name not in _COMPARED]


def paired_value(a: Measured, b: Measured, clients: Mapping[str, str] = MappingProxyType({})) -> PairedValue:
    """Compare a value over the units that carry it, with the same denominator, in both runs.

    The sampling unit is the dialogue, and the client where dialogues are sessions. The verdict is that of
    this value alone; see `judge_together`.
    """
    clusters: dict[tuple[bool, str], tuple[float, float, float]] = {}
    better, worse = 0, 0
    shared = shared_units(a, b)
    for unit in shared:
        (before, of), (after, _) = a.units[unit], b.units[unit]
        gain, loss = max(0.0, after - before), max(0.0, before - after)
        cluster = unit[0] in clients, clients.get(unit[0], unit[0])
        gained, lost, total = clusters.get(cluster, (0.0, 0.0, 0.0))
        clusters[cluster] = (gained + gain, lost + loss, total + of)
        better += after > before if a.higher_is_better else after < before
        worse += after < before if a.higher_is_better else after > before
    found = paired_difference(clusters.values(), a.span)
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
        pairs=len({unit[0] for unit in shared}),
        higher_is_better=a.higher_is_better,
        units=len(shared),
        improved=better,
        worsened=worse,
        p_value=found.p_value,
    )
    return _with_verdict(value, found.p_value, 1)


def judge_together(
    values: dict[str, PairedValue],
    headlines: Collection[str],
    margins: Mapping[str, float],
    not_measured: Mapping[str, str],
) -> None:
    """Adjust the verdicts of the headline values for their number, and hold values against their margins.

    Raises:
        UsageError: a margin names a value that is not there.
    """
    family = {name: value.p_value for name, value in values.items() if name in headlines}
    for name, adjusted in holm(family).items():
        value = msgspec.structs.replace(values[name], p_adjusted=adjusted)
        values[name] = _with_verdict(value, adjusted, len(family))
    for name, value in values.items():
        if value.ci95 is not None and value.verdict in ("better", "worse"):
            # The exact test excludes no difference, and so do the values beyond it.
            low, high = value.ci95
            one_sided = (max(low, 0.0), high) if value.difference > 0 else (low, min(high, 0.0))
            values[name] = msgspec.structs.replace(value, ci95=one_sided)
    for name, margin in margins.items():
        if not margin > 0:
            raise UsageError(f"--margin {name}={margin:g}: must be above 0")
        if name in not_measured:
            raise UsageError(f"--margin {name}: was not measured in {not_measured[name]}")
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
    elif p_value <= 1 - CONFIDENCE and value.difference:
        verdict = "better" if (value.difference > 0) == value.higher_is_better else "worse"
    return msgspec.structs.replace(value, smallest=smallest, verdict=verdict)


def shared_units(a: Measured, b: Measured) -> list[Unit]:
    """Return the units that both runs can be compared in, in order."""
    units = b.units
    return sorted(unit for unit, (_, of) in a.units.items() if unit in units and units[unit][1] == of)


def changed_cases(name: str, a: Measured, b: Measured) -> list[ChangedCase]:
    """Return the cases in which a value is not the same in both runs; ``change`` above 0 is good."""
    sign = 1 if a.higher_is_better else -1
    cases: dict[str, list[Unit]] = {}
    for unit in shared_units(a, b):
        cases.setdefault(unit[0], []).append(unit)
    found = []
    for case, units in cases.items():
        total = sum(a.units[unit][1] for unit in units)
        before, after = (sum(run.units[unit][0] for unit in units) / total for run in (a, b))
        if before != after:
            _, epoch, turn = next(unit for unit in units if a.units[unit] != b.units[unit])
            change = sign * (after - before)
            found.append(
                ChangedCase(
                    id=case, value=name, a=before, b=after, change=change, turn=turn or None, epoch=epoch or 1
                )
            )
    return found


def most_changed(found: Iterable[ChangedCase]) -> list[ChangedCase]:
    """Return the cases that changed most, the worst first, then those that are better, by how much."""
    ordered = sorted(found, key=lambda case: (-abs(case.change), case.id, case.value))[:_MAX_CHANGED]
    return sorted(ordered, key=lambda case: (case.change, case.id, case.value))
