"""The judge's section of a report."""

from pathlib import Path

import msgspec
import pytest

from memfin.contracts import (
    JudgeAgreement,
    JudgeControl,
    JudgeControls,
    JudgeStats,
    LatencyStats,
    RunStats,
)
from memfin.contracts.judgement import ControlKind, Judgement, Verdict
from memfin.errors import UsageError
from memfin.report import load_report, render_html_report, render_markdown_report
from tests.report.report_run_factory import row, trace, turn, worst_cases, write_run

STATS = JudgeStats(
    votes=30,
    failed_votes=2,
    attempts=41,
    cache_hits=5,
    cache_misses=25,
    cache_damaged=1,
    prompt_tokens=1000,
    completion_tokens=200,
    response_formats={"json_schema": 28},
    spread_mean=0.25,
    spread_max=2.0,
    agreement={
        "score": JudgeAgreement(level="interval", units=10, observed=0.8, alpha=0.61234),
        "compliance": JudgeAgreement(level="nominal", units=10, observed=1.0),
    },
)


def control(kind: ControlKind, score: float | None, items: int = 0) -> JudgeControl:
    return JudgeControl(
        kind=kind,
        dialog_id="a",
        turn_pair_id=1,
        rubric_required=["x", "y"],
        score=score,
        rubric_items=["x", "y"][:items],
        error=None if score is not None else "down",
    )


CONTROLS = JudgeControls(
    run_id="r1",
    judge="openai:m",
    controls=[control("null", 1), control("null", 2), control("injected", 5, 2), control("oracle", None)],
    warnings=["a reply that orders its own marks got 5 of 5 <b>"],
)


def judged_run(tmp_path: Path) -> Path:
    run = write_run(tmp_path / "r1", [trace("a", [turn()])], [row("a")], extras=True)
    stats = RunStats(
        run_id="r1",
        wall_seconds=1.0,
        turn_latency_ms=LatencyStats(),
        turns_by_status={"ok": 1},
        dialogs_by_status={"ok": 1},
        skips_by_reason={},
        judge=STATS,
    )
    (run / "run_stats.json").write_bytes(msgspec.json.encode(stats))
    (run / "judge_controls.json").write_bytes(msgspec.json.encode(CONTROLS))
    return run


def test_the_section_tells_votes_controls_and_agreement(tmp_path: Path) -> None:
    model = load_report(judged_run(tmp_path))
    text = render_markdown_report(model)
    for line in (
        "## Judge",
        "| Decides | M5 |",
        "| Votes per turn | 1 |",
        "| Votes | 30, 2 failed |",
        "| From the cache | 5 of 30 look-ups, 1 entries damaged |",
        "| Spread of the votes | 0.25 on average, 2 at most |",
        "| Says nothing | 2 of 2 | 1.50 | 0 of 4 | 1.00 |",
        "| Says nothing and orders full marks | 1 of 1 | 5.00 | 2 of 2 | 1.00 |",
        "| Reference reply | 0 of 1 | - | - | 3.00 or more |",
        "| Score (interval) | 10 | 80.0 % | 0.612 |",
        "| Compliance label | 10 | 100.0 % | undefined: all alike |",
        "**Warning: The judge got a control wrong.**",
    ):
        assert line in text, line
    html = render_html_report(model)
    assert '<section id="judge"' in html
    assert "Says nothing and orders full marks" in html
    assert "5 of 5 &lt;b&gt;" in html
    assert "5 of 5 <b>" not in html


def test_a_worst_turn_shows_the_reasons_of_the_judge(tmp_path: Path) -> None:
    run = write_run(tmp_path, [trace("a", [turn()])], [row("a", judge_score_1_5=1.5, judge_error=None)])
    lines = [
        Judgement(
            run_id="r1",
            dialog_id="a",
            turn_pair_id=pair,
            judge="openai:m",
            prompt_hash="0",
            attempts=1,
            vote=vote,
            verdict=Verdict(score=score, rubric_items=[], reason=f"reason {vote} of turn {pair}"),
        )
        for pair, vote, score in ((1, 1, 1.0), (1, 2, 2.0), (2, 1, 5.0))
    ]
    (run / "judgements.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    (case,) = worst_cases(load_report(run))["Judge scores below 4"]
    shown = {each.label: [item.text for item in each.items] for each in case.evidence}
    assert shown["Judge"] == ["1 of 5: reason 1 of turn 1", "2 of 5: reason 2 of turn 1"]


def test_runs_without_a_model_as_the_judge_have_no_section(tmp_path: Path) -> None:
    model = load_report(write_run(tmp_path / "r1", [trace("a", [turn()])], [row("a")], extras=True))
    assert "## Judge" not in render_markdown_report(model)
    assert 'id="judge"' not in render_html_report(model)


def test_controls_that_are_none_are_one_clear_line(tmp_path: Path) -> None:
    run = judged_run(tmp_path)
    (run / "judge_controls.json").write_text('{"run_id": "r1"}')
    with pytest.raises(UsageError, match=r"judge_controls\.json"):
        load_report(run)
