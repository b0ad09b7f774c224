"""What the models behind agent and judge took, as a report shows it."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from memfin.contracts import JudgeStats, ModelUsage, ParameterChange, RunStats
from memfin.contracts.reading import decode
from memfin.report import load_report, render_html_report, render_markdown_report
from memfin.report.model import Report
from tests.report.report_run_factory import row, trace, turn, write_run

CHANGES = [
    ParameterChange(parameter="max_tokens", sent_as="max_completion_tokens", refusals=3),
    ParameterChange(parameter="seed", sent_as=None, refusals=1),
]


def written(path: Path, **changes: object) -> Path:
    run = write_run(path, [trace("a", [turn(1)])], [row("a", 1)], extras=True)
    stats = decode((run / "run_stats.json").read_bytes(), RunStats)
    (run / "run_stats.json").write_bytes(msgspec.json.encode(stats.replace(**changes)))
    return run


@pytest.mark.parametrize("render", [render_markdown_report, render_html_report])
def test_calls_tokens_and_refused_parameters_are_shown(
    tmp_path: Path, render: Callable[[Report], str]
) -> None:
    usage = ModelUsage(
        model="m", calls=17, unmetered_calls=2, prompt_tokens=1234, completion_tokens=567, latency_ms=1.0
    )
    judge = JudgeStats(votes=3, attempts=4, prompt_tokens=89, completion_tokens=10, parameters=CHANGES)
    text = render(
        load_report(written(tmp_path / "r", usage=usage, agent_parameters=CHANGES, judge=judge))
    ).replace("\\", "")
    for words in (
        "Model calls of the agent",
        "1,234 in prompts, 567 in answers; 2 calls without a count",
        "max_tokens as max_completion_tokens, seed left out",
        "89 in prompts, 10 in answers",
    ):
        assert words in text, words
    assert text.count("seed left out") == 2


@pytest.mark.parametrize("render", [render_markdown_report, render_html_report])
def test_nothing_is_shown_where_nothing_is_known(tmp_path: Path, render: Callable[[Report], str]) -> None:
    text = render(load_report(written(tmp_path / "r")))
    assert "of the agent" not in text
