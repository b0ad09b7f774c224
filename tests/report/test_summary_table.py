import io

import pytest
from rich.console import Console

from memfin.cli.output import print_table
from memfin.contracts import RunConfig
from memfin.metrics.aggregate import MetricsState
from memfin.report import summary_table
from tests.report.report_run_factory import row, summary


def printed(result: object, width: int = 120, *, terminal: bool = False) -> str:
    out = io.StringIO()
    Console(
        file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None
    ).print(result)
    return out.getvalue()


def test_the_table_shows_values_intervals_and_counts() -> None:
    lines = printed(summary_table(summary())).splitlines()
    (coverage,) = [line for line in lines if "Key coverage" in line]
    assert coverage.split()[:4] == ["M1", "Key", "coverage", "62.5"]
    assert " ".join(coverage.split()[4:]) == "% 52.5 to 62.5 % 62.5 % 4 1 0"
    (score,) = [line for line in lines if "Judge score" in line]
    assert "3.46" in score
    assert "2 of 3 dialogues valid, 1 skipped, 0 failed; 4 turn pairs" in "\n".join(lines)


def test_off_a_terminal_the_table_has_no_control_sequences() -> None:
    assert "\x1b" not in printed(summary_table(summary()))
    assert "\x1b" in printed(summary_table(summary()), terminal=True)


def test_names_out_of_the_run_are_no_markup() -> None:
    shown = printed(summary_table(summary(run_id="[red]r[/red]\x1b[31m")))
    assert "[red]r[/red]" in shown
    assert "\x1b" not in shown


def test_nothing_to_measure_prints_a_dash() -> None:
    result = summary()
    m2 = result.metrics["m2_profile_accuracy"]
    result.metrics["m2_profile_accuracy"] = m2.replace(
        micro={"profile_score": 0.0}, counts={"eligible_count": 0}, ci95={}
    )
    line, reason = [found for found in printed(summary_table(result)).splitlines() if found[:2] == "M2"]
    assert line.split()[3:] == ["-", "-", "-", "0", "0", "0"]
    assert reason.strip() == "M2: not measured, nothing to measure"


def test_a_value_that_was_not_measured_is_a_dash_with_its_reason() -> None:
    result = summary()
    memory = result.metrics["m1_context_continuity"]
    result.metrics["m1_context_continuity"] = memory.replace(not_measured={"key_coverage": "no recall"})
    line, reason = [found for found in printed(summary_table(result)).splitlines() if "Key coverage" in found]
    assert line.split()[3:] == ["-", "-", "-", "4", "1", "0"]
    assert reason.strip() == "M1 Key coverage: not measured, no recall"


def test_the_recoverable_coverage_comes_before_the_contract_s() -> None:
    result = summary()
    memory = result.metrics["m1_context_continuity"]
    micro = memory.micro | {"recoverable_key_coverage": 0.9}
    for counts, first in (({}, "Recoverable keys"), ({"recoverable_key_total": 0}, "Key coverage")):
        result.metrics["m1_context_continuity"] = memory.replace(micro=micro, counts=memory.counts | counts)
        lines = [line for line in printed(summary_table(result)).splitlines() if line.startswith("M1")]
        assert lines[0].startswith(f"M1 {first}")


def test_rows_keep_their_order_when_all_turns_failed() -> None:
    state = MetricsState()
    state.add_row(row("a", turn_status="error", eligible_m1=False, key_hit_flags=[]))
    shown = printed(summary_table(summary(metrics=state.results())))
    assert shown.index("M1 Recoverable keys") < shown.index("M1 Key coverage")


def test_contradictions_outside_the_rate_are_counted_below() -> None:
    result = summary()
    memory = result.metrics["m1_context_continuity"]
    counts = memory.counts | {"contradictions_outside": 2}
    result.metrics["m1_context_continuity"] = memory.replace(counts=counts)
    assert "M1 Contradictions: 2 more on turns without required keys" in printed(summary_table(result))


def test_the_title_names_agent_dataset_and_judge() -> None:
    settings = RunConfig(agent="openai:m", agent_memory="builtin", judge="none")
    shown = printed(summary_table(summary(), settings))
    assert "agent openai:m, memory builtin, system prompt MemFin's own" in shown
    assert "dataset data.jsonl, judge none" in shown


def test_without_a_judge_there_is_no_judge_s_score() -> None:
    shown = [
        printed(summary_table(summary(), RunConfig(judge=judge))) for judge in ("heuristic", "none", "m:f")
    ]
    assert ["Judge score" in each for each in shown] == [False, False, True]


def test_severe_violations_are_red() -> None:
    assert "\x1b[1;31m10.0 %" in printed(summary_table(summary()), terminal=True)


def test_in_80_columns_every_row_is_one_line() -> None:
    result = summary()
    for metric in result.metrics.values():
        for values in (metric.micro, metric.macro):
            values.update(dict.fromkeys(values.keys() - {"judge_score_mean"}, 1.0))
        metric.ci95.update(dict.fromkeys(metric.micro, (1.0, 1.0)))
        metric.counts.update(eligible_count=1_234_567, severe_turns=1_234_567)
    lines = printed(summary_table(result), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert {"M1 Contradictions", "M4 Severe violations"} <= {line[:21].strip() for line in lines}
    assert len([line for line in lines if line.lstrip().startswith(("M1", "M2", "M3", "M4", "M5"))]) == 8


def test_off_a_terminal_no_line_ends_with_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(summary_table(summary()))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 8
    assert lines == [line.rstrip() for line in lines]
