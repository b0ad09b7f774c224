"""Runs for the viewer, and a server of its pages on loopback."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import ClientSession, CookieJar
from aiohttp.test_utils import TestServer
from yarl import URL

from memfin.contracts import (
    DialogTrace,
    Finding,
    Judgement,
    RecallItem,
    RecallTrace,
    ResolvedKey,
    RunManifest,
    TurnEvalRow,
)
from memfin.contracts.judgement import Verdict
from memfin.contracts.rag import RagAnswer, RagResult, RagSummary
from memfin.contracts.settings import SoakLimits
from memfin.contracts.soak import Drift, SoakSummary
from memfin.web.view.application import view_application
from memfin.web.view.index import Indexes
from memfin.web.view.runs import Catalog
from memfin.web.view.views import Views
from tests.report.report_run_factory import row, summary, trace, turn, write_run

REPLIES = ("保本保收益，稳赚不赔。", "分散配置，净值会波动。", "Hold 100% cash_now.", "")
KEY = ResolvedKey(
    key="profile_gt.risk_level_gt", resolvable=True, target_text="稳健", resolver="profile_field"
)
DOUBTS: list[dict[str, Any]] = [
    *({}, {"judge_spread": 0.0}, {"judge_spread": 1.0}, {"unsure": ["保本保收益"], "judge_spread": 2.0}),
    {"undecided_constraints": ["不买股票"]},
]


class Run(NamedTuple):
    """What was written of a run."""

    traces: list[DialogTrace]
    rows: list[TurnEvalRow]


def write_various(directory: Path, dialogs: int = 9, turns: int = 9, seed: int = 7) -> Run:
    """Write a run of turns with all kinds of labels, findings and failures; the trace is in no order."""
    chance = random.Random(seed)
    made = Run([], [])
    for place in range(dialogs):
        name = f"d/{place} ü"
        known: list[Any] = []
        for number in range(1, turns + 1):
            failed = chance.random() < 0.1
            reply = chance.choice(REPLIES)
            recall = RecallTrace(items=[RecallItem(content="客户说：稳健。", source="notes", score=0.5)])
            known.append(
                turn(
                    number,
                    f"第{number}问：怎么配置 50%？",
                    None if failed else reply,
                    recall=recall,
                    turn_status="timeout" if failed else "ok",
                )
            )
            findings = [
                Finding(field="compliance", value="保本保收益", rule="promise.slogan", start=0, end=5),
                Finding(field="risk_tag", value="volatility_risk", rule="vol.may", start=3, end=9),
                Finding(field="rubric", value="信息依据", rule="classifier: 净 + 值", start=3, end=4),
            ]
            made.rows.append(
                row(
                    name,
                    number,
                    turn_status="timeout" if failed else "ok",
                    pred_compliance_label=None
                    if failed
                    else chance.choice(("compliant", "severe_violation")),
                    findings=[] if failed else findings[: chance.randrange(4)],
                    key_hit_flags=[chance.randrange(2)],
                    risk_pred_tags=(tags := chance.choice(([], ["volatility_risk"]))),
                    risk_tag_hits=len(tags),
                    rubric_hit_items=chance.choice(([], ["信息依据"])),
                    judge_score_1_5=chance.choice((None, 2.0, 4.5)),
                    constraint_contradiction=int(chance.random() < 0.2),
                    eligible_m1=chance.random() < 0.8,
                    **DOUBTS[number % len(DOUBTS)],
                )
            )
        scenario, difficulty = chance.choice(("资产配置", "退休规划")), chance.choice(("easy", "hard"))
        made.traces.append(
            trace(name, known, dataset_index=place + 1, scenario_type=scenario, difficulty=difficulty)
        )
    shuffled = chance.sample(made.traces, len(made.traces))
    skipped = trace(made.traces[0].dialog_id, valid_dialog=False, dialog_status="skipped", dataset_index=99)
    write_run(directory, [skipped, *shuffled], made.rows, summary(run_id=directory.name), extras=True)
    write_votes(directory, made.rows[:5], "清楚，但没有依据")
    return made


def write_votes(directory: Path, rows: Sequence[TurnEvalRow], reason: str) -> None:
    """Write a vote of a judge on some turns."""
    votes = (
        Judgement(
            run_id="r1",
            dialog_id=each.dialog_id,
            turn_pair_id=each.turn_pair_id,
            judge="m",
            prompt_hash="ab",
            attempts=1,
            verdict=Verdict(score=2.0, rubric_items=[], reason=reason),
        )
        for each in rows
    )
    lines = b"".join(msgspec.json.encode(vote) + b"\n" for vote in votes)
    (directory / "judgements.jsonl").write_bytes(lines)


def write_benchmark(directory: Path, questions: int, text: str = "第{}题？") -> None:
    """Write a benchmark whose first question has no answer; ``text`` is of each question and answer."""
    encode = msgspec.json.encode
    path = write_run(directory) / "run_manifest.json"
    (directory / "metrics_summary.json").unlink()
    manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    path.write_bytes(encode(manifest.replace(suite="rag")))
    results = (
        RagResult(
            schema_version="1.0.0",
            run_id="b",
            id=f"q{number}",
            type="fact_exact",
            question=text.format(number),
            question_index=number,
            passed=number > 1,
            score=0.7,
            max_score=1.0,
            answer=RagAnswer(answer=text.format("2021年")) if number > 1 else None,
            error=None if number > 1 else "no answer in time",
        )
        for number in range(1, questions + 1)
    )
    (directory / "rag_results.jsonl").write_bytes(b"".join(encode(one) + b"\n" for one in results))
    total = RagSummary(
        schema_version="1.0.0",
        run_id="b",
        total_tests=questions,
        passed_tests=questions - 1,
        pass_rate=(questions - 1) / questions,
        overall_score=0.7 * questions,
        max_score=float(questions),
        overall_percentage=70.0,
        by_type={},
    )
    (directory / "rag_summary.json").write_bytes(encode(total))


def write_soak(directory: Path) -> None:
    """Write the state of a soak that runs."""
    directory.mkdir()
    moment = "2026-01-01T00:00:00Z"
    state = SoakSummary(
        run_id="s",
        state="running",
        started_at=moment,
        updated_at=moment,
        memfin_version="1",
        limits=SoakLimits(),
        metrics={
            "m3_risk_coverage.risk_coverage": Drift(
                first=0.5, last=0.25, mean=0.4, min=0.2, max=0.5, epochs=4
            )
        },
    )
    (directory / "soak_summary.json").write_bytes(msgspec.json.encode(state))


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Viewer(NamedTuple):
    """A running viewer."""

    url: str
    client: ClientSession
    stop: Callable[[], Awaitable[None]]

    async def get(self, path: str, method: str = "GET", **options: Any) -> Answer:
        """Ask for a path, which is sent as it is."""
        address = URL(self.url + path, encoded=True)
        async with self.client.request(method, address, allow_redirects=False, **options) as response:
            return Answer(response.status, dict(response.headers), await response.text())


@asynccontextmanager
async def viewing(root: Path, spare: Path, only: str | None = None, **options: Any) -> AsyncIterator[Viewer]:
    views = Views(Catalog(root, only), Indexes(spare))
    async with (
        TestServer(view_application(views, **options)) as server,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as client,
    ):
        yield Viewer(str(server.make_url("")).rstrip("/"), client, server.close)
