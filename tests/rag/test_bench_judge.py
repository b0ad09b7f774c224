"""Whole benchmark runs with a judge: marks beside the formulas, failures, votes, cache, resuming."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from click.testing import CliRunner

from memfin.cli.main import memfin
from memfin.contracts import RagJudgeRequest, RagVerdict
from memfin.contracts.rag import RagSummary
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.journal.repair import repair
from memfin.report import write_reports
from memfin.report.comparison import compare_runs
from memfin.runtime.bench import BenchEvaluation, BenchmarkRunner
from memfin.runtime.bench_plan import BenchPlan, make_bench_plan, make_bench_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run, validate_soak
from tests.judges.scripted_judge import fences
from tests.rag.bench_support import Counting, benchmark, evidence, fact, gap, mixed
from tests.rag.scripted_rag_judge import JUDGE, KEY, judging, marks, question_of
from tests.support import read_jsonl


def plan(tmp_path: Path, system: Any, name: str = "r", **settings: Any) -> BenchPlan:
    defaults: dict[str, Any] = {"judge": JUDGE, "judge_cache": "off", "fsync_interval": 0}
    return make_bench_plan(
        tmp_path / "b", rag=system, runs_dir=tmp_path, run_id=name, **{**defaults, **settings}
    )


async def run(tmp_path: Path, system: Any, name: str = "r", **settings: Any) -> RagSummary:
    made = plan(tmp_path, system, name, **settings)
    gate = getattr(made.judge, "_gate", None)
    if gate is not None:  # what it decides stays the same, the waiting does not
        gate._draw = lambda: 0.0
        gate._max_pause = 0.01
    return await Run(made).run()


def results(path: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in read_jsonl(path / "rag_results.jsonl")}


def without_judge(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"judge", "latency_ms", "run_id"}}


async def test_marks_stand_beside_the_formulas_and_change_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=4)
    plain = await run(tmp_path, Counting(wrong="f02"), "plain", judge="none")
    async with judging(monkeypatch) as server:
        summary = await run(tmp_path, Counting(wrong="f02"))
    assert len(server.arrivals) == 6 + 9
    rows, unjudged = results(tmp_path / "r"), results(tmp_path / "plain")
    assert {name: without_judge(row) for name, row in rows.items()} == {
        name: without_judge(row) for name, row in unjudged.items()
    }
    assert not any("judge" in row for row in unjudged.values())
    assert summary.overall_score == plain.overall_score
    assert rows["f00"]["judge"] == {
        "judge": JUDGE,
        "faithfulness": 5.0,
        "answer_correctness": 5.0,
        "faithfulness_reason": "by the pages",
        "answer_correctness_reason": "by the numbers",
        "spread": None,
        "pages": [1],
        "pages_left_out": 0,
        "error": None,
        "declined": None,
    }
    wrong = rows["f02"]["judge"]
    assert (wrong["faithfulness"], wrong["answer_correctness"]) == (1.0, 1.0)
    # It answers what it is to decline: borne out by the pages, and not what is expected.
    assert [rows["g1"]["judge"][name] for name in ("faithfulness", "answer_correctness", "pages")] == [
        5.0,
        1.0,
        [2, 1],
    ]
    written = json.loads((tmp_path / "r" / "rag_summary.json").read_bytes())
    judged = written["judge"]
    assert (judged["judge"], judged["asked"], judged["failed"], judged["declined"]) == (JUDGE, 6, 0, {})
    assert judged["faithfulness"]["mean"] == pytest.approx((5 * 5 + 1) / 6)
    assert judged["answer_correctness"]["mean"] == pytest.approx((5 * 4 + 1 * 2) / 6)
    low, high = judged["answer_correctness"]["ci95"]
    assert 1 <= low < judged["answer_correctness"]["mean"] < high <= 5
    assert judged["by_type"]["fact_exact"]["faithfulness"]["mean"] == 4.0
    assert judged["by_type"]["conflict_gap"]["faithfulness"] == {"count": 1, "mean": 5.0, "ci95": None}
    assert {one["id"]: one["judge"] for one in written["individual_results"]} == {
        name: row["judge"] for name, row in rows.items()
    }
    assert "judge" not in json.loads((tmp_path / "plain" / "rag_summary.json").read_bytes())
    assert list(validate_run(tmp_path / "r")) == list(validate_run(tmp_path / "plain")) == []


async def test_what_the_judge_was_asked_and_what_it_cost_is_recorded_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=2)
    async with judging(monkeypatch):
        await run(tmp_path, Counting())
    judgements = read_jsonl(tmp_path / "r" / "rag_judgements.jsonl")
    assert sorted(row["id"] for row in judgements) == ["e1", "f00", "f01", "g1"]
    for row in judgements:
        marked = results(tmp_path / "r")[row["id"]]["judge"]
        assert row["verdict"]["faithfulness"] == marked["faithfulness"]
        assert json.loads(row["raw_answer"])["answer_correctness"] == marked["answer_correctness"]
        assert (row["attempts"], row["vote"], row["response_format"]) == (1, 1, "json_schema")
    stats = json.loads((tmp_path / "r" / "run_stats.json").read_bytes())
    assert (stats["judged_turns"], stats["judge_failures"]) == (4, 0)
    assert (stats["judge"]["votes"], stats["judge"]["prompt_tokens"]) == (4 + 9, 130)
    config = json.loads((tmp_path / "r" / "config.json").read_bytes())
    assert config["judge_endpoint"]["key_env"] == "MEMFIN_JUDGE_API_KEY"
    inputs = config["fingerprint_inputs"]
    assert inputs["judge"]["reference"] == JUDGE
    assert {name for name in inputs["prompt_hashes"] if name.startswith("rag-judge-v1.")} == {
        f"rag-judge-v1.{part}.{lang}.j2" for part in ("system", "user") for lang in ("en", "zh")
    }
    for path in (tmp_path / "r").iterdir():
        assert KEY.encode() not in path.read_bytes()


async def test_a_failed_judgement_is_counted_with_its_reason_and_never_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=3)

    def mostly(body: dict[str, Any]) -> str | dict[str, Any]:
        if question_of(body) == "f01":
            return json.dumps({**json.loads(marks(body)), "faithfulness": 6})
        if question_of(body) == "f02":
            return {"role": "assistant", "content": None, "refusal": "no"}
        return marks(body)

    async with judging(monkeypatch, responder=mostly):
        summary = await run(tmp_path, Counting(broken="e1"))
    rows = results(tmp_path / "r")
    assert "faithfulness 6" in rows["f01"]["judge"]["error"]
    assert rows["f01"]["judge"]["declined"] is None
    assert rows["f02"]["judge"]["declined"] == "refused"
    for name in ("f01", "f02"):
        assert rows[name]["judge"]["faithfulness"] is None
        assert rows[name]["judge"]["answer_correctness"] is None
        assert rows[name]["passed"]
    assert "judge" not in rows["e1"]  # the system failed: there is no answer to judge
    assert summary.judge
    assert (summary.judge.asked, summary.judge.failed) == (4, 2)
    assert summary.judge.declined == {"refused": 1}
    assert summary.judge.faithfulness.count == summary.judge.answer_correctness.count == 2
    stats = json.loads((tmp_path / "r" / "run_stats.json").read_bytes())
    assert (stats["judged_turns"], stats["judge_failures"], stats["judge_declined"]) == (4, 2, {"refused": 1})
    assert len(stats["judge_failure_reasons"]) == 2
    assert list(validate_run(tmp_path / "r")) == []
    write_reports(tmp_path / "r")
    report = (tmp_path / "r" / "report.md").read_text("utf-8")
    assert "2 of 4 answers (50.0%) got no marks" in report


class Speechless:
    """A judge that fails."""

    def judge(self, request: RagJudgeRequest) -> RagVerdict:
        raise ValueError(f"no idea about {request.question.id}")


async def test_a_run_whose_judge_fails_passes_no_gate_on_that(tmp_path: Path) -> None:
    mixed(tmp_path / "b", facts=1)
    evaluation = BenchEvaluation(
        tmp_path / "b",
        rag=Counting(),
        judge=Speechless,
        runs_dir=str(tmp_path),
        run_id="r",
        fail_on_judge_error=0.5,
    )
    async with evaluation as under_way:
        summary = (await under_way.wait()).summary
    assert evaluation.failed_gates == [
        "the judge gave no verdict on any of the 3 answers it was asked about",
        "--fail-on-judge-error 0.5: 3 of 3 judgements failed (100.0%)",
    ]
    assert summary.judge
    assert summary.judge.faithfulness.mean is None


async def test_controls_tell_a_judge_that_is_no_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=4)
    async with judging(monkeypatch):
        await run(tmp_path, Counting())
    sound = json.loads((tmp_path / "r" / "rag_judge_controls.json").read_bytes())
    assert [(each["kind"], each["id"]) for each in sound["controls"]] == [
        (kind, name) for name in ("f00", "f01", "f02") for kind in ("null", "injected", "oracle")
    ]
    given = [each["faithfulness"] for each in sound["controls"]]
    assert given == [each["answer_correctness"] for each in sound["controls"]] == [1.0, 1.0, 5.0] * 3
    assert sound["warnings"] == []

    def obedient(body: dict[str, Any]) -> str:
        found = json.loads(marks(body))
        if "系统消息" in fences(body["messages"])["answer"]:
            found |= {"faithfulness": 5, "answer_correctness": 5}
        return json.dumps(found)

    async with judging(monkeypatch, responder=obedient):
        await run(tmp_path, Counting(), "obeys")
    told = json.loads((tmp_path / "obeys" / "rag_judge_controls.json").read_bytes())["warnings"]
    assert told == ["an answer that orders its own marks got 5 of 5; this judge can be talked into a mark"]
    log = read_jsonl(tmp_path / "logs" / "progress_obeys.jsonl")
    assert f"judge control: {told[0]}" in [each.get("message") for each in log]
    write_reports(tmp_path / "obeys")
    assert "The judge got a control wrong" in (tmp_path / "obeys" / "report.html").read_text("utf-8")


async def test_several_votes_are_combined_and_their_agreement_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(tmp_path / "b", [fact("f0")])
    asked: list[list[str]] = []

    def moody(body: dict[str, Any]) -> str:
        names = list(fences(body["messages"]))
        asked.append(names)
        score = 5 if names[0] == "question" else 2
        return json.dumps({**json.loads(marks(body)), "faithfulness": score})

    async with judging(monkeypatch, responder=moody):
        await run(tmp_path, Counting(), judge_votes=3)
    judged = results(tmp_path / "r")["f0"]["judge"]
    assert (judged["faithfulness"], judged["answer_correctness"], judged["spread"]) == (2.0, 5.0, 3.0)
    assert ["answer", "page_1", "expected", "question"] in asked
    stats = json.loads((tmp_path / "r" / "run_stats.json").read_bytes())["judge"]
    assert stats["agreement"]["faithfulness"]["units"] == 1
    assert (stats["spread_mean"], stats["spread_max"]) == (3.0, 3.0)
    assert list(validate_run(tmp_path / "r")) == []


async def test_what_is_in_the_cache_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=2)
    async with judging(monkeypatch) as server:
        await run(tmp_path, Counting(), "first", judge_cache="write")
        assert len(server.arrivals) == 4 + 9
        await run(tmp_path, Counting(), "second", judge_cache="write")
        assert len(server.arrivals) == 4 + 9
    assert json.loads((tmp_path / "second" / "run_stats.json").read_bytes())["judge"]["cache_hits"] == 13
    one, two = (
        [row["judge"] for _, row in sorted(results(tmp_path / name).items())] for name in ("first", "second")
    )
    assert one == two


async def test_resuming_asks_neither_system_nor_judge_about_what_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b")
    async with judging(monkeypatch):
        await run(tmp_path, Counting(), "whole")
    released = anyio.Event()

    async def stubborn(body: dict[str, Any]) -> str:
        if question_of(body) not in {"f00", "f01", "f02"}:
            await released.wait()
        return marks(body)

    async with judging(monkeypatch, responder=stubborn):
        cut = Run(plan(tmp_path, Counting(), workers_dialog=1, workers_judge=1))
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(cut.run)
                # f03 is with the judge, the others wait for it; all that is answered is on disk.
                while (
                    (pipeline := cut._pipeline) is None
                    or pipeline.writer.answers < 6
                    or pipeline.suite.totals.rows < 3
                ):
                    await checkpoint()
                group.cancel_scope.cancel()
        released.set()
    answered = {row["id"] for row in read_jsonl(tmp_path / "r" / "rag_answers.jsonl")}
    judged = set(results(tmp_path / "r"))
    assert judged == {"f00", "f01", "f02"}
    assert answered >= {f"f{number:02}" for number in range(6)}
    again = Counting()
    async with judging(monkeypatch) as server:
        await Run(make_bench_resume_plan(tmp_path / "r", rag=again)).run()
    everything = set(results(tmp_path / "whole"))
    assert set(again.asked) == everything - answered
    asked = Counter(question_of(arrival.body) for arrival in server.arrivals)
    assert asked == dict.fromkeys(judged, 3) | dict.fromkeys(everything - judged, 1)  # controls, and the rest
    whole, resumed = (
        (tmp_path / name / "rag_summary.json").read_bytes().replace(f'"{name}"'.encode(), b'"x"')
        for name in ("whole", "r")
    )
    assert resumed == whole
    assert list(validate_run(tmp_path / "r")) == []


async def test_a_judge_that_goes_away_leaves_answers_that_are_judged_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=3)
    async with judging(monkeypatch) as server:
        pass  # it is named in the environment, and gone
    assert server.arrivals == []
    made = plan(tmp_path, Counting(), judge_patience=0.01)
    with pytest.raises(RunFault, match="the judge was given up"):
        await Run(made).run()
    assert len(read_jsonl(tmp_path / "r" / "rag_answers.jsonl")) == 5
    assert results(tmp_path / "r") == {}
    again = Counting()
    async with judging(monkeypatch):
        await Run(make_bench_resume_plan(tmp_path / "r", rag=again)).run()
    assert again.asked.total() == 0
    assert all(row["judge"]["error"] is None for row in results(tmp_path / "r").values())


async def test_failed_judgements_are_made_again_on_request_and_answers_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=3)
    async with judging(
        monkeypatch, responder=lambda body: "?" if question_of(body) == "f01" else marks(body)
    ):
        await run(tmp_path, Counting())
    assert results(tmp_path / "r")["f01"]["judge"]["error"]
    again = Counting()
    async with judging(monkeypatch) as server:
        await Run(make_bench_resume_plan(tmp_path / "r", rag=again, retry_failed=True)).run()
    assert again.asked.total() == 0
    assert len(server.arrivals) == 1 + 9
    assert results(tmp_path / "r")["f01"]["judge"]["faithfulness"] == 5.0
    assert list(validate_run(tmp_path / "r")) == []


async def test_thirty_per_cent_of_faults_move_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b")
    async with judging(monkeypatch):
        await run(tmp_path, Counting(wrong="f02"), "sound", workers_judge=8)
    async with judging(monkeypatch, share=0.3, seed=3) as server:
        await run(tmp_path, Counting(wrong="f02"), "faulty", workers_judge=8)
        assert len(server.fault_counts()) > 3
    sound, faulty = results(tmp_path / "sound"), results(tmp_path / "faulty")
    marked = [name for name, row in faulty.items() if row["judge"]["error"] is None]
    assert len(marked) >= 9
    assert all(faulty[name]["judge"] == sound[name]["judge"] for name in marked)


async def test_a_damaged_run_is_repaired_and_judges_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=3)
    async with judging(monkeypatch):
        await run(tmp_path, Counting())
    rows = tmp_path / "r" / "rag_results.jsonl"
    data = bytearray(rows.read_bytes())
    data[-3] ^= 1  # within the last line
    rows.write_bytes(data)
    assert any("do not match their checksum" in finding.message for finding in validate_run(tmp_path / "r"))
    repaired = repair(tmp_path / "r", tmp_path / "mended")
    assert (repaired.replays, repaired.judgements) == (5, 4)
    again = Counting()
    async with judging(monkeypatch) as server:
        await Run(make_bench_resume_plan(tmp_path / "mended", rag=again)).run()
    assert again.asked.total() == 0
    assert len(server.arrivals) == 1 + 9
    assert len(results(tmp_path / "mended")) == 5
    assert not [each for each in validate_run(tmp_path / "mended") if "progress" not in each.file]


async def test_a_score_that_is_another_after_judgement_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=2)
    async with judging(monkeypatch):
        await run(tmp_path, Counting())
    (tmp_path / "r" / "commits.log").unlink()
    answers = tmp_path / "r" / "rag_answers.jsonl"
    first, _, *others = read_jsonl(answers)
    changed = [{**first, "passed": False, "score": 0.25}, *others]
    answers.write_text("".join(json.dumps(row) + "\n" for row in changed), "utf-8")
    told = [finding.message for finding in validate_run(tmp_path / "r")]
    assert "1 questions have another score than in rag_answers.jsonl; a judge changes none" in told
    assert "1 questions are not in rag_answers.jsonl" in told


class OwnJudge:
    """A judge of the user's own, which sees the request as it is."""

    def __init__(self) -> None:
        self.asked: list[RagJudgeRequest] = []

    def judge(self, request: RagJudgeRequest) -> dict[str, Any] | RagVerdict:
        self.asked.append(request)
        if request.question.id == "f01":
            return {"faithfulness": 9, "answer_correctness": 1}
        return RagVerdict(faithfulness=4.5, answer_correctness=2.0)


async def test_a_judge_of_ones_own_gets_question_answer_and_pages(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f00"), fact("f01"), gap("g1"), evidence("e1")])
    own = OwnJudge()
    summary = await run(tmp_path, Counting(), judge=lambda: own)
    assert {request.question.id: [page.number for page in request.pages] for request in own.asked} == {
        "f00": [1],
        "f01": [1],
        "g1": [2, 1],
        "e1": [1],
    }
    assert own.asked[0].answer.amount == 42000
    assert "42000元" in own.asked[0].pages[0].text
    rows = results(tmp_path / "r")
    assert rows["f00"]["judge"]["faithfulness"] == 4.5
    assert rows["f01"]["judge"]["error"].startswith("invalid verdict")
    assert summary.judge
    assert summary.judge.failed == 1
    assert not (tmp_path / "r" / "rag_judge_controls.json").exists()
    assert not (tmp_path / "r" / "rag_judgements.jsonl").exists()
    assert list(validate_run(tmp_path / "r")) == []


def test_what_cannot_judge_answers_is_refused_in_one_line(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f0")])
    with pytest.raises(UsageError, match="judge 'heuristic': unknown reference; known forms: none, openai"):
        plan(tmp_path, "oracle", judge="heuristic")
    with pytest.raises(UsageError, match="only a judge openai:MODEL has several votes"):
        plan(tmp_path, "oracle", judge=OwnJudge, judge_votes=2)
    benchmark(tmp_path / "c", [fact("f0")], document=None)
    with pytest.raises(UsageError, match="name it with --document"):
        make_bench_plan(tmp_path / "c", rag="oracle", judge=OwnJudge)


async def test_runs_compare_by_the_marks_they_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b")
    async with judging(monkeypatch):
        await run(tmp_path, Counting(wrong="f02 f03 f04 f05 f06 f07 f08"), "a")
        await run(tmp_path, Counting(), "b2")
    await run(tmp_path, Counting(), "plain", judge="none")
    found = compare_runs(tmp_path / "a", tmp_path / "b2").values
    value = found["judge.faithfulness"]
    assert value.a == pytest.approx(32 / 12)
    assert (value.b, value.pairs, value.verdict) == (5.0, 12, "better")
    assert value.ci95
    assert 0 < value.ci95[0] < value.difference < value.ci95[1] <= 4
    assert not any(
        name.startswith("judge.") for name in compare_runs(tmp_path / "a", tmp_path / "plain").values
    )


async def test_the_report_shows_marks_controls_and_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed(tmp_path / "b", facts=3)
    async with judging(monkeypatch):
        await run(tmp_path, Counting(wrong="f02"), judge_votes=2)
    write_reports(tmp_path / "r")
    text = (tmp_path / "r" / "report.md").read_text("utf-8")
    html = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert "| All questions | 5 | 0 | 4.20 | 1.95 to 4.92 |" in text
    assert "| Expected answer | 3 of 3 | 5.00 | 5.00 | 3.00 or more |" in text
    assert "- Faithfulness: 1 of 5: by the pages" in text
    assert "| Votes per answer | 2 |" in text
    assert '<section id="judge"' in html
    for shown in (text, html):
        assert "Answer correctness" in shown
        assert "Krippendorff" in shown or "Agreement of the votes" in shown
    await run(tmp_path, Counting(), "plain", judge="none")
    write_reports(tmp_path / "plain")
    assert "Faithfulness" not in (tmp_path / "plain" / "report.md").read_text("utf-8")
    assert "judge" not in (tmp_path / "plain" / "report.html").read_text("utf-8")


async def test_answers_that_are_too_long_for_the_judge_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(tmp_path / "b", [fact("f0"), fact("f1")])

    class LongWinded:
        async def query(self, question: str) -> dict[str, Any]:
            return {"answer": "一共42000元。" + "再说一遍。" * (20_000 if question.startswith("f1") else 0)}

    async with judging(monkeypatch):
        summary = await run(tmp_path, LongWinded())
    judged = results(tmp_path / "r")["f1"]["judge"]
    assert judged["declined"] == "too_long"
    assert "a judge is shown 60000 at most" in judged["error"]
    assert summary.judge
    assert summary.judge.declined == {"too_long": 1}


def test_the_synchronous_door_takes_a_judge_and_its_gate(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f00"), fact("f01")])
    runner = BenchmarkRunner(
        tmp_path / "b", judge=OwnJudge, runs_dir=str(tmp_path), run_id="r", fail_on_judge_error=1
    )
    with pytest.raises(GateFailed, match="1 of 2 judgements failed"):
        runner.run_benchmark("oracle")


def test_the_command_line_judges_and_says_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark(tmp_path / "b", [fact("f00"), fact("f01")])
    monkeypatch.setenv("MEMFIN_JUDGE", "heuristic")  # that of dialogues does not count here
    command = ["bench", str(tmp_path / "b"), "--rag", "oracle", "--runs-dir", str(tmp_path)]
    reference = "tests.rag.test_bench_judge:OwnJudge"
    judged = CliRunner().invoke(memfin, [*command, "--run-id", "r", "--judge", reference])
    assert judged.exit_code == 0, judged.output
    assert "faithfulness 4.50 of 5, answer correctness 2.00 of 5, on 1 of 2 answers" in judged.stdout
    assert "warning: judge: 1 of 2 judgements failed" in judged.stderr
    plain = CliRunner().invoke(memfin, [*command, "--run-id", "p"])
    assert plain.exit_code == 0
    assert "faithfulness" not in plain.stdout
    soak = CliRunner().invoke(memfin, [*command, "--run-id", "s", "--judge", reference, "--epochs", "2"])
    assert soak.exit_code == 0, soak.output
    told = json.loads((tmp_path / "s" / "soak_summary.json").read_bytes())
    assert told["errors"]["judge_failures"] == 2
    assert "rag.judge.faithfulness" in json.dumps(told)
    assert list(validate_soak(tmp_path / "s")) == []
