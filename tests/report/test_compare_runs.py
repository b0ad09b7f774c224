"""Two runs compared: pairs, verdicts, what did not stay the same, and the command."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import memfin
from memfin.cli.bench import command as bench
from memfin.cli.compare import command
from memfin.contracts import SoakLimits
from memfin.contracts.run import Comparison
from memfin.errors import GateFailed, UsageError
from memfin.report.comparison import compare_runs
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan
from tests.support import dialog, read_jsonl, write_jsonl

COVERAGE = "m3_risk_coverage.risk_coverage"


class Bold:
    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    def reply(self, user_text: str) -> str:
        return "可以买入。"


class Careful(Bold):
    def reply(self, user_text: str) -> str:
        return "市场存在不确定性，净值会有波动，以上仅供参考，不构成投资建议。"


async def evaluate(tmp_path: Path, name: str, agent: Any, dialogs: int = 10, **more: Any) -> Path:
    data = write_jsonl(tmp_path / f"{name}.jsonl", [dialog(f"d{number}", 2) for number in range(dialogs)])
    await memfin.evaluate(data, agent=agent, runs_dir=str(tmp_path / "runs"), run_id=name, **more)
    return tmp_path / "runs" / name


def compared(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


async def test_a_run_is_no_better_and_no_worse_than_itself(tmp_path: Path) -> None:
    run = await evaluate(tmp_path, "a", Careful)
    found = compare_runs(run, run)
    assert {value.verdict for value in found.values.values()} == {"no_difference"}
    assert {value.difference for value in found.values.values()} == {0.0}
    assert found.changed == []
    assert (found.pairs, found.only_a, found.only_b) == (10, 0, 0)
    assert found.inputs_changed == []


async def test_values_are_those_of_the_summary_where_both_runs_have_all_dialogues(tmp_path: Path) -> None:
    run = await evaluate(tmp_path, "a", Careful)
    summary = json.loads((run / "metrics_summary.json").read_text())
    found = compare_runs(run, run)
    assert found.values.pop("failed").a == 0.0
    for name, value in found.values.items():
        metric, _, key = name.partition(".")
        assert value.a == pytest.approx(summary["metrics"][metric]["micro"][key], abs=1e-12), name


async def test_what_got_better_and_what_got_worse_is_said_either_way_round(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold", Bold), await evaluate(tmp_path, "careful", Careful)
    up, down = compare_runs(bold, careful), compare_runs(careful, bold)
    assert (up.values[COVERAGE].verdict, down.values[COVERAGE].verdict) == ("better", "worse")
    assert up.values[COVERAGE].difference == -down.values[COVERAGE].difference > 0
    assert {case.change > 0 for case in up.changed if case.value == COVERAGE} == {True}
    assert [case.change for case in down.changed] == sorted(case.change for case in down.changed)


async def test_a_value_of_which_less_is_better_turns_the_verdict(tmp_path: Path) -> None:
    run = await evaluate(tmp_path, "a", Careful)
    worse = shutil.copytree(run, tmp_path / "runs" / "b")
    rows = (worse / "turn_eval.jsonl").read_text()
    said, changed = (f'"pred_compliance_label":"{label}"' for label in ("compliant", "severe_violation"))
    assert said in rows
    (worse / "turn_eval.jsonl").write_text(rows.replace(said, changed))
    value = compare_runs(run, worse).values["m4_compliance.severe_violation_rate"]
    assert (value.a, value.b, value.verdict, value.higher_is_better) == (0.0, 1.0, "worse", False)


async def test_dialogues_of_one_run_alone_are_left_out_and_counted(tmp_path: Path) -> None:
    small, large = await evaluate(tmp_path, "small", Bold, 3), await evaluate(tmp_path, "large", Careful, 5)
    found = compare_runs(small, large)
    assert (found.pairs, found.only_a, found.only_b) == (3, 0, 2)
    assert found.values[COVERAGE].pairs == 3
    assert found.inputs_changed == ["dataset"]
    shown = compared(small, large)
    assert "3 dialogues in both runs, 2 only in b left out" in shown.output
    assert "the runs differ in more than what was evaluated: dataset" in shown.output


class Broken(Careful):
    """Fails on every second turn, and answers the others as before."""

    turns = 0

    def reply(self, user_text: str) -> str:
        self.turns += 1
        if self.turns % 2:
            raise RuntimeError("out of order")
        return super().reply(user_text)


async def test_failed_turns_come_first_and_pairs_are_turns_answered_in_both_runs(tmp_path: Path) -> None:
    sound, broken = await evaluate(tmp_path, "sound", Careful), await evaluate(tmp_path, "broken", Broken)
    found = compare_runs(sound, broken)
    failed = found.values["failed"]
    assert next(iter(found.values)) == "failed"
    assert (failed.a, failed.b, failed.worsened, failed.verdict) == (0.0, 0.5, 10, "worse")
    assert found.values[COVERAGE].units == 10
    assert found.values[COVERAGE].difference == 0.0
    assert {case.value for case in found.changed} <= {"failed", "m2_profile_accuracy.profile_score"}
    refused = compared(sound, broken, "--fail-on-worse")
    assert isinstance(refused.exception, GateFailed)
    assert "failed" in str(refused.exception)
    assert "warning: broken: 50.0 % of the turns failed, more than 5 %" in refused.stderr
    assert "warning: sound: 0" not in refused.stderr


async def test_a_changed_case_names_the_first_turn_that_differs(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold", Bold), await evaluate(tmp_path, "careful", Careful)
    found = compare_runs(bold, careful)
    value = found.values[COVERAGE]
    assert (value.improved, value.worsened, value.units) == (20, 0, 20)
    assert {case.turn for case in found.changed if case.value == COVERAGE} == {1}


async def test_two_scored_traces_differ_in_what_is_compared_only(tmp_path: Path) -> None:
    for name, agent in (("a", Careful), ("b", Bold)):
        run = await evaluate(tmp_path, name, agent, 3)
        await Run(make_rescore_plan(run / "dialog_trace.jsonl", tmp_path / "a.jsonl", tmp_path / name)).run()
    assert compare_runs(tmp_path / "a", tmp_path / "b").inputs_changed == []


async def test_an_agent_that_echoes_is_called_one(tmp_path: Path) -> None:
    careful = await evaluate(tmp_path, "careful", Careful)
    echo = await evaluate(tmp_path, "echo", "echo")
    assert any(text.startswith("echo: echoed user turns") for text in compare_runs(careful, echo).warnings)
    assert "echoed user turns" in compared(careful, echo).output


async def test_what_was_not_measured_is_no_value(tmp_path: Path) -> None:
    careful, echo = await evaluate(tmp_path, "careful", Careful), await evaluate(tmp_path, "echo", "echo")
    found = compare_runs(careful, echo)
    key = "m1_context_continuity.key_coverage"
    assert key not in found.values
    assert found.not_measured[key] == "; ".join(
        f"{side}: the agent reported no recall in any turn" for side in "ab"
    )
    output = compared(careful, echo).output
    assert " n/a" in output
    assert "M1 Key coverage, M1 Recoverable keys: not measured, a: the agent reported no recall" in output
    with pytest.raises(UsageError, match="was not measured in a: the agent reported no recall"):
        compare_runs(careful, echo, {key: 0.1})
    refused = compared(careful, echo, "--gate", f"{key}>=0")
    assert isinstance(refused.exception, GateFailed)
    assert "echo: --gate" in str(refused.exception)


async def test_files_hold_the_comparison_in_every_format(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold_1", Bold), await evaluate(tmp_path, "careful", Careful)
    echo = await evaluate(tmp_path, "echo", "echo")
    files = {name: tmp_path / f"c.{name}" for name in ("html", "markdown", "csv", "latex")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    assert compared(bold, careful, echo, *options).exit_code == 0
    texts = {name: path.read_text("utf-8") for name, path in files.items()}
    for name in ("html", "markdown"):
        assert "可以买入。" in texts[name]
        assert "市场存在不确定性" in texts[name]
    assert "<script" not in texts["html"]
    rows = list(csv.DictReader(texts["csv"].splitlines()))
    assert {(row["baseline"], row["run"]) for row in rows} == {("bold_1", "careful"), ("bold_1", "echo")}
    assert next(row for row in rows if row["value"] == COVERAGE)["verdict"] == "better"
    assert r"careful (b) against bold\_1 (a)" in texts["latex"]
    assert texts["latex"].count(r"\midrule") == 2


async def test_soaks_are_compared_over_their_kept_epochs(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog(f"d{number}", 2) for number in range(10)])
    for name, agent in (("bold", Bold), ("careful", Careful)):
        limits = SoakLimits(epochs=2, keep_epochs=2)
        plan = make_soak_plan(data, limits=limits, agent=agent, runs_dir=str(tmp_path), run_id=name)
        await Soak(plan).run()
    value = compare_runs(tmp_path / "bold", tmp_path / "careful").values[COVERAGE]
    assert (value.units, value.pairs, value.verdict) == (40, 10, "better")


class Drifting(Bold):
    """An agent that falls silent about risk after its first epoch."""

    def __init__(self, session: Any, observer: Any) -> None:
        super().__init__(session, observer)
        self.first = session.seed == 0

    def reply(self, user_text: str) -> str:
        return Careful.reply(self, user_text) if self.first else super().reply(user_text)  # type: ignore[arg-type]


async def test_repeats_are_shown_at_their_epoch_and_gated_by_their_means(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog(f"d{number}", 2) for number in range(10)])
    paths = []
    for agent in (Careful, Drifting):
        limits = SoakLimits(epochs=2, vary_seed=True)
        await Soak(
            make_soak_plan(data, limits=limits, agent=agent, runs_dir=tmp_path, run_id=agent.__name__)
        ).run()
        paths.append(tmp_path / agent.__name__)
    found = compare_runs(paths[0], paths[1])
    assert {(case.epoch, case.turn) for case in found.changed if case.turn} == {(2, 1)}
    page = tmp_path / "page.md"
    assert compared(*paths, "--markdown", page).exit_code == 0
    assert ", epoch 2, turn 1" in page.read_text("utf-8")
    mean = json.loads((paths[1] / "soak_summary.json").read_bytes())["metrics"][COVERAGE]["mean"]
    assert 0 < mean < found.values[COVERAGE].a
    assert compared(*paths, "--fail-under", f"{COVERAGE}={mean}").exit_code == 0
    shutil.rmtree(paths[1] / "epochs" / "000002")
    assert "Drifting: 1 of 2 repeats are complete and kept" in compared(*paths).stderr


async def test_new_failures_are_worse_where_the_exact_test_says_so(tmp_path: Path) -> None:
    class Failing(Careful):
        def reply(self, user_text: str) -> str:
            self.turns = getattr(self, "turns", 0) + 1
            if self.turns == 2:
                raise ValueError("every second turn")
            return super().reply(user_text)

    found = compare_runs(
        await evaluate(tmp_path, "a", Careful, 12), await evaluate(tmp_path, "b", Failing, 12)
    )
    failed = found.values["failed"]
    assert failed.verdict == "worse"
    assert failed.ci95 is not None
    assert failed.ci95[0] >= 0 < failed.ci95[1]


async def test_a_margin_tells_what_is_not_inferior(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold", Bold), await evaluate(tmp_path, "careful", Careful)
    assert compare_runs(bold, careful, {COVERAGE: 0.02}).values[COVERAGE].non_inferior is True
    assert compare_runs(careful, bold, {COVERAGE: 0.02}).values[COVERAGE].non_inferior is False
    passed = compared(bold, careful, "--margin", f"{COVERAGE}=0.02")
    assert passed.exit_code == 0
    failed = compared(careful, bold, "--margin", f"{COVERAGE}=0.02")
    assert isinstance(failed.exception, GateFailed)
    assert "0.02" in str(failed.exception)
    with pytest.raises(UsageError, match="unknown value 'risk_coverage'"):
        compare_runs(bold, careful, {"risk_coverage": 0.02})


async def test_one_dialogue_gives_a_difference_and_no_verdict(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold", Bold, 1), await evaluate(tmp_path, "careful", Careful, 1)
    value = compare_runs(bold, careful).values[COVERAGE]
    assert (value.ci95, value.verdict) == (None, "unknown")
    assert value.difference > 0


async def test_runs_are_named_by_their_folders(tmp_path: Path) -> None:
    run = await evaluate(tmp_path, "r", Careful, dialogs=1)
    again = shutil.copytree(run, tmp_path / "rejudged")  # the id stays
    elsewhere = shutil.copytree(run, tmp_path / "elsewhere" / "r")
    assert "rejudged (b) against r (a)" in compared(run, again).output
    found = json.loads(compared(run, elsewhere, "--json").stdout)
    assert (found["a"], found["b"]) == (str(run), str(elsewhere))


async def test_the_command_prints_a_table_json_and_a_gate(tmp_path: Path) -> None:
    bold, careful = await evaluate(tmp_path, "bold", Bold), await evaluate(tmp_path, "careful", Careful)
    table = compared(careful, bold)
    assert table.exit_code == 0
    assert "bold (b) against careful (a)" in table.output
    assert "M3 Risk coverage" in table.output
    assert "worse" in table.output
    assert "M3 Turns with" not in table.output
    assert "M3 Turns with" in compared(careful, bold, "--all").output
    found = Comparison(**json.loads(compared(careful, bold, "--json").stdout))
    assert (found.a, found.b, found.suite) == ("careful", "bold", "dialogues")
    failed = compared(careful, bold, "--fail-on-worse")
    assert isinstance(failed.exception, GateFailed)
    assert COVERAGE in str(failed.exception)
    assert compared(bold, careful, "--fail-on-worse").exit_code == 0


def test_benchmarks_are_compared_question_by_question(tmp_path: Path) -> None:
    runs = {}
    for name, rag in (("oracle", "oracle"), ("builtin", "builtin")):
        done = CliRunner().invoke(
            bench,
            ["--rag", rag, "--run-id", name, "--runs-dir", str(tmp_path / "runs"), "--quiet"],
        )
        assert done.exit_code == 0, done.output
        runs[name] = tmp_path / "runs" / name
    found = compare_runs(runs["oracle"], runs["builtin"])
    assert found.suite == "rag"
    assert found.values["score"].a == 1.0
    assert found.values["score"].verdict == "worse"
    assert list(found.values)[:3] == ["failed", "score", "pass_rate"]
    assert {case.value for case in found.changed} == {"score"}
    assert found.inputs_changed == []
    assert "All questions" in compared(runs["oracle"], runs["builtin"]).output
    failed = compared(runs["oracle"], runs["builtin"], "--gate", "overall_percentage>=99")
    assert isinstance(failed.exception, GateFailed)
    assert compared(runs["oracle"], runs["builtin"], "--gate", "overall_percentage>=1@95").exit_code == 0
    foreign = compared(runs["oracle"], runs["builtin"], "--gate", f"{COVERAGE}>=0.1")
    assert isinstance(foreign.exception, UsageError)
    assert "known: overall_percentage" in str(foreign.exception)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shutil.rmtree, "no such directory"),
        (lambda run: (run / "metrics_summary.json").unlink(), "has not finished; memfin resume"),
        (lambda run: [path.unlink() for path in run.iterdir() if path.is_file()], "not a run directory"),
        (lambda run: (run / "metrics_summary.json").write_text("{}"), "metrics_summary.json"),
        (lambda run: (run / "turn_eval.jsonl").write_text("{}\n"), "turn_eval.jsonl"),
    ],
    ids=["gone", "unfinished", "empty", "summary", "rows"],
)
async def test_what_is_no_run_is_one_line(tmp_path: Path, spoil: Any, said: str) -> None:
    run = await evaluate(tmp_path, "a", Careful)
    other = shutil.copytree(run, tmp_path / "runs" / "b")
    spoil(other)
    with pytest.raises(UsageError, match=said):
        compare_runs(run, other)


async def test_runs_without_a_common_dialogue_are_not_compared(tmp_path: Path) -> None:
    first = await evaluate(tmp_path, "a", Careful)
    data = write_jsonl(tmp_path / "other.jsonl", [dialog("other", 2)])
    await memfin.evaluate(data, agent=Careful, runs_dir=str(tmp_path / "runs"), run_id="b")
    with pytest.raises(UsageError, match="no dialogue in common"):
        compare_runs(first, tmp_path / "runs" / "b")


class Recalling(Careful):
    """Answers a probe with the client's limit."""

    def reply(self, user_text: str) -> str:
        return "您的上限是12%。" if "上限" in user_text else super().reply(user_text)


async def test_memory_and_probes_are_paired(tmp_path: Path) -> None:
    fact = {"id": "loss", "value": "12%", "told_at": 1, "kind": "percent", "field": "constraints"}
    probe = {"id": "p", "after": 2, "question": "我的上限是多少？", "fact": "loss", "kind": "percent"}
    data = []
    for number in range(10):
        one = dialog(f"d{number}", 2, facts=[fact], probes=[probe | {"id": f"p{number}"}])
        one["turns"][3]["turn_tags"] = {"facts_required_gt": ["loss"]}
        data.append(one)
    runs = []
    for agent in (Careful, Recalling):
        await memfin.evaluate(data, agent=agent, runs_dir=str(tmp_path), run_id=agent.__name__)
        runs.append(tmp_path / agent.__name__)
    values = compare_runs(runs[0], runs[1]).values
    for name in ("m1_context_continuity.probed", "m2_profile_accuracy.probed", "memory.probed"):
        value = values[name]
        assert (value.a, value.b, value.units, value.verdict) == (0.0, 1.0, 10, "better"), name
    assert values["memory.used"].units == 10
    assert not values["memory.stale_use"].higher_is_better
    summary = json.loads((runs[1] / "metrics_summary.json").read_text())["metrics"]
    assert summary["m1_context_continuity"]["micro"]["probed"] == values["m1_context_continuity.probed"].b


async def test_variants_under_pressure_are_not_compared(tmp_path: Path) -> None:
    await memfin.evaluate(None, runs_dir=str(tmp_path), run_id="r", limit=3, perturb="distractors")
    turns = sum(
        not each.get("pressure", {}).get("family") for each in read_jsonl(tmp_path / "r/turn_eval.jsonl")
    )
    assert compare_runs(tmp_path / "r", tmp_path / "r").values["failed"].units == turns
