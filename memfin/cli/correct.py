"""``memfin correct`` and ``memfin plan``: rates corrected by labels, and how many labels they need."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from memfin.cli.options import FILE, LABEL_FILES, RUN_DATASET, with_language
from memfin.cli.output import counted, note, print_table
from memfin.contracts.validity import LABELS
from memfin.errors import GateFailed, UsageError
from memfin.language import tr
from memfin.metrics.corrected import RATES
from memfin.report.glossary import format_interval, format_value
from memfin.report.model import percent
from memfin.report.reader import CORRECTIONS, label_files
from memfin.report.render import replace_file
from memfin.report.tables import correction_lines, corrections_table, label, text_table
from memfin.runtime.gates import (
    CORRECTED,
    Gate,
    check_gate,
    corrected_values,
    parse_gate,
    value_directions,
    value_gates,
)
from memfin.runtime.outputs import pretty_json
from memfin.sandbox.references import one_line
from memfin.validity.corrections import JoinedRun, correct_run, is_own, read_run, write_corrections
from memfin.validity.label_plan import MORE, Holds, RatePlan, draw_turns, drawn_lines, rate_plan
from memfin.validity.measurement import InvalidLabels

Goal = tuple[Gate | None, float | None, Holds]
"""A gate or a difference, neither for a width, and what a plan is held against."""

GATES: Final = click.option(
    "--gate",
    "gates",
    metavar="NAME<=X[@95]",
    multiple=True,
    help="A gate on a corrected rate, such as m4_compliance.severe_violation_rate<=0.01@95.  Repeatable.",
)
AS_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")


@click.command("correct")
@click.argument("run", type=click.Path(path_type=Path))
@LABEL_FILES
@RUN_DATASET
@GATES
@click.option("--write", is_flag=True, help=f"Write {CORRECTIONS} into the run, and into its summary.")
@AS_JSON
@with_language()
def command(
    run: Path,
    labels: tuple[Path, ...],
    dataset: Path | None,
    gates: tuple[str, ...],
    *,
    write: bool,
    as_json: bool,
) -> None:
    """Correct the rates of RUN by labels of some of its turns.

    \b
    memfin correct runs/my_run
    memfin correct runs/my_run --labels labels.jsonl --write
    memfin correct runs/my_run --labels labels.jsonl --gate 'm4_compliance.severe_violation_rate<=0.01@95'

    Labels are lines of memfin schema labelled-reply; dialog_id and turn name the turn, probability is that
    with which it was drawn (memfin plan --draw). Without the turn, the same text in the dialogue counts.
    Prints raw values, corrected values and their 95 % intervals, over all turns and by group.

    Exit codes: 0 done, 1 a gate failed, 2 bad usage or input.
    """
    if not (files := label_files(run, labels)) and run.is_dir():
        raise UsageError(
            f"--labels is missing, and {run / LABELS} too; memfin plan {run} --draw 100 --out FILE draws "
            "turns to label"
        )
    held = [_gate(text) for text in gates]
    joined = _read(run, files, dataset)
    found = correct_run(run, joined)
    if as_json:
        click.echo(pretty_json(found).decode(), nl=False)
    else:
        print_table(corrections_table(found), highlight=False)
        for line in correction_lines(found):
            click.echo(line)
    if write:
        write_corrections(run, found)
        if label_files(run) and not is_own(run, files):
            note(f"warning: {run / CORRECTIONS} written; reports use {run / LABELS}, which has precedence")
        else:
            note(f"{run / CORRECTIONS} written; memfin report {run} shows it")
    if problems := value_gates(held, corrected_values(run, found.values)):
        raise GateFailed("; ".join(problems))


@click.command("plan")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--width",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Width of the 95 % interval of each corrected rate.  [default: 0.05, without a gate]",
)
@GATES
@click.option(
    "--power",
    type=click.FloatRange(0.5, 1.0, max_open=True),
    help="Probability of finding the --difference to another run with as many labels, such as 0.8.",
)
@click.option(
    "--difference",
    metavar="D",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Difference of a rate between two runs, such as 0.05.",
)
@LABEL_FILES
@RUN_DATASET
@click.option(
    "--draw", metavar="N", type=click.IntRange(min=1), help="Draw N turns to label and write them to --out."
)
@click.option(
    "--more", type=click.Choice(["detector"]), help="Draw turns with violations found 4 times as often."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draw.")
@click.option("--out", metavar="FILE", type=FILE, help="File of the drawn turns.")
@AS_JSON
@with_language()
def plan(  # noqa: PLR0913 - one argument per option
    run: Path,
    *,
    width: float | None,
    gates: tuple[str, ...],
    power: float | None,
    difference: float | None,
    labels: tuple[Path, ...],
    dataset: Path | None,
    draw: int | None,
    more: str | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Tell how many labels the corrected rates of RUN need, or draw the turns to label.

    \b
    memfin plan runs/my_run --draw 30 --out pilot.jsonl
    memfin plan runs/my_run --labels pilot.jsonl --width 0.05
    memfin plan runs/my_run --labels pilot.jsonl --gate 'm4_compliance.severe_violation_rate<=0.02@95'
    memfin plan runs/my_run --labels pilot.jsonl --power 0.8 --difference 0.05
    memfin plan runs/my_run --draw 200 --more detector --seed 7 --out to_label.jsonl

    The numbers follow from the variances of a pilot of about 30 labels. Without one, the raw rates are taken
    as right and the detectors as adding nothing. Drawn turns have no labels and no findings of the detectors.
    """
    if (draw is None) != (out is None):
        raise UsageError("--draw and --out go together: the number of turns, and the file to write them to")
    if (power is None) != (difference is None):
        raise UsageError(
            "--power and --difference go together: how often, and how large a difference, is found"
        )
    held = [_gate(text) for text in gates]
    joined = _read(run, labels if draw else label_files(run, labels), dataset)
    if draw is not None and out is not None:
        _draw(run, joined, draw, MORE if more else 1.0, seed, out)
        return
    goals: list[Goal] = [(gate, None, partial(_decides, gate)) for gate in held]
    if power is not None and difference is not None:
        goals.append((None, difference, partial(RatePlan.shows, difference=difference, power=power)))
    if width is not None or not goals:
        goals.append((None, None, partial(_within, width or 0.05)))
    rows = list(_plans(joined, goals))
    if as_json:
        click.echo(
            pretty_json({"run_id": joined.run_id, "pilot": joined.joined, "needed": rows}).decode(), nl=False
        )
    else:
        _print_plans(joined, rows)
        if power is not None:
            click.echo(
                tr(
                    "±: labels of each of two runs whose rates differ by so much; {power} of pairs show it",
                    power=percent(power),
                )
            )


def _gate(text: str) -> Gate:
    """Return a gate on a corrected rate, with or without the ending of its name."""
    gate = parse_gate(text)
    if not gate.name.endswith(CORRECTED):
        gate = gate._replace(name=f"{gate.name}{CORRECTED}")
    directions = value_directions()
    check_gate(gate, {name: less for name, less in directions.items() if name.endswith(CORRECTED)})
    return gate


def _read(run: Path, labels: Sequence[Path], dataset: Path | None) -> JoinedRun:
    try:
        joined = read_run(run, labels, dataset)
    except InvalidLabels as invalid:
        for finding in invalid.findings:
            click.echo(one_line(str(finding)), err=True)
        count = counted(len(invalid.findings), "finding")
        raise UsageError(f"{count} in the labels; nothing was corrected") from None
    if joined.unjoined:
        total = joined.joined + len(joined.unjoined)
        note(
            f"warning: {len(joined.unjoined)} of {total} labels belong to no turn of the run; "
            f"the first, {joined.unjoined[0]}"
        )
    if joined.dataset is None:
        note(
            "warning: the run's dataset is not at its place: turns have no constraints, and forbidden claims "
            "are not corrected; name it with --dataset"
        )
    return joined


def _draw(run: Path, joined: JoinedRun, number: int, more: float, seed: int, out: Path) -> None:
    if number > len(joined.turns):
        raise UsageError(f"--draw {number}: only {len(joined.turns)} turns of {run} carry a rate")
    drawn = draw_turns(joined.turns, number, more, seed)
    lines = (msgspec.json.encode(line).decode() for line in drawn_lines(run, joined, drawn))
    replace_file(out, "".join(f"{line}\n" for line in lines))
    note(f"{counted(len(drawn), 'turn')} written to {out}; then memfin correct {run} --labels {out}")


def _plans(joined: JoinedRun, goals: Sequence[Goal]) -> Iterator[dict[str, Any]]:
    """Yield the labels that each rate or gate needs: drawn uniformly, and more of the flagged turns."""
    plans = {name: found for name in RATES if (found := rate_plan(joined, name)) is not None}
    for gate, difference, holds in goals:
        for name in plans if gate is None else [gate.name.removesuffix(CORRECTED)]:
            if (found := plans.get(name)) is None:
                raise UsageError(f"{gate.text if gate else name}: too few turns of the run carry the rate")
            ends = [found._replace(value=end).needed(holds) for end in found.interval]
            low, high = found.interval
            if gate and low <= gate.limit <= high:  # no number of labels decides a rate at the limit
                ends = [min(filter(None, ends), default=None), None]
            yield {
                "value": name,
                "gate": gate and gate.text,
                "passes": gate and (gate.limit - found.value) * (1 if gate.at_most else -1) >= 0,
                "difference": difference,
                "rate": found.value,
                "ci95": found.interval,
                "pilot": found.pilot,
                "uniform": found.needed(holds),
                "range": ends,
                "more_detector": found.needed(holds, MORE) if found.kinds else None,
                "all_turns": found.bounds(sum(found.whole)),
            }


def _within(width: float, plan: RatePlan, labels: int, more: float) -> bool:
    low, high = plan.bounds(labels, more)
    return high - low <= width


def _decides(gate: Gate, plan: RatePlan, labels: int, more: float) -> bool:
    """Return True if the interval lies wholly within the gate, or wholly beyond it."""
    low, high = plan.bounds(labels, more)
    return high <= gate.limit or low > gate.limit if gate.at_most else low >= gate.limit or high < gate.limit


def _print_plans(joined: JoinedRun, rows: list[dict[str, Any]]) -> None:
    whole = len(joined.turns)

    def number(needed: int | None) -> str:
        return f">{whole:,}" if needed is None else f"{needed:,}"

    cells = (
        (
            label(row["value"], "dialogues")
            + (row["gate"] or "").removeprefix(f"--gate {row['value']}")
            + (f" ±{row['difference']:g}" if row["difference"] else ""),
            format_value(row["value"], row["rate"]),
            format_interval(row["value"], row["ci95"]),
            f"{row['pilot']:,}",
            number(row["uniform"]),
            "..".join(number(each) for each in sorted(row["range"], key=lambda n: n or whole + 1)),
            number(row["more_detector"]) if row["more_detector"] else "-",
        )
        for row in rows
    )
    headings = (
        *(tr("Value"), tr("Rate"), tr("95 % interval"), tr("Pilot")),
        *(tr("Labels needed"), tr("Range"), tr("More flagged")),
    )
    print_table(
        text_table(tr("Run {run_id}: labels", run_id=joined.run_id), "", headings, cells), highlight=False
    )
    if not all(row["pilot"] for row in rows):
        click.echo(
            tr("pilot 0: assumes that raw rates are right and detectors add nothing; label 30 turns first")
        )
    if any(row["passes"] is False for row in rows):
        click.echo(tr("gate: the rate is beyond it; so many labels show that it fails"))
    click.echo(tr("range: with the rate at either end of its interval; the numbers are as sure as that"))
    click.echo(
        tr("numbers are labels of one draw, of {turns:,} turns; >: more than the run has", turns=whole)
    )
