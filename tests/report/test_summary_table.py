import io

from rich.console import Console

from memfin.report import summary_table
from tests.report.report_run_factory import summary


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
    (line,) = [found for found in printed(summary_table(result)).splitlines() if "Profile score" in found]
    assert line.split()[3:] == ["-", "-", "-", "0", "0", "0"]


def test_in_80_columns_every_row_is_one_line() -> None:
    lines = printed(summary_table(summary()), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert {"M1 Contradictions", "M4 Severe violations"} <= {line[:21].strip() for line in lines}
    assert len([line for line in lines if line.lstrip().startswith(("M1", "M2", "M3", "M4", "M5"))]) == 8
