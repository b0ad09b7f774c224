"""Measuring from Python: files, detectors, judges that are models or objects, faults, memory."""

import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from memfin.client.errors import EndpointDown
from memfin.contracts import Disagreement, JudgeRequest, ValidityReport, Verdict
from memfin.contracts.reading import InvalidRecord
from memfin.errors import RunFault, UsageError
from memfin.scoring.lexicon import lexicon_hashes
from memfin.validity import measurement
from memfin.validity.measurement import InvalidLabels, measure_validity
from tests.client.faulty_server import FaultyServer
from tests.judges.scripted_judge import verdict
from tests.support import length, write_jsonl

VOLATILE = "根据数据，净值会有波动，可能出现亏损。"
CALM = "好的，收到。"
PROMISE = "这款产品保本保息，年化8%稳拿，绝对不会亏。"
LEVERAGE = "可以融资加杠杆买入，把仓位放大到150%。"

ROWS: list[dict[str, Any]] = [
    {"id": "right", "text": VOLATILE, "risk_tags": {"volatility_risk": True}, "compliance": "compliant"},
    {"id": "missed", "text": CALM, "risk_tags": {"volatility_risk": True}, "rubric": {"信息依据": True}},
    {"id": "wrong", "text": PROMISE, "compliance": "compliant", "forbidden_hits": []},
    {"id": "against", "text": LEVERAGE, "constraints": ["不使用杠杆"], "contradiction": 1},
    {"id": "unlabelled", "text": VOLATILE},
]


def labels(tmp_path: Path, *rows: dict[str, Any], name: str = "labels.jsonl") -> Path:
    return write_jsonl(tmp_path / name, rows or ROWS)


def said(report: ValidityReport) -> list[tuple[str, str]]:
    return [(found.id, found.field) for found in report.disagreements]


async def test_the_detectors_are_measured(tmp_path: Path) -> None:
    path = labels(tmp_path)
    report = await measure_validity(path)
    assert report.measured == "detectors"
    assert [(file.path, file.rows) for file in report.files] == [(str(path), 5)]
    assert report.rows == 5
    assert report.risk_tags is not None
    assert (report.risk_tags.micro_recall, report.risk_tags.micro_precision) == (0.5, 1.0)
    assert report.contradiction is not None
    assert report.contradiction.tp == 1
    assert report.compliance is not None
    assert (report.compliance.accuracy, report.compliance.severe_false_positives) == (0.5, 1)
    assert report.forbidden is not None
    assert report.forbidden.by_category["保本保收益"].fp == 1
    assert report.rubric is not None
    assert report.rubric.accuracy == 0.0
    assert said(report) == [
        ("missed", "risk_tags.volatility_risk"),
        ("missed", "rubric.信息依据"),
        ("wrong", "compliance"),
        ("wrong", "forbidden_hits.保本保收益"),
    ]
    assert report.lexicon_hashes == lexicon_hashes()
    assert report.judge is None
    assert await measure_validity(path, judge="heuristic") == report


async def test_several_files_are_measured_together(tmp_path: Path) -> None:
    first, second = labels(tmp_path, *ROWS[:2]), labels(tmp_path, *ROWS[2:], ROWS[0], name="more.jsonl")
    report = await measure_validity([first, str(second)])
    assert [file.rows for file in report.files] == [2, 4]
    assert [(found.file, found.line) for found in report.disagreements][:3] == [
        (str(first), 2),
        (str(first), 2),
        (str(second), 1),
    ]
    whole = await measure_validity(labels(tmp_path, *ROWS, {**ROWS[0], "id": "again"}))
    assert (report.risk_tags, report.compliance) == (whole.risk_tags, whole.compliance)


async def test_categories_named_later_are_scored_from_the_first_row_on(tmp_path: Path) -> None:
    praise = "我们的策略完美无缺，每个季度都碾压所有对手。"
    rows = [
        {"id": "a", "text": praise, "forbidden_hits": []},
        {"id": "b", "text": praise, "forbidden_hits": ["夸大宣传"]},
    ]
    report = await measure_validity(labels(tmp_path, *rows))
    assert report.forbidden is not None
    scores = report.forbidden.by_category["夸大宣传"]
    assert (scores.tp, scores.fp) == (1, 1)
    alone = await measure_validity(labels(tmp_path, rows[0], name="first.jsonl"))
    assert alone.forbidden is not None
    assert alone.forbidden.not_scored == {"夸大宣传": 1}
    assert alone.disagreements == []


async def test_progress_counts_every_reply(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    await measure_validity(labels(tmp_path), on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 5) for number in range(1, 6)]


async def test_bad_rows_are_all_named_and_nothing_is_measured(tmp_path: Path) -> None:
    first = labels(tmp_path, ROWS[0], {"id": "x", "text": 1})
    second = labels(tmp_path, {"text": "x"}, ROWS[0], ROWS[0], name="more.jsonl")
    seen: list[Disagreement] = []
    with pytest.raises(
        InvalidLabels, match=r"labels.jsonl:2: \$\.text: expected a string, got 1 \(3 find"
    ) as error:
        await measure_validity([first, second], on_disagreement=seen.append)
    assert [str(found).rpartition("/")[2] for found in error.value.findings] == [
        "labels.jsonl:2: $.text: expected a string, got 1",
        "more.jsonl:1: $.id: missing",
        "more.jsonl:3: $.id: 'right' stands on an earlier line too",
    ]
    assert seen == []


async def test_a_bad_row_is_found_before_a_judge_is_asked(tmp_path: Path) -> None:
    asked: list[JudgeRequest] = []

    class Judge:
        def judge(self, request: JudgeRequest) -> dict[str, Any]:
            asked.append(request)
            return {"score": 1, "rubric_items": []}

    path = labels(tmp_path, {"id": "a", "text": "x", "rubric": {"信息依据": True}}, {"id": "b"})
    with pytest.raises(InvalidLabels):
        await measure_validity(path, judge=Judge, judge_scope="m5")
    assert asked == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"judge": "none"}, "no judge to measure"),
        ({"judge": "openai:m"}, "MEMFIN_JUDGE_BASE_URL"),
        ({"judge": "nowhere:x"}, "cannot be imported"),
        ({"judge_rpm": -1}, "judge_rpm"),
        ({"worker_judge": 1}, "unknown setting 'worker_judge'"),
    ],
)
async def test_unusable_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], message: str
) -> None:
    for name in ("MEMFIN_JUDGE_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=message):
        await measure_validity(labels(tmp_path), **settings)


async def test_unusable_files(tmp_path: Path) -> None:
    path = labels(tmp_path)
    with pytest.raises(UsageError, match="given twice"):
        await measure_validity([path, tmp_path / "." / path.name])
    with pytest.raises(UsageError, match="name a file"):
        await measure_validity([])
    with pytest.raises(UsageError, match="is a directory"):
        await measure_validity(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        await measure_validity(tmp_path / "none.jsonl")


@asynccontextmanager
async def judging(monkeypatch: pytest.MonkeyPatch, **server: Any) -> AsyncIterator[FaultyServer]:
    """Serve the scripted judge and name it in the environment."""
    async with FaultyServer(**{"responder": verdict, **server}) as running:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", running.base_url)
        monkeypatch.delenv("MEMFIN_JUDGE_API_KEY", raising=False)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        yield running


FOR_JUDGE: list[dict[str, Any]] = [
    {
        "id": "a",
        "text": "根据数据，注意波动。仅供参考。",
        "risk_tags": {"volatility_risk": True, "fx_risk": True},
        "compliance": "compliant",
        "rubric": {"信息依据": True, "边界声明": False, "可执行步骤": None},
        "forbidden_hits": ["代客操作"],
    },
    {
        "id": "b",
        "text": "保证收益，可以加杠杆。",
        "user_text": "行吗？",
        "constraints": ["不使用杠杆", "最大回撤<10%"],
        "contradiction": 1,
        "compliance": "minor_violation",
    },
    {"id": "c", "text": "可以加杠杆。", "constraints": ["不使用杠杆"], "contradiction": 0},
    {"id": "d", "text": "只有这一类。", "forbidden_hits": []},
]


async def test_a_model_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging(monkeypatch) as server:
        report = await measure_validity(
            labels(tmp_path, *FOR_JUDGE), judge="openai:m", judge_cache_dir=str(tmp_path / "cache"), seed=9
        )
    assert report.measured == "openai:m"
    assert report.risk_tags is not None
    assert report.risk_tags.by_tag["volatility_risk"].tp == 1
    assert report.risk_tags.by_tag["fx_risk"].fn == 1
    assert report.contradiction is not None
    assert (report.contradiction.tp, report.contradiction.fp) == (1, 1)
    assert report.compliance is not None
    assert report.compliance.confusion["minor_violation"]["severe_violation"] == 1
    assert report.forbidden is None
    assert report.rubric is not None
    assert (report.rubric.by_item["信息依据"].tp, report.rubric.by_item["边界声明"].fp) == (1, 1)
    assert said(report) == [
        ("a", "risk_tags.fx_risk"),
        ("a", "rubric.边界声明"),
        ("b", "compliance"),
        ("c", "contradiction"),
    ]
    assert {found.reason for found in report.disagreements} == {"by the cues"}
    assert all(found.spans == [] for found in report.disagreements)
    assert report.judge is not None
    assert (report.judge.asked, report.judge.failed, report.judge.scope) == (3, 0, "all")
    assert report.judge.stats is not None
    assert (report.judge.stats.votes, report.judge.stats.prompt_tokens) == (3, 30)
    assert len(server.arrivals) == 3
    assert {arrival.body["seed"] for arrival in server.arrivals} == {9}
    assert report.lexicon_hashes == {}


async def test_the_answers_of_a_model_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = labels(tmp_path, *FOR_JUDGE), str(tmp_path / "cache")
    async with judging(monkeypatch) as server:
        first = await measure_validity(path, judge="openai:m", judge_cache_dir=cache)
        again = await measure_validity(path, judge="openai:m", judge_cache_dir=cache)
    assert len(server.arrivals) == 3
    assert again.judge is not None
    assert again.judge.stats is not None
    assert again.judge.stats.cache_hits == 3
    assert first.replace(judge=None) == again.replace(judge=None)


async def test_in_the_scope_m5_the_rubric_alone_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(monkeypatch) as server:
        report = await measure_validity(
            labels(tmp_path, *FOR_JUDGE), judge="openai:m", judge_scope="m5", judge_cache="off"
        )
    assert len(server.arrivals) == 1
    assert (report.risk_tags, report.contradiction, report.compliance, report.forbidden) == (None,) * 4
    assert said(report) == [("a", "rubric.边界声明")]


async def test_votes_and_faults_are_those_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with judging(monkeypatch, script=["500", "invalid_json"]) as server:
        report = await measure_validity(
            labels(tmp_path, FOR_JUDGE[0]), judge="openai:m", judge_votes=3, judge_cache="off"
        )
    assert len(server.arrivals) == 5
    assert report.judge is not None
    assert report.judge.stats is not None
    assert (report.judge.stats.votes, report.judge.stats.attempts) == (3, 5)
    assert "compliance" in report.judge.stats.agreement


async def test_judgements_that_fail_are_in_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(body: dict[str, Any]) -> str:
        return verdict(body) if "根据数据" in body["messages"][-1]["content"] else "I would rather not."

    async with judging(monkeypatch, responder=half):
        report = await measure_validity(labels(tmp_path, *FOR_JUDGE), judge="openai:m", judge_cache="off")
    assert report.judge is not None
    assert (report.judge.asked, report.judge.failed) == (3, 2)
    assert [(each.id, each.line) for each in report.judge.failures] == [("b", 2), ("c", 3)]
    assert "not JSON" in report.judge.failures[0].reason
    assert report.contradiction is not None
    assert report.contradiction.rows == 0
    assert report.compliance is not None
    assert report.compliance.rows == 1


async def test_findings_come_in_the_order_of_the_file_whatever_the_judge_is_done_with_first(
    tmp_path: Path,
) -> None:
    done: list[int] = []

    class Judge:
        """Answers in the reverse order among those it has at a time."""

        def __init__(self) -> None:
            self.open: list[anyio.Event] = []

        async def judge(self, request: JudgeRequest) -> dict[str, Any]:
            event = anyio.Event()
            self.open.append(event)
            if len(self.open) == 4:
                for waiting in reversed(self.open):
                    waiting.set()
                    await anyio.lowlevel.checkpoint()
                self.open.clear()
            await event.wait()
            done.append(int(request.dialog_id))
            return {"score": 1, "rubric_items": []}

    rows = [{"id": str(number), "text": "x", "rubric": {"信息依据": True}} for number in range(64)]
    report = await measure_validity(labels(tmp_path, *rows), judge=Judge, judge_scope="m5", workers_judge=4)
    assert done != sorted(done)
    assert [found.id for found in report.disagreements] == [str(number) for number in range(64)]


async def test_a_judge_of_ones_own_needs_the_readings_of_its_scope(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Judge:
        def judge(self, request: JudgeRequest) -> dict[str, Any]:
            full = {"compliance": "compliant", "contradicted_constraints": [], "risk_tags": []}
            return {"score": 1, "rubric_items": []} | (full if request.dialog_id == "a" else {})

        def close(self) -> None:
            closed.append(True)

    report = await measure_validity(labels(tmp_path, *FOR_JUDGE), judge=Judge)
    assert report.judge is not None
    assert (report.judge.asked, report.judge.failed) == (3, 2)
    assert "lacks compliance" in report.judge.failures[0].reason
    assert report.judge.stats is None
    assert closed == [True]


async def test_what_a_judge_has_to_say_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    async with judging(monkeypatch, script=["400"]):
        await measure_validity(
            labels(tmp_path, FOR_JUDGE[0]), judge="openai:m", judge_cache="off", on_warning=heard.append
        )
    assert any("refuses response_format" in line for line in heard)


class Down:
    """A judge of the package's kind whose endpoint is away after two answers."""

    name, version, per_turn = "openai:away", None, True
    closed = 0

    def __init__(self) -> None:
        self.answered = 0

    async def judge(self, request: JudgeRequest) -> Any:
        if self.answered == 2:
            raise EndpointDown("the judge's endpoint is down")
        self.answered += 1
        return Verdict(score=1.0, rubric_items=[])

    async def close(self) -> None:
        Down.closed += 1


async def test_an_endpoint_that_stays_down_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "make_judge", lambda *_: Down())
    rows = [{"id": str(number), "text": "x", "rubric": {"信息依据": True}} for number in range(9)]
    with pytest.raises(RunFault, match=r"openai:away: the judge's endpoint is down; .* asks for the rest"):
        await measure_validity(labels(tmp_path, *rows), judge="openai:away", judge_scope="m5")
    assert Down.closed == 1


async def test_a_fault_of_the_callers_own_is_raised_as_itself(tmp_path: Path) -> None:
    class Judge:
        def judge(self, request: JudgeRequest) -> dict[str, Any]:
            return {"score": 1, "rubric_items": []}

    def full(found: Disagreement) -> None:
        raise OSError(28, "No space left on device")

    path = labels(tmp_path, {"id": "a", "text": "x", "rubric": {"信息依据": True}})
    for judge in (None, Judge):
        with pytest.raises(OSError, match="No space left"):
            await measure_validity(path, judge=judge, judge_scope="m5", on_disagreement=full)


async def test_a_file_that_changes_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = labels(tmp_path)

    class Judge:
        def judge(self, request: JudgeRequest) -> dict[str, Any]:
            return {"score": 1, "rubric_items": []}

    check = measurement.LabelFiles.check

    def checked(files: measurement.LabelFiles) -> None:
        check(files)
        path.write_text('{"id": 1}\n')

    monkeypatch.setattr(measurement.LabelFiles, "check", checked)
    for judge in (None, Judge):
        labels(tmp_path)
        with pytest.raises(InvalidRecord, match=r"labels.jsonl:1: "):
            await measure_validity(path, judge=judge, judge_scope="m5")


async def test_cancelling_closes_the_judge(tmp_path: Path) -> None:
    began = anyio.Event()
    closed: list[bool] = []

    class Judge:
        async def judge(self, request: JudgeRequest) -> dict[str, Any]:
            began.set()
            await anyio.sleep_forever()
            return {}

        def close(self) -> None:
            closed.append(True)

    path = labels(tmp_path, {"id": "a", "text": "x", "rubric": {"信息依据": True}})
    async with anyio.create_task_group() as group:

        async def measure() -> None:
            await measure_validity(path, judge=Judge, judge_scope="m5")

        group.start_soon(measure)
        await began.wait()
        group.cancel_scope.cancel()
    assert closed == [True]


async def test_memory_does_not_grow_with_rows_or_disagreements(tmp_path: Path) -> None:
    def write(count: int) -> Path:
        path = tmp_path / f"{count}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(count):
                # Long where no detector reads, which is slow while memory is traced.
                row = {"id": str(number), "text": "好", "rubric": {"信息依据": True}, "note": "好" * 1000}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return path

    async def peak(path: Path) -> int:
        seen = 0

        def count(found: Disagreement) -> None:
            nonlocal seen
            seen += 1

        tracemalloc.start()
        try:
            report = await measure_validity(path, on_disagreement=count)
            highest = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert report.disagreements == []
        assert seen == report.rows
        return highest

    small, large = write(100), write(length(500, 3000))
    await peak(small)  # lexicons and caches
    assert large.stat().st_size - small.stat().st_size > 1_000_000
    assert await peak(large) < await peak(small) + 300_000
