"""Benchmarks from Python: the runner of the schema, its asynchronous form, a run inside a host's loop."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

import memfin
from memfin.contracts import (
    ModelUsage,
    ParameterChange,
    ProgressEvent,
    QuestionDone,
    QuestionStarted,
    RunFinished,
    RunStarted,
    Warned,
)
from memfin.contracts.rag import SUMMARY, RagAnswer, RagSummary, iter_individual_results
from memfin.errors import GateFailed, UsageError
from memfin.journal import QUESTIONS
from memfin.rag.scoring import score_question
from memfin.report import load_report, render_markdown_report
from memfin.runtime.bench import BenchEvaluation, BenchmarkRunner
from memfin.runtime.bench_plan import make_bench_plan, make_bench_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.rag.bench_support import DOCUMENT, RIGHT, Counting, benchmark, fact, gap, mixed
from tests.support import read_jsonl


def test_the_runner_of_the_schema_is_synchronous_and_returns_the_summary(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    runner = memfin.BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path / "runs", run_id="r")
    summary = runner.run_benchmark(Counting(wrong="f03"), question_type="fact_exact")
    assert (summary["total_tests"], summary["passed_tests"]) == (10, 9)
    assert summary["overall_percentage"] == pytest.approx(93.0)
    assert summary["type_filter"] == "fact_exact"
    assert [one.id for one in summary.individual_results if not one.passed] == ["f03"]
    assert list(validate_run(tmp_path / "runs" / "r")) == []


async def test_in_a_running_loop_the_error_names_the_asynchronous_form(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    with pytest.raises(UsageError, match=r"await runner\.run_benchmark_async"):
        BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path).run_benchmark(Counting())


async def test_its_asynchronous_form_runs_in_the_hosts_loop(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    events: list[ProgressEvent] = []
    runner = BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path, run_id="r", on_event=events.append)
    summary = await runner.run_benchmark_async(Counting())
    assert summary.total_tests == 12
    assert summary.by_type["fact_exact"].passed == 10
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert sum(isinstance(event, QuestionStarted) for event in events) == 12
    done = [event for event in events if isinstance(event, QuestionDone)]
    assert sorted(event.question_index for event in done) == list(range(1, 13))
    assert {event.question_id for event in done if event.passed} >= {f"f{number:02}" for number in range(10)}


async def test_the_artefacts_are_those_of_the_layout_and_tell_one_story(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    summary = await Run(
        make_bench_plan(tmp_path / "b", rag=Counting(broken="f01"), runs_dir=tmp_path, run_id="r")
    ).run()
    there = {path.name for path in (tmp_path / "r").iterdir()}
    assert there == {".lock", "commits.log", *QUESTIONS.rows, *QUESTIONS.artifacts}
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "r" / "rag_results.jsonl")}
    assert sorted(row["question_index"] for row in rows.values()) == list(range(1, 13))
    assert rows["f00"]["answer"]["answer"] == RIGHT["answer"]
    assert rows["f00"]["latency_ms"] >= 0
    assert rows["f01"]["error"] == "ValueError: cannot answer f01"
    assert (rows["f01"]["answer"], rows["f01"]["score"], rows["f01"]["passed"]) == (None, 0, False)
    manifest = json.loads((tmp_path / "r" / "run_manifest.json").read_bytes())
    assert manifest["suite"] == "rag"
    assert manifest["counters"]["total_dialogs"] == 12
    assert manifest["counters"]["failed_dialogs"] == 1
    stats = json.loads((tmp_path / "r" / "run_stats.json").read_bytes())
    assert stats["turns_by_status"] == {"error": 1, "ok": 11}
    assert stats["turn_latency_ms"]["count"] == 11
    assert summary.errors == 1
    assert json.loads((tmp_path / "r" / "rag_summary.json").read_bytes())["errors"] == 1
    assert list(validate_run(tmp_path / "r")) == []


async def test_the_summary_is_the_same_bytes_whatever_the_number_of_workers(tmp_path: Path) -> None:
    mixed(tmp_path / "b", facts=30)
    found = set()
    for workers in (1, 3, 16):
        plan = make_bench_plan(
            tmp_path / "b",
            rag=Counting(wrong="f02 f07", broken="f11"),
            runs_dir=tmp_path / str(workers),
            run_id="r",
            workers_dialog=workers,
        )
        await Run(plan).run()
        found.add((tmp_path / str(workers) / "r" / "rag_summary.json").read_bytes())
    assert len(found) == 1


async def test_a_factory_gets_the_document_and_a_plain_system_may_block(tmp_path: Path) -> None:
    mixed(tmp_path / "b", facts=2)
    seen: list[Any] = []

    class Plain:
        def __init__(self, document: Any) -> None:
            seen.append(document)

        def query(self, question: str) -> RagAnswer:
            del question
            return RagAnswer(answer="一共42000元。", amount=42000)

    plan = make_bench_plan(tmp_path / "b", rag=Plain, runs_dir=tmp_path, run_id="r")
    summary = await Run(plan).run()
    assert summary.errors == 0
    assert {document.name for document in seen} == {"record.md"}


def test_fields_without_an_effect_are_warned_of(tmp_path: Path) -> None:
    typed: dict[str, Any] = {
        "expected": {"amount_total": 42000, "amount_totl": 1},
        "metadata": {"source": "x"},
    }
    benchmark(tmp_path / "b", [fact("f1", **typed), fact("f2", **typed)])
    (line,) = make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path).warnings
    path = tmp_path / "b" / "questions" / "all.json"
    names = f"{path}: questions.expected.amount_totl, {path}: questions.metadata.source"
    assert line == f"fields without an effect: {names}"


async def test_a_document_that_is_named_goes_before_that_of_the_benchmark(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1")])
    (tmp_path / "other.md").write_text(DOCUMENT.replace("42000", "41000"), "utf-8")
    plan = make_bench_plan(
        tmp_path / "b", rag=Counting(), document=tmp_path / "other.md", runs_dir=tmp_path, run_id="r"
    )
    assert plan.document is not None
    assert "41000元" in plan.document.text
    assert (await Run(plan).run()).document == "other.md"


async def test_questions_that_the_document_does_not_bear_out_are_warned_of(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1"), fact("f2"), gap("g1")])
    assert make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path).warnings == ()
    (tmp_path / "other.md").write_text(DOCUMENT.replace("42000", "41000"), "utf-8")
    plan = make_bench_plan(tmp_path / "b", rag=Counting(), document=tmp_path / "other.md", runs_dir=tmp_path)
    (line,) = plan.warnings
    assert "does not bear the questions out" in line
    assert "42000元" in line
    assert f"{tmp_path / 'b' / 'questions' / 'all.json'}:1: $.questions[0]." in line
    assert line.endswith("and 1 more like it")
    (tmp_path / "b" / "record.md").write_bytes((tmp_path / "other.md").read_bytes())
    plan = make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path, run_id="r")
    assert plan.warnings[0].endswith(f"and 1 more like it; memfin validate {tmp_path / 'b'} tells where")
    assert (await Run(plan).run()).unfounded == 2
    assert "2 pieces of evidence or quotes" in render_markdown_report(load_report(tmp_path / "r"))


@pytest.mark.parametrize("percent", [-1.0, 100.5])
def test_a_threshold_is_a_percentage(tmp_path: Path, percent: float) -> None:
    benchmark(tmp_path / "b", [fact("f1")])
    with pytest.raises(UsageError, match="is no percentage; give 0 to 100"):
        make_bench_plan(tmp_path / "b", rag=Counting(), fail_under={"overall_percentage": percent})


async def test_without_a_document_the_run_warns_and_goes_on(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1"), gap("g1")], document=None)
    events: list[ProgressEvent] = []
    plan = make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path, run_id="r")
    summary = await Run(plan, events.append).run()
    assert summary.document is None
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert "no document" in warned.message
    assert "--document" in warned.message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"type": "fact"}, "setting type"),
        ({"workers_dialog": 0}, "setting workers_dialog"),
        ({"speed": 3}, "unknown setting 'speed'"),
        ({"fail_under": {"m3_risk_coverage.risk_coverage": 1.0}}, "overall_percentage"),
        ({"rag": "no.such.module:x"}, "no.such.module"),
        ({"document": "nowhere.md"}, "nowhere.md"),
        ({"fail_on_regression": "nowhere"}, "rag_summary.json"),
        ({"type": "evidence_set"}, "holds no question of the type evidence_set"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_used_is_told_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    benchmark(tmp_path / "b", [fact("f1")])
    with pytest.raises(UsageError, match=words.replace(".", r"\.")):
        make_bench_plan(tmp_path / "b", runs_dir=tmp_path / "runs", **{"rag": Counting(), **settings})
    assert not (tmp_path / "runs").exists()


async def test_a_system_that_cannot_be_made_leaves_no_directory(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1")])

    def broken(document: Any) -> Any:
        raise ValueError(f"no index of {document.name}")

    plan = make_bench_plan(tmp_path / "b", rag=broken, runs_dir=tmp_path / "runs", run_id="r")
    with pytest.raises(UsageError, match=r"no index of record\.md"):
        await Run(plan).run()
    assert not (tmp_path / "runs" / "r").exists()


async def test_gates_name_what_does_not_hold(tmp_path: Path) -> None:
    mixed(tmp_path / "b")

    async def run(name: str, system: Counting, **settings: Any) -> RagSummary:
        runner = BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path, run_id=name, **settings)
        return await runner.run_benchmark_async(system)

    await run("before", Counting(wrong="f01", broken="f02"))
    worse = Counting(wrong="f01 f04", broken="f02 f05")
    with pytest.raises(GateFailed) as failed:
        await run(
            "now",
            worse,
            fail_on_regression=str(tmp_path / "before"),
            fail_on_error=2,
            fail_under={"overall_percentage": 90.0},
        )
    first, second, third = str(failed.value).split("; ")
    assert first == "--fail-on-error 2: the system failed on 2 of 12 questions (16.7%)"
    assert second.startswith("--fail-under 90: the value is ")
    assert third.endswith("2 fact questions that were right are wrong now: f04, f05")
    assert isinstance(failed.value.summary, RagSummary)
    same = await run("same", Counting(wrong="f01 f02"), fail_on_regression=str(tmp_path / "before"))
    assert same.passed_tests < 12


async def test_a_question_in_other_words_is_not_the_one_that_was_right(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1"), fact("f2")])
    runner = BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path, run_id="before")
    await runner.run_benchmark_async(Counting())
    benchmark(tmp_path / "b", [fact("f1", question="f1：另一个问题？"), fact("f2")])
    settings: dict[str, Any] = {"fail_on_regression": str(tmp_path / "before")}
    runner = BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path, run_id="now", **settings)
    summary = await runner.run_benchmark_async(Counting(wrong="f1"))
    assert summary.passed_tests == 1
    runner = BenchmarkRunner(tmp_path / "b", runs_dir=tmp_path, run_id="then", **settings)
    with pytest.raises(GateFailed, match=r"wrong now: f2$"):
        await runner.run_benchmark_async(Counting(wrong="f2"))


async def test_a_system_that_fails_on_everything_passes_no_gate(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1"), fact("f2")])
    runner = BenchmarkRunner(
        tmp_path / "b", runs_dir=tmp_path, run_id="r", fail_under={"overall_percentage": 0.0}
    )
    with pytest.raises(GateFailed, match="every one of the 2 questions"):
        await runner.run_benchmark_async(Counting(broken="f1 f2"))


async def test_a_rule_that_fails_costs_its_question_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(question: Any, *rest: Any) -> Any:
        if question.id == "f1":
            raise RuntimeError("a defect")
        return score_question(question, *rest)

    monkeypatch.setattr("memfin.actors.questions.score_question", score)
    benchmark(tmp_path / "b", [fact("f1"), fact("f2")])
    events: list[ProgressEvent] = []
    plan = make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path, run_id="r")
    summary = await Run(plan, events.append).run()
    assert (summary.errors, summary.passed_tests) == (1, 1)
    assert any(isinstance(event, Warned) and "a defect" in event.message for event in events)
    assert list(validate_run(tmp_path / "r")) == []


async def test_a_long_answer_is_scored_off_the_loop_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(tmp_path / "b", [fact("f1")])
    scores = []
    for name, limit in (("loop", 20_000), ("thread", 1)):
        monkeypatch.setattr("memfin.actors.questions.LONG_TEXT", limit)
        plan = make_bench_plan(tmp_path / "b", rag=Counting(), runs_dir=tmp_path, run_id=name)
        await Run(plan).run()
        scores.append(list(iter_individual_results(tmp_path / name / SUMMARY)))
    assert scores[0] == scores[1]


async def test_a_host_that_leaves_early_stops_the_run_and_can_resume_it(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    system = Counting(patience=5)
    async with BenchEvaluation(tmp_path / "b", rag=system, runs_dir=tmp_path, run_id="r") as evaluation:
        done = 0
        async for event in evaluation:
            done += isinstance(event, QuestionDone)
            if done == 5:
                break
        await evaluation.stop(within=0.5)
    assert evaluation.summary is None
    again = Counting()
    async with BenchEvaluation.resume(tmp_path / "r", rag=again) as evaluation:
        summary = (await evaluation.wait()).summary
    assert summary.total_tests == 12
    assert again.asked.total() == 7
    assert evaluation.failed_gates == []
    assert evaluation.stats is not None


async def test_a_cancelled_host_is_not_held_up(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    done: list[QuestionDone] = []

    def watch(event: ProgressEvent) -> None:
        if isinstance(event, QuestionDone):
            done.append(event)
        if len(done) == 2:
            scope.cancel()

    with anyio.CancelScope() as scope:
        async with BenchEvaluation(
            tmp_path / "b", rag=Counting(patience=2), runs_dir=tmp_path, run_id="r", on_event=watch
        ) as evaluation:
            await evaluation.wait()
    assert scope.cancelled_caught
    assert len(read_jsonl(tmp_path / "r" / "rag_results.jsonl")) == 2


async def test_a_system_that_ignores_its_cancellation_is_left_behind_and_named(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1"), fact("f2")])

    class Stubborn(Counting):
        async def query(self, question: str) -> dict[str, Any]:
            while question.startswith("f1"):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
            return await super().query(question)

    events: list[ProgressEvent] = []
    plan = make_bench_plan(
        tmp_path / "b", rag=Stubborn(), runs_dir=tmp_path, run_id="r", turn_timeout=0.05, turn_retries=0
    )
    run = Run(plan, events.append)
    await run.run()
    listed = iter_individual_results(tmp_path / "r" / SUMMARY)
    assert [one.error for one in listed] == ["no answer within 0.05 s", None]
    assert run.stats is not None
    assert run.stats.turns_by_status == {"ok": 1, "timeout": 1}
    again = Run(make_bench_resume_plan(tmp_path / "r", rag=Stubborn()))
    await again.run()
    assert again.stats is not None
    assert again.stats.turns_by_status == {"ok": 1, "timeout": 1}
    assert run.stats.abandoned_calls == 1
    (warned,) = [event for event in events if isinstance(event, Warned)]
    assert warned.message.startswith(f"system {__name__}:")
    assert warned.message.endswith("ignores its cancellation; the call was left behind")
    assert warned.dialog_id is None


async def test_what_a_model_says_meanwhile_is_a_warning(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f1")])

    class Talkative(Counting):
        reference = model = "talkative"
        version = None
        inputs: ClassVar[dict[str, Any]] = {"depth": 3}
        total_usage = ModelUsage(calls=2, prompt_tokens=5, completion_tokens=7)
        tell: Callable[[str], None]

        def parameter_changes(self) -> list[ParameterChange]:
            return []

        def listen(self, on_warning: Callable[[str], None]) -> None:
            self.tell = on_warning

        async def query(self, question: str) -> dict[str, Any]:
            self.tell("the model is slow")
            return await super().query(question)

    events: list[ProgressEvent] = []
    plan = make_bench_plan(tmp_path / "b", rag=Talkative(), runs_dir=tmp_path, run_id="r")
    assert plan.fingerprint_inputs["rag_settings"] == {"depth": 3}
    run = Run(plan, events.append)
    assert (await run.run()).system == "talkative"
    assert [event.message for event in events if isinstance(event, Warned)] == ["the model is slow"]
    assert run.stats is not None
    assert run.stats.usage is not None
    assert run.stats.usage.calls == 2
