"""Labels joined with a run, corrected rates, the plan of labels and the draw of turns."""

import asyncio
import json
import math
import random
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from memfin.contracts import ANY_RISK_TAG, EvalSummary, JudgeRequest, LabelledReply, TurnEvalRow, Verdict
from memfin.contracts.base import ComplianceLabel
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.corrected import RATES, Reading, corrected_difference, corrected_rate
from memfin.report import load_report, render_html_report, render_markdown_report
from memfin.runtime.api import evaluate
from memfin.scoring.risk import DETECTED_TAGS
from memfin.validity.corrections import JoinedRun, ReadTurn, correct_run, current_corrections, read_run
from memfin.validity.label_plan import MORE, Holds, RatePlan, draw_turns, drawn_lines, rate_plan
from memfin.validity.measurement import InvalidLabels
from tests.commands import run_command
from tests.support import length, write_jsonl

SEVERE = "m4_compliance.severe_violation_rate"
Line = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("corrections") / "runs"
    asyncio.run(evaluate(None, runs_dir=str(runs), run_id="r1", limit=6))
    return runs / "r1"


def by_detectors(run: Path) -> list[Line]:
    """Return a label per turn that says what the row says."""
    turns = {
        (dialog["dialog_id"], turn["turn_pair_id"]): turn
        for dialog in map(json.loads, (run / "dialog_trace.jsonl").read_text("utf-8").splitlines())
        for turn in dialog["turns"]
    }
    return [
        {
            "id": f"{row.dialog_id}#{row.turn_pair_id}",
            "text": turns[row.dialog_id, row.turn_pair_id]["pred_assistant_text"],
            "dialog_id": row.dialog_id,
            "turn": row.turn_pair_id,
            "contradiction": row.constraint_contradiction,
            "compliance": row.pred_compliance_label,
            "forbidden_hits": row.forbidden_hits,
            "risk_tags": {
                tag: tag in row.risk_pred_tags
                for tag in DETECTED_TAGS.union(row.risk_required_tags) - {ANY_RISK_TAG}
            },
            "rubric": {item: item in row.rubric_hit_items for item in row.rubric_required},
        }
        for _, row in iter_jsonl(run / "turn_eval.jsonl", TurnEvalRow)
    ]


def corrected(run: Path, *lines: Line) -> Any:
    path = write_jsonl(home(run) / "labels.jsonl", lines)
    return correct_run(run, read_run(run, [path]))


def test_labels_that_say_what_the_detectors_say_change_nothing(run: Path) -> None:
    found = corrected(run, *by_detectors(run))
    summary = json.loads((run / "metrics_summary.json").read_bytes())["metrics"]
    assert list(found.values) == list(RATES)
    for name, value in found.values.items():
        metric, _, key = name.partition(".")
        assert value.raw == pytest.approx(summary[metric]["micro"][key]), name
        assert value.value == pytest.approx(value.raw), name
        assert value.alone == pytest.approx(value.raw), name
    assert found.unjoined == 0


def changed(line: Line, chance: random.Random) -> Line:
    """Return a label whose parts are drawn."""
    return line | {
        "contradiction": int(chance.random() < 0.3),
        "compliance": chance.choice(["compliant", "minor_violation", "severe_violation"]),
        "forbidden_hits": [],
        "risk_tags": {tag: chance.random() < 0.5 for tag in line["risk_tags"]},
        "rubric": {item: chance.random() < 0.5 for item in line["rubric"]},
    }


def test_the_rates_of_a_run_that_is_labelled_whole_are_those_of_the_labels(run: Path) -> None:
    chance = random.Random(1)
    lines = [changed(line, chance) for line in by_detectors(run)]
    found = corrected(run, *lines)
    labels = {(line["dialog_id"], line["turn"]): line for line in lines}
    state = MetricsState()
    for _, row in iter_jsonl(run / "turn_eval.jsonl", TurnEvalRow):
        line = labels[row.dialog_id, row.turn_pair_id]
        tags = {tag for tag, met in line["risk_tags"].items() if met}
        state.add_row(
            row.replace(
                constraint_contradiction=line["contradiction"],
                pred_compliance_label=line["compliance"],
                forbidden_hits=[],
                risk_tag_hits=len(tags.intersection(row.risk_required_tags))
                + (ANY_RISK_TAG in row.risk_required_tags and bool(tags)),
                rubric_hit_items=[item for item, met in line["rubric"].items() if met],
            )
        )
    for name, value in found.values.items():
        metric, _, key = name.partition(".")
        assert value.value == pytest.approx(state.results()[metric].micro[key]), name


class LenientJudge:
    """Finds every required item in a reply, and a severe violation in one whose length is even."""

    def judge(self, request: JudgeRequest) -> Verdict:
        label: ComplianceLabel = "compliant" if len(request.reply) % 2 else "severe_violation"
        rest: dict[str, Any] = {"risk_tags": [], "contradicted_constraints": []}
        return Verdict(score=4, rubric_items=request.rubric_required, compliance=label, **rest)


async def test_what_a_judge_read_is_corrected_like_what_detectors_found(run: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"runs_dir": str(tmp_path / "runs"), "run_id": "r1", "limit": 6}
    await evaluate(None, judge=LenientJudge, judge_scope="all", **settings)
    lines = by_detectors(run)  # the same replies, as the detectors read them
    found = corrected(tmp_path / "runs" / "r1", *lines)
    judged, detected = (
        read_json(each / "metrics_summary.json", EvalSummary).metrics
        for each in (tmp_path / "runs" / "r1", run)
    )
    for metric, key in (
        ("m4_compliance", "severe_violation_rate"),
        ("m3_risk_coverage", "risk_coverage"),
        ("m5_explainability", "rubric_hit_rate"),
    ):
        value = found.values[f"{metric}.{key}"]
        assert value.raw == pytest.approx(judged[metric].micro[key])
        assert value.value == pytest.approx(detected[metric].micro[key])
        assert abs(value.raw - value.value) > 0.1


def test_a_group_needs_ten_labels_in_two_dialogues(run: Path) -> None:
    lines = by_detectors(run)
    found = corrected(run, *lines)
    sizes = dict.fromkeys(found.by_difficulty, 0)
    for dialog in map(json.loads, (run / "dialog_trace.jsonl").read_text("utf-8").splitlines()):
        sizes[dialog["difficulty"]] += 1
    for name, values in found.by_difficulty.items():
        assert (values[SEVERE] is not None) == (sizes[name] >= 2), name
    few = corrected(run, *lines[:9])
    assert all(value is None for group in few.by_difficulty.values() for value in group.values())


def test_a_partial_label_serves_the_rates_that_it_speaks_of(run: Path) -> None:
    kept = ("id", "text", "dialog_id", "turn", "compliance")
    found = corrected(run, *({name: line[name] for name in kept} for line in by_detectors(run)))
    labelled = {name for name, value in found.values.items() if value is not None}
    assert labelled == {name for name, field in RATES.items() if field == "compliance"}


def test_a_label_without_a_turn_joins_by_its_text_and_others_are_counted(run: Path) -> None:
    lines = by_detectors(run)
    texts = [line["text"] for line in lines]
    lines = [line for line in lines if texts.count(line["text"]) == 1]
    for line in lines:
        del line["turn"]
    strays = [
        lines[0] | {"id": "a", "text": "不是这次运行的回复"},
        lines[0] | {"id": "b", "dialog_id": "nobody"},
        lines[0] | {"id": "c", "turn": 99},
        lines[0] | {"id": "d", "turn": 1, "text": "别的"},
    ]
    path = write_jsonl(home(run) / "strays.jsonl", [*lines, *strays])
    joined = read_run(run, [path])
    assert (joined.joined, len(joined.unjoined)) == (len(lines), 4)
    assert joined.unjoined[0] == (
        f"{path}:{len(lines) + 1}: no replies of {lines[0]['dialog_id']!r} have its text; name the turn"
    )
    with pytest.raises(UsageError, match="no label belongs to a turn"):
        corrected(run, *strays)


def test_equal_labels_of_two_readers_count_once_and_unequal_ones_are_named(run: Path) -> None:
    lines = by_detectors(run)
    again = [line | {"reader": "b"} for line in lines]
    assert corrected(run, *lines, *again).values == corrected(run, *lines).values
    other = lines[3] | {"reader": "b", "compliance": "severe_violation"}
    path = home(run) / "labels.jsonl"
    with pytest.raises(InvalidLabels) as refused:
        corrected(run, *lines, other)
    assert str(refused.value) == (
        f"{path}:{len(lines) + 1}: $.compliance: unlike {path}:4, a label of the same turn "
        f"{other['turn']} of "
        f'{other["dialog_id"]!r}; correct one, or add a label with "reader": "adjudicated"'
    )
    settled = corrected(run, *lines, other, other | {"reader": "adjudicated"})
    assert settled.values[SEVERE].alone == pytest.approx(1 / len(lines))


def test_some_labels_with_a_probability_and_some_without_are_refused(run: Path) -> None:
    first, *others = by_detectors(run)
    with pytest.raises(UsageError, match=r"labels.jsonl:2: no probability, though others"):
        corrected(run, first | {"probability": 0.5}, *others)
    with pytest.raises(InvalidLabels, match=r"\$\.probability: 2 is not from 0 to 1"):
        corrected(run, first | {"probability": 2})


def test_turns_picked_by_hand_are_left_out(run: Path) -> None:
    first, *others = by_detectors(run)
    picked = first | {"probability": 0, "reader": "b", "compliance": "severe_violation"}
    assert corrected(run, first, *others, picked).values == corrected(run, first, *others).values


def constructed(
    chance: random.Random, dialogs: int = 150, rate: float = 0.15
) -> tuple[JoinedRun, dict[tuple[str, int], float]]:
    """Return a run with one rate, which detectors read well but not rightly, and the truth of its turns."""
    turns, truth = [], {}
    for number in range(dialogs):
        own = chance.betavariate(8 * rate, 8 - 8 * rate)
        for turn in range(8):
            truth[str(number), turn] = hit = float(chance.random() < own)
            seen = float(chance.random() < (0.85 if hit else 0.08))
            reading = {SEVERE: Reading(str(number), seen)}
            turns.append(ReadTurn((str(number), turn), None, None, bool(seen), reading))
    return JoinedRun("r1", turns, None, 0, (), None), truth


def labelled(
    run: JoinedRun, truth: dict[tuple[str, int], float], number: int, more: float, seed: int
) -> JoinedRun:
    drawn = draw_turns(run.turns, number, more, seed)
    turns = [
        each._replace(
            readings={
                SEVERE: each.readings[SEVERE]._replace(label=truth[each.turn], probability=drawn[each.turn])
            }
        )
        if each.turn in drawn
        else each
        for each in run.turns
    ]
    return run._replace(turns=turns)


def interval(run: JoinedRun) -> tuple[float, float]:
    found = corrected_rate(turn.readings[SEVERE] for turn in run.turns)
    assert found is not None
    return found.ci95


@pytest.mark.parametrize("more", [1.0, MORE])
def test_the_intervals_of_drawn_turns_hold_the_rate(more: float) -> None:
    chance, held, redraws = random.Random(7), 0, length(60, 4000)
    for seed in range(redraws):
        run, truth = constructed(chance)
        low, high = interval(labelled(run, truth, 120, more, seed))
        held += low <= 0.15 <= high
    assert held / redraws >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / redraws)


def test_a_draw_has_its_number_and_its_probabilities() -> None:
    run, _ = constructed(random.Random(1), 40)
    for number, more in ((1, 1.0), (50, MORE), (300, MORE), (320, MORE)):
        drawn = draw_turns(run.turns, number, more, 3)
        assert len(drawn) == number
    counts = dict.fromkeys((turn.turn for turn in run.turns), 0)
    draws = [draw_turns(run.turns, 60, MORE, seed) for seed in range(200)]
    for drawn in draws:
        for turn in drawn:
            counts[turn] += 1
    for flagged in (False, True):
        turns = [turn.turn for turn in run.turns if turn.flagged == flagged]
        chances = {drawn[turn] for drawn in draws for turn in turns if turn in drawn}
        share = sum(counts[turn] for turn in turns) / len(turns) / len(draws)
        assert [share] == pytest.approx(list(chances), rel=0.1)


def narrower_than(width: float) -> Holds:
    def holds(plan: RatePlan, labels: int, more: float) -> bool:
        low, high = plan.bounds(labels, more)
        return high - low <= width

    return holds


@pytest.mark.parametrize("more", [1.0, MORE])
def test_the_planned_number_of_labels_has_the_width(more: float) -> None:
    run, truth = constructed(random.Random(5), 400)
    plans = [rate_plan(labelled(run, truth, 400, 1.0, seed), SEVERE) for seed in range(5)]
    needed = [plan.needed(narrower_than(0.06), more) for plan in plans if plan]
    number = int(median(each for each in needed if each))
    bounds = [interval(labelled(run, truth, number, more, seed)) for seed in range(1, 12)]
    assert median(high - low for low, high in bounds) == pytest.approx(0.06, rel=0.15)


@pytest.mark.parametrize("difference", [0.08, -0.08])
def test_the_planned_number_of_labels_shows_the_difference(difference: float) -> None:
    chance, power = random.Random(3), 0.8
    plans = []
    for seed in range(5):
        run, truth = constructed(chance, 250)
        plans.append(rate_plan(labelled(run, truth, 300, 1.0, seed), SEVERE))
    holds = partial(RatePlan.shows, difference=abs(difference), power=power)
    needed = [plan.needed(holds) for plan in plans if plan]
    number, shown, redraws = int(median(each for each in needed if each)), 0, length(20, 1000)
    for seed in range(redraws):
        sides = [
            labelled(*constructed(chance, 250, rate), number, 1.0, seed) for rate in (0.15, 0.15 + difference)
        ]
        found = corrected_difference(*([turn.readings[SEVERE] for turn in side.turns] for side in sides))
        assert found is not None
        low, high = found.ci95
        shown += low > 0 if difference > 0 else high < 0
    assert shown / redraws >= power - 2 * math.sqrt(power * (1 - power) / redraws)


def test_without_a_pilot_the_detectors_count_for_nothing() -> None:
    run, truth = constructed(random.Random(5), 400)
    blind, seeing = rate_plan(run, SEVERE), rate_plan(labelled(run, truth, 100, 1.0, 0), SEVERE)
    assert blind is not None
    assert seeing is not None
    assert (blind.pilot, blind.gain) == (0, 0.0)
    assert seeing.gain > 0.2
    assert blind.needed(narrower_than(1e-6)) is None


def test_drawn_lines_are_labels_to_fill_in_and_hold_nothing_of_the_detectors(run: Path) -> None:
    joined = read_run(run)
    lines = list(drawn_lines(run, joined, draw_turns(joined.turns, 10, 1.0, 1)))
    fields = {"id", "text", "user_text", "dialog_id", "turn", "constraints", "probability"}
    assert {frozenset(line) for line in lines} == {frozenset(fields)}
    assert all(msgspec.convert(line, LabelledReply).text for line in lines)
    again = list(drawn_lines(run, joined, draw_turns(joined.turns, 10, 1.0, 1)))
    assert again == lines


@pytest.fixture
def written(run: Path) -> Iterable[Path]:
    """Yield the run with corrections.json."""
    lines = [changed(line, random.Random(line["id"])) for line in by_detectors(run)]
    write_jsonl(home(run) / "drawn.jsonl", lines)
    summary = (run / "metrics_summary.json").read_bytes()
    done = run_command("correct", "runs/r1", "--labels", "drawn.jsonl", "--write", cwd=home(run))
    assert done.returncode == 0, done.stderr
    yield run
    (run / "corrections.json").unlink()
    (run / "metrics_summary.json").write_bytes(summary)


def home(run: Path) -> Path:
    """Return a directory where the run is runs/r1."""
    return run.parent.parent


def test_the_report_shows_corrected_rates_of_the_present_rows_only(written: Path) -> None:
    found = json.loads((written / "corrections.json").read_bytes())["values"][SEVERE]
    report = load_report(written)
    shown = f"corrected: {found['value']:.1%}".replace("%", " %")
    for text in (render_html_report(report), render_markdown_report(report)):
        assert shown in text
        assert f"{found['labels']} labels" in text
    rows = (written / "turn_eval.jsonl").read_bytes()
    try:
        (written / "turn_eval.jsonl").write_bytes(rows + b"\n")
        text = render_markdown_report(load_report(written))
    finally:
        (written / "turn_eval.jsonl").write_bytes(rows)
    assert "corrected: " not in text
    assert "Corrected rates are left out" in text


def test_finished_runs_are_held_to_gates_on_corrected_rates(written: Path) -> None:
    folder, rows = home(written), "runs/r1/turn_eval.jsonl"
    gate = f"{SEVERE}.corrected<=0.01@95"
    for words in (
        ("aggregate", rows, "--gate", gate),
        ("compare", "runs/r1", "runs/r1", "--gate", gate),
        ("correct", "runs/r1", "--labels", "drawn.jsonl", "--gate", f"{SEVERE}<=0.01@95"),
    ):
        done = run_command(*words, cwd=folder)
        assert done.returncode == 1, done.stderr
        assert "the bound of its 95 % interval" in done.stderr
    assert run_command("validate", "runs/r1", cwd=folder).returncode == 0


def test_without_corrections_a_gate_on_them_fails(run: Path) -> None:
    done = run_command(
        "aggregate", "runs/r1/turn_eval.jsonl", "--gate", f"{SEVERE}.corrected<=1", cwd=home(run)
    )
    assert done.returncode == 1
    assert "was not measured: no labels of its turns; memfin label runs/r1 makes them" in done.stderr


@pytest.fixture
def with_labels(run: Path, tmp_path: Path) -> Path:
    """Return a copy of the run, runs/r1 in ``tmp_path``, with labels of its own."""
    copy = tmp_path / "runs" / "r1"
    shutil.copytree(run, copy)
    write_jsonl(
        copy / "labels.jsonl", [changed(line, random.Random(line["id"])) for line in by_detectors(run)]
    )
    return copy


def test_a_run_with_labels_has_corrected_rates_everywhere(with_labels: Path, tmp_path: Path) -> None:
    found = current_corrections(with_labels)
    assert found is not None
    assert found.files[0].path == "labels.jsonl"
    value = found.values[SEVERE]
    assert value is not None
    shown = f"corrected: {value.value:.1%}".replace("%", " %")
    aggregated = run_command("aggregate", "runs/r1/turn_eval.jsonl", cwd=tmp_path)
    assert json.loads(aggregated.stdout)["corrected"][SEVERE]["value"] == value.value
    assert not (with_labels / "corrections.json").exists()
    assert run_command("report", "runs/r1", cwd=tmp_path).returncode == 0
    assert shown in (with_labels / "report.md").read_text("utf-8")
    summary = read_json(with_labels / "metrics_summary.json", EvalSummary)
    assert summary.corrected
    assert summary.corrected[SEVERE] == value
    files = [(with_labels / name).read_bytes() for name in ("metrics_summary.json", "corrections.json")]
    assert run_command("correct", "runs/r1", "--write", cwd=tmp_path).returncode == 0
    assert files == [
        (with_labels / name).read_bytes() for name in ("metrics_summary.json", "corrections.json")
    ]
    assert run_command("validate", "runs/r1", cwd=tmp_path).returncode == 0
    (tmp_path / "other.jsonl").write_bytes((with_labels / "labels.jsonl").read_bytes())
    done = run_command("correct", "runs/r1", "--labels", "other.jsonl", "--write", cwd=tmp_path)
    assert "reports use runs/r1/labels.jsonl, which has precedence" in done.stderr


def test_corrected_rates_follow_the_labels_and_a_summary_with_others_is_a_finding(
    with_labels: Path, tmp_path: Path
) -> None:
    labels = (with_labels / "labels.jsonl").read_bytes()
    done = run_command("resume", "runs/r1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (with_labels / "labels.jsonl").read_bytes() == labels
    path = with_labels / "metrics_summary.json"
    summary = json.loads(path.read_bytes())
    summary["corrected"][SEVERE]["value"] = 0.5
    path.write_text(json.dumps(summary), "utf-8")
    checked = run_command("validate", "runs/r1", cwd=tmp_path)
    assert checked.returncode == 1
    assert "$.corrected: differs from corrections.json" in checked.stdout
    write_jsonl(with_labels / "labels.jsonl", by_detectors(with_labels))
    found = current_corrections(with_labels)
    assert found is not None
    value = found.values[SEVERE]
    assert value is not None
    assert value.value == pytest.approx(value.raw)


def test_labels_that_contradict_each_other_are_a_warning(with_labels: Path, tmp_path: Path) -> None:
    line = by_detectors(with_labels)[0]
    with (with_labels / "labels.jsonl").open("a") as file:
        for label in ("compliant", "severe_violation"):
            file.write(json.dumps(line | {"id": label, "reader": label, "compliance": label}) + "\n")
    for words in (
        ("report", "runs/r1"),
        ("compare", "runs/r1", "runs/r1"),
        ("aggregate", "runs/r1/turn_eval.jsonl"),
    ):
        done = run_command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "warning: the labels are not used: " in done.stderr


def test_a_trace_with_labels_is_scored_with_them(with_labels: Path, tmp_path: Path) -> None:
    trace, gate = "runs/r1/dialog_trace.jsonl", f"{SEVERE}.corrected<=0.01@95"
    done = run_command("score", trace, "--out", "scored", "--gate", gate, cwd=tmp_path)
    assert done.returncode == 1
    assert "the bound of its 95 % interval" in done.stderr
    assert "M4 Severe violations" in done.stdout
    summary = read_json(tmp_path / "scored" / "metrics_summary.json", EvalSummary)
    assert summary.corrected
    assert summary.corrected.keys() >= {SEVERE}


def test_the_gate_of_a_new_run_names_the_command_that_makes_labels(tmp_path: Path) -> None:
    gate = f"{SEVERE}.corrected<=0.01@95"
    (tmp_path / "memfin.toml").write_text(f'gate = ["{gate}"]\n')
    done = run_command("run", "--limit", "1", "--run-id", "r", "--quiet", cwd=tmp_path)
    assert done.returncode == 1
    assert f"--gate {gate}: the value was not measured: no labels of its turns; memfin label " in done.stderr
    resumed = run_command("resume", "runs/r", "--quiet", cwd=tmp_path)
    assert resumed.returncode == 1
    assert "no labels of its turns" in resumed.stderr


def test_runs_with_labels_are_compared_in_corrected_rates(with_labels: Path, tmp_path: Path) -> None:
    other = tmp_path / "runs" / "r2"
    shutil.copytree(with_labels, other)
    write_jsonl(other / "labels.jsonl", by_detectors(other))
    words = ("compare", "runs/r1", "runs/r2", "--html", "c.html", "--markdown", "c.md")
    done = run_command(*words, "--json", cwd=tmp_path)
    value = json.loads(done.stdout)["values"][SEVERE]
    found = value["corrected"]
    assert value["difference"] == 0.0
    assert found["difference"] == pytest.approx(found["b"]["value"] - found["a"]["value"])
    assert found["ci95"][0] < found["difference"] < found["ci95"][1]
    text = run_command(*words, cwd=tmp_path).stdout
    assert "Corrected by labels; verdicts are those of the raw values:" in text
    for file in ("c.html", "c.md"):
        assert "Corrected by labels" in (tmp_path / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("correct", "runs/r1"), "--labels is missing, and runs/r1/labels.jsonl too"),
        (("correct", "nowhere", "--labels", "x.jsonl"), "nowhere: no such directory"),
        (("correct", "runs/r1", "--labels", "x.jsonl"), "x.jsonl"),
        (("plan", "runs/r1", "--draw", "5"), "--draw and --out go together"),
        (("plan", "runs/r1", "--power", "0.8"), "--power and --difference go together"),
        (("plan", "runs/r1", "--draw", "5000", "--out", "x.jsonl"), "turns of runs/r1 carry a rate"),
        (("plan", "runs/r1", "--gate", "m3_risk_coverage.risk<=1"), "unknown value"),
        (
            ("plan", "runs/r1", "--gate", "x<=1"),
            "known: m1_context_continuity.contradiction_rate.corrected, ",
        ),
    ],
)
def test_bad_input_is_one_line(run: Path, words: tuple[str, ...], line: str) -> None:
    done = run_command(*words, cwd=home(run))
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_directory_in_the_place_of_labels_is_refused(run: Path) -> None:
    (run / "labels.jsonl").mkdir()
    for words in ("correct", "plan", "signoff", "bundle"):
        done = run_command(words, "runs/r1", cwd=home(run))
        assert done.returncode == 2
        assert done.stderr.startswith("memfin: runs/r1/labels.jsonl")
        assert len(done.stderr.splitlines()) == 1


def test_words_say_which_rates_not_to_quote(written: Path) -> None:
    done = run_command("correct", "runs/r1", "--labels", "drawn.jsonl", "--lang", "en", cwd=home(written))
    assert "M4 Severe violations: do not quote the raw" in done.stdout
    found = json.loads(
        run_command("plan", "runs/r1", "--labels", "drawn.jsonl", "--json", cwd=home(written)).stdout
    )
    assert {row["value"] for row in found["needed"]} == set(RATES)
    words = ("plan", "runs/r1", "--labels", "drawn.jsonl", "--power", "0.8", "--difference", "0.25")
    assert "±0.25" in run_command(*words, cwd=home(written)).stdout


@pytest.mark.parametrize(("limit", "passes"), [(0.99, True), (0.0, False)])
def test_a_plan_decides_a_gate_either_way(written: Path, limit: float, passes: bool) -> None:
    words = ("plan", "runs/r1", "--labels", "drawn.jsonl", "--gate", f"{SEVERE}<={limit}", "--lang", "en")
    (row,) = json.loads(run_command(*words, "--json", cwd=home(written)).stdout)["needed"]
    assert row["passes"] == passes
    assert 2 <= row["uniform"] < 200
    assert ("it fails" in run_command(*words, cwd=home(written)).stdout) != passes


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_point_estimates_are_those_of_ppi_python(weight: float) -> None:
    ppi = pytest.importorskip("ppi_py")
    numpy = pytest.importorskip("numpy")
    run, truth = constructed(random.Random(9))
    readings = [turn.readings[SEVERE] for turn in labelled(run, truth, 200, MORE, 1).turns]
    read = [each for each in readings if each.label is not None]
    found = corrected_rate(readings, weight=weight)
    expected = ppi.ppi_mean_pointestimate(
        numpy.array([each.label for each in read]),
        numpy.array([each.detected for each in read]),
        numpy.array([each.detected for each in readings]),
        lam=weight,
        w=numpy.array([1 / each.probability for each in read]),
    )
    assert found is not None
    assert found.value == pytest.approx(float(expected[0]), abs=1e-9)
