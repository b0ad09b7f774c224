"""What the reports of all suites take from a run's artifacts: its statistics and its settings."""

from collections.abc import Mapping
from typing import Any

import msgspec

from memfin.contracts import RunStats
from memfin.report import reader
from memfin.report.judging import changed_parameters
from memfin.report.model import Timing
from memfin.text.lines import one_line


def measured_timing(stats: RunStats) -> Timing:
    """Return what ``run_stats.json`` says of time and of what models took."""
    return Timing(
        latency=stats.turn_latency_ms if stats.turn_latency_ms.count else None,
        wall_seconds=stats.wall_seconds,
        source=reader.STATS,
        turns_by_status=dict(sorted(stats.turns_by_status.items())),
        turn_retries=stats.turn_retries,
        abandoned_calls=stats.abandoned_calls,
        judge_failures=stats.judge_failures,
        usage=_usage(stats),
    )


def _usage(stats: RunStats) -> tuple[tuple[str, str], ...]:
    """Return what the language model behind the agent took; nothing where none is known of."""
    rows: list[tuple[str, str]] = []
    if (usage := stats.usage) is not None:
        rows.append(("Model calls of the agent", str(usage.calls)))
        counted = f"{usage.prompt_tokens} in prompts, {usage.completion_tokens} in answers"
        unknown = f"; {usage.unmetered_calls} calls without a count" if usage.unmetered_calls else ""
        rows.append(("Tokens of the agent", counted + unknown))
    if stats.agent_parameters:
        rows.append(("Parameters the agent's model refuses", changed_parameters(stats.agent_parameters)))
    return tuple(rows)


def flat_settings(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return settings as text, one level deep: the rest as JSON."""
    return tuple(
        (
            one_line(name, 80),
            one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 300),
        )
        for name, value in sorted(values.items())
        if value is not None and value != {}
    )
