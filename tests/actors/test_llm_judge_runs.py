"""Whole runs with a judge that is a model: artifacts, faults, limits, scope, votes, cache, secrets."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import EvalSummary, JudgeRequest, Verdict
from memfin.errors import UsageError
from memfin.report import write_reports
from memfin.runtime.api import evaluate
from memfin.runtime.plan import make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.client.faulty_server import FaultyServer
from tests.commands import run_beside_us
from tests.judges.scripted_judge import verdict
from tests.support import WanderingAgent, dataset, read_jsonl

JUDGE = "openai:m"
ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-5f2d9c71aa"


class Advisor:
    """Answers with different words in different turns; every third contradicts, every fourth promises."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._session = session
        self._observer = observer
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        number = int(self._session.dialog_id.removeprefix("d")) + self._turn
        self._observer.compliance(is_compliant=number % 5 != 0, violations=[])
        return (
            f"{number}：根据数据，"
            + ("可以加杠杆。" if number % 3 == 0 else "注意风险和波动。")
            + ("我们保证收益。" if number % 4 == 0 else "仅供参考。")
        )


@asynccontextmanager
async def judging(monkeypatch: pytest.MonkeyPatch, **server: Any) -> AsyncIterator[FaultyServer]:
    """Serve the scripted judge and name it in the environment."""
    async with FaultyServer(**{"responder": verdict, **server}) as running:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", running.base_url)
        monkeypatch.setenv("MEMFIN_JUDGE_API_KEY", KEY)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        yield running


async def run(tmp_path: Path, run_id: str = "run", **settings: Any) -> EvalSummary:
    path = tmp_path / "data.jsonl"
    if not path.exists():
        dataset(path, 5)
    defaults: dict[str, Any] = {"agent": Advisor, "judge": JUDGE, "judge_cache": "off"}
    return (await evaluate(path, **defaults | {"runs_dir": tmp_path, "run_id": run_id} | settings)).summary


def rows(tmp_path: Path, run_id: str = "run") -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (row["dialog_id"], row["turn_pair_id"]): row
        for row in read_jsonl(tmp_path / run_id / "turn_eval.jsonl")
    }


def stats(tmp_path: Path, run_id: str = "run") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / run_id / "run_stats.json").read_bytes())["judge"]
    return found


def warnings(tmp_path: Path, run_id: str = "run") -> list[str]:
    log = read_jsonl(tmp_path / "logs" / f"progress_{run_id}.jsonl")
    return [event["message"] for event in log if event["event"] == "warning"]


async def test_a_run_leaves_scores_judgements_controls_and_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch) as server:
        summary = await run(tmp_path)
    assert summary.metrics["m5_explainability"].counts["judge_scored_turns"] == 15
    judgements = read_jsonl(tmp_path / "run" / "judgements.jsonl")
    assert len(judgements) == 15
    for judgement in judgements:
        row = rows(tmp_path)[judgement["dialog_id"], judgement["turn_pair_id"]]
        assert row["judge_score_1_5"] == judgement["verdict"]["score"]
        assert row["rubric_hit_items"] == judgement["verdict"]["rubric_items"]
        assert row["detectors"]["judge"] == row["detectors"]["rubric"] == JUDGE
        assert row["detectors"]["contradiction"] == "proposals"
        assert "unjudged" not in row
        assert judgement["attempts"] == 1
        assert json.loads(judgement["raw_answer"])["score"] == judgement["verdict"]["score"]
    controls = json.loads((tmp_path / "run" / "judge_controls.json").read_bytes())
    assert [(each["kind"], each["dialog_id"], each["turn_pair_id"]) for each in controls["controls"]] == [
        (kind, "d0000", pair) for pair in (1, 2, 3) for kind in ("null", "injected", "oracle")
    ]
    assert [each["score"] for each in controls["controls"]] == [1.0, 1.0, 1.0] * 3
    assert stats(tmp_path)["votes"] == stats(tmp_path)["attempts"] == len(server.arrivals) == 24
    assert stats(tmp_path)["prompt_tokens"] == 240
    assert list(validate_run(tmp_path / "run")) == []
    config = json.loads((tmp_path / "run" / "config.json").read_bytes())
    assert config["judge_endpoint"] == {
        "base_url_env": "MEMFIN_JUDGE_BASE_URL",
        "key_env": "MEMFIN_JUDGE_API_KEY",
    }
    assert len(config["fingerprint_inputs"]["prompt_hashes"]) == 5


async def test_controls_that_go_wrong_are_told_as_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generous(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "score": 5})

    async with judging(monkeypatch, responder=generous):
        await run(tmp_path)
    told = warnings(tmp_path)
    assert any(line.startswith("judge control: a reply that says nothing got 5 of 5") for line in told)
    assert stats(tmp_path)["warnings"] == [line.removeprefix("judge control: ") for line in told]


async def test_thirty_per_cent_of_faults_move_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch):
        await run(tmp_path, "sound", judge_scope="all", judge_votes=2, workers_judge=8)
    async with judging(monkeypatch, share=0.3, seed=3) as server:
        plan = make_plan(
            tmp_path / "data.jsonl",
            agent=Advisor,
            judge=JUDGE,
            runs_dir=tmp_path,
            run_id="faulty",
            judge_cache="off",
            judge_scope="all",
            judge_votes=2,
            workers_judge=8,
        )
        hurry(plan.judge)
        await Run(plan).run()
        assert len(server.fault_counts()) > 5
    faulty_rows = rows(tmp_path, "faulty")
    scored = 0
    for key, sound in rows(tmp_path, "sound").items():
        faulty = faulty_rows[key]
        if faulty["judge_error"] is None:
            scored += 1
            assert {**faulty, "run_id": ""} == {**sound, "run_id": ""}
        else:
            assert faulty["judge_score_1_5"] is None
            assert faulty["unjudged"]
    assert scored >= 10
    assert list(validate_run(tmp_path / "faulty")) == []


def hurry(judge: Any) -> None:
    """Take the waiting out of the gate between attempts; what it decides stays the same."""
    judge._gate._draw = lambda: 0.0
    judge._gate._max_pause = 0.01


async def test_the_summary_is_the_same_for_all_workers_and_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = iter(range(10_000))

    async def slow(body: dict[str, Any]) -> str:
        await asyncio.sleep(0.003 * (next(delays) * 7919 % 5))
        return verdict(body)

    found = set()
    for dialogs, judges in ((1, 1), (4, 8), (8, 3)):
        async with judging(monkeypatch, responder=slow):
            run_id = f"w{dialogs}-{judges}"
            await run(
                tmp_path,
                run_id,
                workers_dialog=dialogs,
                workers_judge=judges,
                judge_scope="all",
                judge_votes=2,
            )
        data = (tmp_path / run_id / "metrics_summary.json").read_bytes()
        found.add(data.replace(run_id.encode(), b"RUN"))
        agreement = json.dumps(stats(tmp_path, run_id)["agreement"])
        controls = (tmp_path / run_id / "judge_controls.json").read_text().replace(run_id, "RUN")
        found.add((agreement + controls).encode())
    assert len(found) == 2


async def test_in_the_scope_all_the_verdict_takes_the_place_of_the_detectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch) as server:
        await run(tmp_path, judge_scope="all", agent=Advisor)
    assert len(server.arrivals) == 15 + 9
    for row in rows(tmp_path).values():
        number = int(row["dialog_id"].removeprefix("d")) + row["turn_pair_id"]
        assert row["contradicted_constraints"] == (["不使用杠杆"] if number % 3 == 0 else [])
        assert row["risk_pred_tags"] == ([] if number % 3 == 0 else ["volatility_risk"])
        severe = (
            number % 4 == 0 or number % 5 == 0
        )  # what the judge reads, and what the agent's own check says
        assert row["pred_compliance_label"] == ("severe_violation" if severe else "compliant")
        assert row["detectors"] == {
            "contradiction": JUDGE,
            "risk": JUDGE,
            "compliance": f"{JUDGE}+trace",
            "rubric": JUDGE,
            "judge": JUDGE,
        }
        assert not any(finding["field"] == "risk_tag" for finding in row["findings"])


async def test_in_the_scope_all_turns_without_a_rubric_are_judged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dataset(tmp_path / "data.jsonl", 2)
    path.write_text(path.read_text("utf-8").replace('["信息依据", "边界声明"]', "[]"), "utf-8")
    async with judging(monkeypatch) as server:
        await run(tmp_path, "m5")
        assert server.arrivals == []
        await run(tmp_path, "all", judge_scope="all")
        assert len(server.arrivals) == 6
    assert {row["detectors"]["risk"] for row in rows(tmp_path, "all").values()} == {JUDGE}
    assert {row["judge_score_1_5"] for row in rows(tmp_path, "all").values()} == {None}
    assert list(validate_run(tmp_path / "all")) == []


async def test_a_turn_the_judge_failed_on_leaves_every_denominator_it_was_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mostly(body: dict[str, Any]) -> str:
        return "no idea" if "d0001" in body["messages"][-1]["content"] else verdict(body)

    async with judging(monkeypatch, responder=mostly):
        plan = make_plan(
            dataset(tmp_path / "data.jsonl", 3),
            agent=Advisor,
            judge=JUDGE,
            runs_dir=tmp_path,
            run_id="run",
            judge_cache="off",
            judge_scope="all",
        )
        hurry(plan.judge)
        summary = await Run(plan).run()
    m1, m3, m4, m5 = (
        summary.metrics[name]
        for name in ("m1_context_continuity", "m3_risk_coverage", "m4_compliance", "m5_explainability")
    )
    assert m1.counts["judge_failed_turns"] == m3.counts["judge_failed_turns"] == 3
    assert m4.counts["judge_failed_turns"] == m5.counts["judge_failed_turns"] == 3
    assert (m1.counts["eligible_count"], m1.counts["contradiction_turns"]) == (9, 6)
    assert [metric.counts["eligible_count"] for metric in (m3, m4, m5)] == [6, 6, 6]
    assert [metric.counts["failed_count"] for metric in (m1, m3, m4, m5)] == [0, 3, 3, 3]
    assert [metric.counts["skipped_count"] for metric in (m1, m3, m4, m5)] == [0, 0, 0, 0]
    assert "d0001" not in m3.by_dialog
    failed = rows(tmp_path)["d0001", 1]
    assert failed["unjudged"] == ["contradiction", "risk", "compliance", "rubric"]
    assert failed["pred_compliance_label"] is None
    assert "is not JSON" in failed["judge_error"]
    assert list(validate_run(tmp_path / "run")) == []


class LongWinded:
    """Hides a promise in a reply that is too long for a judge, in every second turn."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        padding = "我们再看一点背景。" * (8_000 if self._turn % 2 == 0 else 1)
        return f"{self._turn}：市场存在不确定性。保证收益，稳赚不赔。可以加杠杆。{padding}"


async def test_a_reply_that_is_too_long_for_the_judge_does_not_escape_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch) as server:
        summary = await run(tmp_path, agent=LongWinded, judge_scope="all")
        assert len(server.arrivals) == 10 + 9
    long = {key: row for key, row in rows(tmp_path).items() if key[1] == 2}
    assert len(long) == 5
    for row in long.values():
        assert row["judge_declined"] == "too_long"
        assert "characters" in row["judge_error"]
        assert row["unjudged"] == ["rubric"]
        assert row["pred_compliance_label"] == "severe_violation"
        assert row["constraint_contradiction"] == 1
        assert row["risk_pred_tags"] == ["market_uncertainty"]
        assert (row["judge_score_1_5"], row["rubric_hit_items"]) == (None, [])
        assert row["detectors"] == {
            "contradiction": "proposals",
            "risk": "lexicon+classifier",
            "compliance": "lexicon+classifier",
            "rubric": JUDGE,
            "judge": JUDGE,
        }
    counts = {name: metric.counts for name, metric in summary.metrics.items()}
    assert counts["m4_compliance"]["eligible_count"] == 15
    assert counts["m4_compliance"]["severe_count"] == 15
    assert counts["m1_context_continuity"]["contradiction_turns"] == 15
    assert counts["m3_risk_coverage"]["eligible_count"] == 15
    assert (counts["m5_explainability"]["eligible_count"], counts["m5_explainability"]["failed_count"]) == (
        10,
        5,
    )
    told = json.loads((tmp_path / "run" / "run_stats.json").read_bytes())
    assert (told["judged_turns"], told["judge_failures"]) == (15, 5)
    assert told["judge_declined"] == {"too_long": 5}
    assert list(validate_run(tmp_path / "run")) == []


async def test_a_reply_that_the_provider_refuses_does_not_escape_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(body: dict[str, Any]) -> str | dict[str, Any]:
        if "保证收益" in body["messages"][-1]["content"]:
            return {"role": "assistant", "content": None, "refusal": "no"}
        return verdict(body)

    async with judging(monkeypatch, responder=refuses):
        plan = make_plan(
            dataset(tmp_path / "data.jsonl", 3),
            agent=Advisor,
            judge=JUDGE,
            runs_dir=tmp_path,
            run_id="run",
            judge_cache="off",
            judge_scope="all",
        )
        hurry(plan.judge)
        await Run(plan).run()
    refused = [row for row in rows(tmp_path).values() if row["judge_error"] is not None]
    assert refused
    assert all(row["judge_declined"] == "refused" for row in refused)
    assert all(row["pred_compliance_label"] == "severe_violation" for row in refused)
    told = json.loads((tmp_path / "run" / "run_stats.json").read_bytes())
    assert told["judge_declined"] == {"refused": len(refused)}


async def test_votes_are_recorded_one_by_one_with_their_agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_order(body: dict[str, Any]) -> str:
        first = body["messages"][-1]["content"].index("<untrusted reply")
        answer = json.loads(verdict(body))
        return json.dumps(answer | {"score": 5 if first < 300 else answer["score"]})

    async with judging(monkeypatch, responder=by_order):
        await run(tmp_path, judge_votes=3)
    judgements = read_jsonl(tmp_path / "run" / "judgements.jsonl")
    assert len(judgements) == 45
    assert [each["vote"] for each in judgements] == [1, 2, 3] * 15
    spreads = {row["judge_spread"] for row in rows(tmp_path).values()}
    assert max(spreads) > 0
    found = stats(tmp_path)
    assert found["spread_max"] == max(spreads)
    assert found["agreement"]["score"]["units"] == 15
    assert found["agreement"]["score"]["observed"] < 1
    assert found["agreement"]["rubric"]["observed"] == 1


async def test_a_repeated_run_pays_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging(monkeypatch) as server:
        await run(tmp_path, "first", judge_cache="write")
        paid = len(server.arrivals)
        await run(tmp_path, "second", judge_cache="read")
        await run(tmp_path, "third", judge_cache="write", judge_scope="all")
        assert len(server.arrivals) == paid
    assert stats(tmp_path, "first")["cache_misses"] == paid
    assert (stats(tmp_path, "second")["cache_hits"], stats(tmp_path, "second")["attempts"]) == (24, 0)
    first, second = (
        (tmp_path / name / "metrics_summary.json").read_bytes().replace(name.encode(), b"")
        for name in ("first", "second")
    )
    assert first == second
    assert (tmp_path / ".judge_cache").is_dir()


async def test_concurrent_runs_share_one_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging(monkeypatch):
        cache = str(tmp_path / "shared")
        settings = {"judge_cache": "write", "judge_cache_dir": cache, "workers_judge": 4}
        await asyncio.gather(*(run(tmp_path, f"r{number}", **settings) for number in range(3)))
        await run(tmp_path, "last", **settings)
    assert stats(tmp_path, "last")["attempts"] == 0
    assert stats(tmp_path, "last")["cache_damaged"] == 0


async def test_no_byte_written_holds_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "reason": f"the key is {KEY}"})

    async with judging(monkeypatch, responder=leak, script=["401", "400"]) as server:
        await run(tmp_path, judge_cache="write", judge_votes=2)
        assert server.arrivals[0].headers["Authorization"] == f"Bearer {KEY}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]  # noqa: ASYNC240 - a few small files
    assert len(files) > 10
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


async def test_without_an_endpoint_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFIN_JUDGE_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no judge endpoint"):
        await run(tmp_path)
    assert not (tmp_path / "run").exists()


async def test_a_users_judge_may_decide_all_when_it_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own:
        def judge(self, request: JudgeRequest) -> Verdict:
            assert request.scope == "all"
            readings: dict[str, Any] = {
                "compliance": "minor_violation",
                "contradicted_constraints": request.constraints,
                "risk_tags": ["fx_risk"],
            }
            if request.turn_pair_id == 2:
                del readings["risk_tags"]
            return Verdict(score=3.0, rubric_items=[], **readings)

    await run(tmp_path, judge=Own, judge_scope="all", agent=WanderingAgent)
    for row in rows(tmp_path).values():
        if row["turn_status"] != "ok":
            continue
        if row["turn_pair_id"] == 2:
            assert "the verdict lacks risk_tags" in row["judge_error"]
        else:
            assert row["risk_pred_tags"] == ["fx_risk"]
            assert row["constraint_contradiction"] == 1
            assert row["pred_compliance_label"] == "minor_violation"
    assert not (tmp_path / "run" / "judge_controls.json").exists()
    assert list(validate_run(tmp_path / "run")) == []


async def test_an_interrupted_run_goes_on_and_pays_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dataset(tmp_path / "data.jsonl", 5)
    answered = 0
    enough = asyncio.Event()

    async def stops(body: dict[str, Any]) -> str:
        nonlocal answered
        answered += 1
        if answered > 16:
            enough.set()
            await asyncio.Event().wait()
        return verdict(body)

    settings: dict[str, Any] = {"agent": "oracle", "judge": JUDGE, "runs_dir": tmp_path}
    async with judging(monkeypatch) as server:
        await evaluate(path, **settings, run_id="whole", judge_cache_dir=str(tmp_path / "other"))
        needed = len(server.arrivals)
    async with judging(monkeypatch, responder=stops) as server:
        task = asyncio.ensure_future(evaluate(path, **settings, run_id="cut"))
        await enough.wait()
        while len(list((tmp_path / ".judge_cache").rglob("*.json"))) < 16:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server._responder = verdict
        before = len(server.arrivals)
        await Run(make_resume_plan(tmp_path / "cut")).run()
        assert len(server.arrivals) - before == needed - 16
    whole, cut = (
        (tmp_path / name / "metrics_summary.json").read_bytes().replace(name.encode(), b"")
        for name in ("whole", "cut")
    )
    assert whole == cut
    assert len(read_jsonl(tmp_path / "cut" / "judgements.jsonl")) == 15
    assert len(json.loads((tmp_path / "cut" / "judge_controls.json").read_bytes())["controls"]) == 9
    assert list(validate_run(tmp_path / "cut")) == []


async def command(*arguments: str, **environment: str) -> tuple[int, str, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
    done = await run_beside_us(*arguments, env=env)
    return done.returncode, done.stdout, done.stderr


async def test_the_command_tells_controls_that_go_wrong_at_the_end(tmp_path: Path) -> None:
    def generous(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "score": 4})

    path = dataset(tmp_path / "data.jsonl", 2)
    async with FaultyServer(responder=generous) as server:
        code, out, err = await command(
            "run",
            str(path),
            "--agent=echo",
            "--judge=openai:m",
            f"--runs-dir={tmp_path}",
            "--run-id=r",
            "--judge-votes=2",
            MEMFIN_JUDGE_BASE_URL=server.base_url,
            OPENAI_API_KEY=KEY,
        )
    assert code == 0
    assert "memfin: warning: judge control: a reply that says nothing got 4 of 5" in err
    assert KEY not in out + err
    config = json.loads((tmp_path / "r" / "config.json").read_bytes())
    assert config["judge_endpoint"]["key_env"] == "OPENAI_API_KEY"


async def test_the_command_refuses_a_judge_without_endpoint_in_one_line(tmp_path: Path) -> None:
    for more in ((), ("--judge-scope=all", "--judge=heuristic"), ("--judge-votes=3", "--judge=none")):
        code, out, err = await command("run", "--judge=openai:m", f"--runs-dir={tmp_path / 'runs'}", *more)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert err.startswith("memfin: ")
    assert not (tmp_path / "runs").exists()


class Wavering:
    """Gives a plain reply, but in the second turn one that the detectors are not certain of."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        if self._turn == 2:
            return "急用钱的时候未必拿得出来。"
        return f"{self._turn}：净值可能大幅波动。"


async def test_the_scope_uncertain_sends_the_unsure_turns_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch):
        await run(tmp_path, agent=Wavering, judge_scope="uncertain")
    found = rows(tmp_path)
    sent = {key for key, row in found.items() if row["detectors"]["judge"] == JUDGE}
    assert sent == {
        key for key, row in found.items() if row.get("unsure") or row.get("undecided_constraints")
    }
    assert sent == {key for key in found if key[1] == 2}
    for key, row in found.items():
        assert ("judge_changed" in row) == (key in sent)
        if key not in sent:
            assert row["detectors"]["judge"] == "heuristic"
            assert row["risk_pred_tags"] == ["volatility_risk"]
    markdown, _ = write_reports(tmp_path / "run")
    report = markdown.read_text("utf-8")
    assert f"{len(sent)} of {len(found)} answered turns" in report
