"""Parts that the reports of all suites share: failures, time, settings, the judge."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from memfin.contracts import BenchConfigFile, ConfigFile, Controls, LatencyStats, RunConfig, RunStats
from memfin.contracts.judgement import JudgeAgreement, JudgeStats, ParameterChange
from memfin.language import marked, tr, tr_counted
from memfin.report import glossary, model
from memfin.text.lines import one_line, visible

_MESSAGE_LIMIT: Final = 240
_MAX_KINDS: Final = 1000
_MAX_SHOWN: Final = 20
_OTHER: Final = marked("(further, different messages)")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VARYING: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|\d+", re.IGNORECASE)


class FailureGroup(msgspec.Struct, frozen=True):
    """Failures with the same message; ``example`` is the place of the first one."""

    kind: str
    message: str
    count: int
    example: str


class FailureCounter:
    """Counts failures by kind and message; numbers, addresses and ids do not make messages differ."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], FailureGroup] = {}

    def add(self, kind: str, message: str | None, where: str) -> None:
        """Count a failure; ``where`` names the dialogue and turn, kept for the first of its group."""
        text = one_line(message or tr("(no message)"), _MESSAGE_LIMIT)
        key = (kind, _VARYING.sub("#", text))
        if key not in self._groups and len(self._groups) >= _MAX_KINDS:
            key, text = (kind, _OTHER), tr(_OTHER)
        known = self._groups.get(key) or FailureGroup(kind, text, 0, visible(where))
        self._groups[key] = msgspec.structs.replace(known, count=known.count + 1)

    def groups(self, limit: int = _MAX_SHOWN) -> tuple[FailureGroup, ...]:
        """Return the groups, most frequent first, at most ``limit`` of them and the rest as one."""
        ordered = sorted(self._groups.items(), key=lambda item: (-item[1].count, item[0]))
        ranked = [group for _, group in ordered]
        rest = sum(group.count for group in ranked[limit:])
        return (*ranked[:limit], *((FailureGroup(tr("other"), tr(_OTHER), rest, ""),) if rest else ()))

    def block(self, otherwise: str) -> model.AnyBlock:
        """Return the groups as a table; without failures a paragraph."""
        if not self._groups:
            return model.Block("text", note=otherwise)
        headings = (tr("Kind"), tr("Message"), tr("Count"), tr("First seen"))
        return model.table(tr("Failures"), headings, "llrl", map(msgspec.structs.astuple, self.groups()))


def place(dialog_id: str, turn: int) -> str:
    """Return the place of a turn in words."""
    return tr("{dialogue}, turn {turn}", dialogue=one_line(dialog_id, 80), turn=turn)


def smaller_groups(omitted: int) -> str:
    """Return the note on groups that a table leaves out, empty without any."""
    one, many = marked("1 smaller group is left out. "), marked("{count} smaller groups are left out. ")
    return tr_counted(omitted, one, many) if omitted else ""


def agent_facts(settings: RunConfig | None, name: str = "") -> model.Pairs:
    """Return the agent, as ``name`` where that is given; of a model also its memory and system prompt."""
    if settings is None or not settings.agent.startswith("openai:"):
        return ((tr("Agent"), name or (settings.agent if settings else "-")),)
    return (
        (tr("Agent"), settings.agent),
        (tr("Memory"), settings.agent_memory),
        (tr("System prompt"), settings.agent_system or tr("MemFin's own")),
    )


def time_facts(
    units: str,
    stats: RunStats | None,
    latency: LatencyStats | None = None,
    wall_seconds: float | None = None,
) -> model.Block:
    """Return latencies, wall time and the usage of the agent's model, as far as they are known.

    ``units`` names the things that were answered, such as "Turns"; without ``stats`` the others are shown.
    """
    if stats is not None:
        latency, wall_seconds = stats.turn_latency_ms, stats.wall_seconds
    rows = [(tr("Wall time"), model.duration(wall_seconds))] if wall_seconds is not None else []
    if latency is not None and latency.count:
        rows.append((tr("{units} answered", units=units), model.grouped(latency.count)))
        rows += (
            (tr("Latency, {what}", what=label), model.milliseconds(latency[name]))
            for name, label in glossary.labels("latencies").items()
        )
    if stats is not None:
        statuses = glossary.labels("turn_status")
        counts = [
            (f"{units}: {statuses.get(status, status)}", count)
            for status, count in sorted(stats.turns_by_status.items())
        ]
        labels = glossary.labels("run_counts").items()
        counts += [(label, stats[name]) for name, label in labels if stats[name]]
        rows += [(label, model.grouped(count)) for label, count in counts]
        rows += _usage(stats)
    return model.Block("facts", tuple(rows), tr("Time"))


def _usage(stats: RunStats) -> Iterable[tuple[str, str]]:
    if (usage := stats.usage) is not None:
        yield tr("Model calls of the agent"), model.grouped(usage.calls)
        tokens = _tokens(usage.prompt_tokens, usage.completion_tokens)
        if usage.unmetered_calls:
            tokens += tr("; {count:,} calls without a count", count=usage.unmetered_calls)
        yield tr("Tokens of the agent"), tokens
    if stats.agent_parameters:
        yield tr("Parameters the agent's model refuses"), changed_parameters(stats.agent_parameters)


def _tokens(prompt: int, completion: int) -> str:
    return tr("{prompt:,} in prompts, {completion:,} in answers", prompt=prompt, completion=completion)


def configuration_section(
    config: ConfigFile | BenchConfigFile | None,
    settings: Mapping[str, Any],
    fingerprint: str | None,
    trace_version: str | None = None,
) -> model.Section | None:
    """Return the section with the settings of a run and the inputs of its fingerprint."""
    facts = (
        (tr("Trace version"), trace_version),
        (tr("Fingerprint"), _short(config.config_fingerprint if config else fingerprint or "") or None),
        ("MemFin", config.memfin_version if config else None),
    )
    inputs = config.fingerprint_inputs if config else {}
    tables = tuple(
        model.table(title, (tr("Name"), tr("Value")), "ll", _settings(values))
        for title, values in ((tr("Settings"), settings), (tr("Inputs of the fingerprint"), inputs))
        if values
    )
    return model.section(
        "configuration",
        tr("Configuration"),
        model.Block("facts", tuple((name, value) for name, value in facts if value is not None)),
        model.Block("columns", tables),
        model.Block("text", note=tr("Hashes are cut to 12 digits; config.json has all of them."))
        if tables
        else None,
    )


def _settings(values: Mapping[str, Any], of: str = "") -> Iterable[tuple[str, str]]:
    """Yield names and values in words, a row for each entry of a mapping."""
    for name, value in sorted(values.items()):
        words = of + (one_line(name, 80) if "." in name else one_line(name, 80).replace("_", " "))
        match value:
            case dict():
                yield from _settings(value, f"{words}: ")
            case list():
                yield from ((words, one_line(str(item), 300)) for item in value)
            case bool():
                yield words, "yes" if value else "no"
            case int() | float():
                yield words, f"{value:,}" if isinstance(value, int) else f"{value:g}"
            case None:
                pass
            case _:
                yield words, one_line(_short(str(value)), 300)


def _short(text: str) -> str:
    """Cut a hash to its first digits."""
    return f"{text[:12]}…" if _HASH.fullmatch(text) else text


def judge_facts(stats: JudgeStats | None) -> model.Pairs:
    """Return the requests, tokens and votes of a language model as the judge."""
    if stats is None:
        return ()
    looked_up = stats.cache_hits + stats.cache_misses
    cached = tr("{count:,} of {total:,} look-ups", count=stats.cache_hits, total=looked_up)
    if stats.cache_damaged:
        cached += tr(", {count:,} entries damaged", count=stats.cache_damaged)
    formats = (
        f"{one_line(name, 40)}: {model.grouped(count)}" for name, count in stats.response_formats.items()
    )
    facts = [
        (tr("Votes"), tr("{count:,}, {failed:,} failed", count=stats.votes, failed=stats.failed_votes)),
        (tr("Requests sent"), model.grouped(stats.attempts)),
        (tr("From the cache"), cached),
        (tr("Tokens"), _tokens(stats.prompt_tokens, stats.completion_tokens)),
        (tr("Response formats"), ", ".join(formats) or "-"),
    ]
    if stats.parameters:
        facts.append((tr("Parameters the model refuses"), changed_parameters(stats.parameters)))
    if stats.spread_mean is not None and stats.spread_max is not None:
        spread = tr("{mean:.2f} on average, {most:g} at most", mean=stats.spread_mean, most=stats.spread_max)
        facts.append((tr("Spread of the votes"), spread))
    return tuple(facts)


def agreement_table(stats: JudgeStats | None, titles: Mapping[str, str]) -> model.Table | None:
    """Return the agreement of a judge's votes, a row for everything that is voted on."""
    if stats is None or not stats.agreement:
        return None

    def row(kind: str, value: JudgeAgreement) -> tuple[str | int, ...]:
        alpha = tr("undefined: all alike") if value.alpha is None else f"{value.alpha:.3f}"
        return titles.get(kind, one_line(kind, 40)), value.units, model.percent(value.observed), alpha

    rows = (row(kind, value) for kind, value in stats.agreement.items())
    note = tr("Krippendorff's alpha is 1 for perfect agreement and 0 for agreement by chance.")
    headings = (tr("Voted on"), tr("Units"), tr("Equal pairs"), tr("Alpha"))
    return model.table(tr("Agreement of the votes"), headings, "lrrr", rows, note)


def controls_table(
    controls: Controls[Any] | None,
    headings: Iterable[str],
    oracle: str,
    figures: Callable[[list[Any]], Iterable[str]],
) -> model.Table | None:
    """Return the judgements of replies of known worth; ``figures`` are those of the judged ones of a kind."""
    if controls is None:
        return None
    headings = tuple(headings)
    rows = []
    for kind, label, expected in (
        ("null", tr("Says nothing"), "1.00"),
        ("injected", tr("Says nothing and orders full marks"), "1.00"),
        ("oracle", oracle, tr("3.00 or more")),
    ):
        of_kind = [control for control in controls.controls if control.kind == kind]
        judged = [control for control in of_kind if control.error is None]
        if of_kind:
            found = figures(judged) if judged else ("-",) * len(headings)
            counted = tr("{count:,} of {total:,}", count=len(judged), total=len(of_kind))
            rows.append((label, counted, *found, expected))
    all_headings = (tr("Control"), tr("Judged"), *headings, tr("Expected"))
    note = tr("Replies of known worth, judged like all others.")
    return model.table(tr("Controls"), all_headings, "l" + "r" * (len(headings) + 2), rows, note)


def control_warnings(controls: Controls[Any] | None) -> Iterable[model.ReportWarning]:
    """Yield a warning for every control that the judge got wrong."""
    for line in controls.warnings if controls is not None else ():
        yield glossary.warning("wrong_control", control=one_line(line, 400))


def changed_parameters(changes: Sequence[ParameterChange]) -> str:
    """Return the parameters that a model refuses, and their replacements."""
    return ", ".join(
        tr("{name} left out", name=one_line(change.parameter, 40))
        if change.sent_as is None
        else tr("{name} as {other}", name=one_line(change.parameter, 40), other=one_line(change.sent_as, 40))
        for change in changes
    )
