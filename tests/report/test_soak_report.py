"""The report of a soak, made from its summary and its lines."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts import ConfigFile, RunConfig, SoakLimits
from memfin.contracts.soak import (
    Distribution,
    Drift,
    ProcessSample,
    SoakEpoch,
    SoakErrors,
    SoakSummary,
)
from memfin.errors import UsageError
from memfin.language import use_language
from memfin.report import load_report, render_html_report, render_markdown_report, write_reports
from memfin.report.soak_report import change_in_unit, in_unit
from tests.report.report_run_factory import blocks, table_rows
from tests.support import each_case

COVERAGE = "m3_risk_coverage.risk_coverage"
MIB = 1 << 20


def drift(mean: float, slope: float = 0.0, ci95: tuple[float, float] | None = None) -> Drift:
    drifting = ci95 is not None and not ci95[0] <= 0 <= ci95[1]
    return Drift(
        first=mean,
        last=mean,
        mean=mean,
        min=mean,
        max=mean,
        epochs=9,
        slope=slope,
        ci95=ci95,
        drifting=drifting,
    )


def epoch(number: int, **more: Any) -> SoakEpoch:
    lag = Distribution(count=3, p50=1.0, p99=2.0, centroids=[(1.0, 3.0)])
    values: dict[str, Any] = {
        "metrics": {COVERAGE: 0.5 + number / 1000},
        "turn_latency_ms": Distribution(count=3, p50=10.0, p99=20.0 + number),
        "loop_lag_ms": lag,
        "errors": SoakErrors(),
        "resources": ProcessSample(rss_bytes=60 * MIB + number),
        "peak": ProcessSample(),
        **more,
    }
    return SoakEpoch(
        run_id="s",
        epoch=number,
        epoch_run_id=f"s.{number:06}",
        process=1,
        started_at="2026-01-01T00:00:00Z",
        ended_at="2026-01-01T00:00:01Z",
        wall_seconds=1.0,
        dialogs=1,
        turns=3,
        **values,
    )


def write_soak(path: Path, epochs: int, **more: Any) -> Path:
    path.mkdir()
    values: dict[str, Any] = {
        "state": "finished",
        "metrics": {
            COVERAGE: drift(0.5, 0.001, (-0.001, 0.003)),
            "m3_risk_coverage.macro.risk_coverage": drift(0.5),
        },
        "operation": {"rss_bytes": drift(60.0 * MIB)},
        **more,
    }
    summary = SoakSummary(
        run_id="s",
        started_at="2026-01-01T00:00:00Z",
        updated_at="2026-01-01T00:01:00Z",
        memfin_version="0",
        limits=SoakLimits(epochs=9),
        epochs=epochs,
        turns=3 * epochs,
        **values,
    )
    config = ConfigFile(
        run_id="s",
        config_fingerprint="f",
        settings=RunConfig(agent="mine:<b>Agent", dataset="d|ata.jsonl"),
        fingerprint_inputs={},
        memfin_version="0",
    )
    (path / "soak_summary.json").write_bytes(msgspec.json.encode(summary))
    (path / "config.json").write_bytes(msgspec.json.encode(config))
    lines = [msgspec.json.encode(epoch(number)) for number in range(1, epochs + 1)]
    (path / "soak.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_both_reports_are_written_into_the_soak_and_are_the_same_each_time(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 12)
    paths = write_reports(soak)
    assert [path.name for path in paths] == ["report.md", "report.html"]
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_reports(soak)] == first
    text = first[0].decode()
    assert "# MemFin soak report: s" in text
    assert "| Risk coverage | 50.0 % | 50.0 % |" in text
    assert "| 50.0 % | +0.1 pp (-0.1 pp to +0.3 pp) | none seen |" in text
    assert "| 12 | 2026-01-01 00:00 UTC | 1.0 s | 3 | 0 | 10 ms | 32 ms | 2 ms | 60.0 MiB |  |" in text
    assert "macro" not in text


def test_custom_metrics_are_written_as_others_are(tmp_path: Path) -> None:
    named = {
        "fee.rate": drift(0.25, -0.01, (-0.02, -0.005)),
        "fee.macro.rate": drift(0.2),
        "tone.grade_mean": drift(3.5, 0.1, (0.05, 0.2)),
    }
    missing = {"never.rate": "it could not be measured anywhere"}
    soak = write_soak(tmp_path / "s", 2, metrics=named, not_measured=missing)
    lines = [epoch(number, metrics={"fee": {"rate": [number / 4, 0.2]}}) for number in (1, 2)]
    (soak / "soak.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    model = load_report(soak)
    (fee,) = table_rows(model, "fee Custom metric")[1:]
    assert fee == ["Rate", *["25.0 %"] * 5, "-1 pp (-2 pp to -0.5 pp)", "drifts"]
    (tone,) = table_rows(model, "tone Custom metric")[1:]
    assert tone == ["Grade mean", *["3.50"] * 5, "+0.1 (+0.05 to +0.2)", "drifts"]
    (charts,) = [block for block in blocks(model) if block.kind == "linecharts"]
    assert charts.items[0].title == "Custom metrics"
    assert charts.items[0].alt == "fee Rate from 25.0 % to 50.0 %"
    assert "never Rate: not measured, it could not be measured anywhere" in render_markdown_report(model)
    with use_language("zh"):
        text = render_markdown_report(load_report(soak))
    assert "fee 自定义指标" in text
    assert "| Rate | 25.0% |" in text.replace("25.0 %", "25.0%")


def test_marks_of_a_judge_are_no_shares(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 2, suite="rag", metrics={"rag.judge.faithfulness": drift(4.0)})
    assert table_rows(load_report(soak), "Benchmark")[1][1:6] == ["4.00"] * 5


def test_names_from_the_soak_stay_plain_text(tmp_path: Path) -> None:
    model = load_report(write_soak(tmp_path / "s", 3))
    assert "d\\|ata.jsonl" in render_markdown_report(model)
    html = render_html_report(model)
    assert "mine:&lt;b&gt;Agent" in html
    assert "<b>Agent" not in html
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_long_soaks_are_drawn_by_the_means_of_several_epochs_and_listed_by_the_last(tmp_path: Path) -> None:
    model = load_report(write_soak(tmp_path / "s", 250))
    (charts,) = [block for block in blocks(model) if block.kind == "linecharts"]
    chart = charts.items[0]
    (stroke,) = chart.lines[0].strokes
    assert len(stroke) == 84
    assert stroke[0] == pytest.approx((0.0, 0.502))
    assert stroke[-1][0] == 1.0
    assert chart.alt == "Each point is the mean of 3 epochs. M3 from 50.2 % to 75.0 %"
    (epochs,) = [section for section in model.sections if section.id == "epochs"]
    assert epochs.title == "The last 40 epochs"
    assert [entry[0] for entry in table_rows(model, "")[1:]] == [str(number) for number in range(211, 251)]


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 2, state="running")
    with (soak / "soak.jsonl").open("ab") as lines:
        lines.write(b'{"run_id":"s","epo')
    model = load_report(soak)
    assert len(table_rows(model, "")) == 3
    assert model.warnings[0].title == "The soak is still running, or its process was killed"


def test_a_soak_without_a_complete_epoch_has_a_report(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 0, state="interrupted", reason="SIGINT", metrics={}, operation={})
    (soak / "soak.jsonl").unlink()
    model = load_report(soak)
    assert (model.warnings[0].title, model.warnings[0].detail) == ("The soak was interrupted", "SIGINT")
    assert "## Epochs" not in render_markdown_report(model)
    assert "<svg" not in render_html_report(model)


@pytest.mark.parametrize(
    ("more", "title", "detail"),
    [
        (
            {"metrics": {COVERAGE: drift(0.5, -0.01, (-0.02, -0.005))}},
            "M3 Risk coverage drifts",
            "-1 pp per epoch, 95 % interval -2 pp to -0.5 pp",
        ),
        (
            {"operation": {"error_rate": drift(0.1, 0.002, (0.001, 0.003))}},
            "Turns that failed drifts",
            "+0.2 pp per epoch, 95 % interval +0.1 pp to +0.3 pp",
        ),
        (
            {"operation": {"turn_latency_p50_ms": drift(9.0, 0.5, (0.25, 0.75))}},
            "Turn latency, median drifts",
            "+0.5 ms per epoch, 95 % interval +0.25 ms to +0.75 ms",
        ),
        (
            {"rss_bytes_per_100k_turns": 3.0 * MIB, "rss_ci95": (2.0 * MIB, 4.0 * MIB)},
            "Memory grows",
            "+3 MiB per 100,000 turns, 95 % interval +2 MiB to +4 MiB",
        ),
        ({"gates": ["m5 below 0.5"]}, "A gate is not passed", "m5 below 0.5"),
        ({"changed": ["agent", "dataset"]}, "Inputs changed during the soak", "agent, dataset"),
        (
            {"metrics": {COVERAGE: drift(0.5)}},
            "Too few epochs for a trend",
            "no drift can be seen after 3 epochs; intervals need more",
        ),
    ],
    ids=["drift", "errors", "latency", "memory", "gate", "changed", "few"],
)
def test_warnings_of_a_soak_stand_first(
    tmp_path: Path, more: dict[str, Any], title: str, detail: str
) -> None:
    model = load_report(write_soak(tmp_path / "s", 3, **more))
    assert [(warning.title, warning.detail) for warning in model.warnings] == [(title, detail)]
    assert title in render_markdown_report(model).replace("\\", "")


def test_memory_that_grows_within_its_bound_is_no_warning(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 3, rss_bytes_per_100k_turns=3.0 * MIB, rss_ci95=(0.5 * MIB, 4.0 * MIB))
    assert load_report(soak).warnings == ()


def test_a_broken_summary_is_one_line(tmp_path: Path) -> None:
    soak = write_soak(tmp_path / "s", 1)
    (soak / "soak_summary.json").write_text("{}")
    with pytest.raises(UsageError, match=r"soak_summary\.json"):
        load_report(soak)


@each_case(
    ("unit", "value", "shown", "change"),
    [
        ("share", 0.1234, "12.3 %", "+12.3 pp"),
        ("score", 3.456, "3.46", "+3.46"),
        ("ms", 1500.0, "1.5 s", "+1.5e+03 ms"),
        ("bytes", 2.5 * MIB, "2.5 MiB", "+2.5 MiB"),
        ("count", 7.0, "7", "+7"),
    ],
)
def test_values_and_changes_are_written_in_their_unit(
    unit: Any, value: float, shown: str, change: str
) -> None:
    assert in_unit(unit, value) == shown
    assert change_in_unit(unit, value) == change
    assert change_in_unit(unit, 0.0) == "0"
