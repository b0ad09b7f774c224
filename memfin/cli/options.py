"""The options of ``run``: flags, ``MEMFIN_*`` variables and ``memfin.toml``, in that order of weight."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from memfin.contracts import RunConfig, reading
from memfin.errors import UsageError
from memfin.runtime.gates import check_value_name, parse_fail_under

F = TypeVar("F", bound=Callable[..., Any])

CONFIG_FILE: Final = "memfin.toml"

OF_OTHERS: Final = frozenset({"bench", "soak"})
"""Tables of the settings file that are for other commands."""

FLAGS: Final = {"quiet": "quiet", "json": "as_json"}
"""Switches of the command that the file may hold besides the settings of a run."""

RUN_OPTIONS: Final[tuple[click.Option, ...]] = (
    click.Option(
        ["--agent"],
        default="builtin",
        show_default=True,
        help="System under test: builtin, oracle, echo, http(s)://..., openai:MODEL or pkg.module:factory.",
    ),
    click.Option(
        ["--judge"],
        default="heuristic",
        show_default=True,
        help="Judge of the replies: heuristic, none, openai:MODEL or pkg.module:factory.",
    ),
    click.Option(["--runs-dir"], default="runs", show_default=True, help="Where run directories go."),
    click.Option(["--run-id"], help="Name of the run directory.  [default: date, time and 6 hex digits]"),
    click.Option(
        ["--workers-dialog"], type=int, default=4, show_default=True, help="Dialogues replayed at a time."
    ),
    click.Option(
        ["--workers-judge"], type=int, default=2, show_default=True, help="Judgements made at a time."
    ),
    click.Option(
        ["--workers-score"],
        type=int,
        help="Processes that score replies; 0 scores them in a thread.  [default: cores minus one]",
    ),
    click.Option(
        ["--score-timeout"],
        type=float,
        default=10.0,
        show_default=True,
        help="Seconds that scoring a reply may take.",
    ),
    click.Option(
        ["--score-chars"],
        type=int,
        default=100_000,
        show_default=True,
        help="Characters of a reply that are scored, at most: its first.",
    ),
    click.Option(
        ["--history"],
        type=click.Choice(["free", "forced"]),
        default="free",
        show_default=True,
        help="Whose replies the agent remembers: its own, or the reference replies.",
    ),
    click.Option(["--limit"], type=int, help="Evaluate the first N dialogues only."),
    click.Option(
        ["--turn-timeout"],
        type=float,
        default=120.0,
        show_default=True,
        help="Seconds an agent has for a turn, retries included.",
    ),
    click.Option(
        ["--turn-retries"], type=int, default=2, show_default=True, help="Retries after transport errors."
    ),
    click.Option(
        ["--judge-rpm"],
        type=float,
        help="Judge requests a minute, at most, in every window; not for the offline judge.",
    ),
    click.Option(
        ["--judge-tpm"],
        type=float,
        help="Tokens a minute of an openai judge, at most, in every window.",
    ),
    click.Option(
        ["--judge-scope"],
        type=click.Choice(["m5", "uncertain", "all"]),
        default="m5",
        show_default=True,
        help="What verdicts decide: M5 alone, or contradictions, risk tags and compliance as well, of all "
        "turns or of those that rules and classifier leave uncertain.",
    ),
    click.Option(
        ["--judge-votes"],
        type=int,
        default=1,
        show_default=True,
        help="Judgements of each turn by an openai judge, in varied order; the median counts.",
    ),
    click.Option(
        ["--judge-patience"],
        type=float,
        default=600.0,
        show_default=True,
        help="Seconds the endpoint of an openai judge may be down before the run stops, to be resumed.",
    ),
    click.Option(
        ["--judge-max-tokens"],
        type=int,
        default=2048,
        show_default=True,
        help="Tokens of an openai judge's answer, at most; a model that thinks aloud needs more.",
    ),
    click.Option(
        ["--judge-cache"],
        type=click.Choice(["off", "read", "write"]),
        default="write",
        show_default=True,
        help="Whether verdicts are taken from the cache, and added to it (write).",
    ),
    click.Option(["--judge-cache-dir"], help="Where the cache is.  [default: RUNS_DIR/.judge_cache]"),
    click.Option(
        ["--agent-system"],
        metavar="FILE",
        help="System prompt of an openai:MODEL agent.  [default: one that ships with MemFin]",
    ),
    click.Option(
        ["--agent-memory"],
        default="none",
        show_default=True,
        help="Memory put before an openai:MODEL agent: none, builtin or pkg.module:factory.",
    ),
    click.Option(
        ["--agent-temperature"],
        type=float,
        default=0.0,
        show_default=True,
        help="Temperature of an openai:MODEL agent.",
    ),
    click.Option(
        ["--agent-max-tokens"], type=int, help="Tokens of a reply of an openai:MODEL agent, at most."
    ),
    click.Option(
        ["--agent-context-tokens"],
        type=int,
        default=32_000,
        show_default=True,
        help="Estimated tokens put before an openai:MODEL agent, at most; older turns are left out.",
    ),
    click.Option(
        ["--seed"],
        type=int,
        default=0,
        show_default=True,
        help="Sent to the models of agents and judges; part of the fingerprint.",
    ),
    click.Option(
        ["--fsync-interval"],
        type=float,
        default=0.1,
        show_default=True,
        help="Seconds in which finished dialogues gather before the disk is synchronised.",
    ),
    click.Option(
        ["--fsync-turns"],
        type=int,
        default=256,
        show_default=True,
        help="Turns that gather at most before the disk is synchronised.",
    ),
    click.Option(
        ["--trace-version"],
        type=click.Choice(["v1", "v1.1"]),
        default="v1",
        show_default=True,
        help="Contract of the traces; v1.1 adds the extension fields.",
    ),
    click.Option(
        ["--fail-under"],
        multiple=True,
        metavar="METRIC.VALUE=X",
        help="Exit 1 when the value is below X, such as m3_risk_coverage.risk_coverage=0.8. Repeatable.",
    ),
    click.Option(
        ["--fail-on-error"],
        type=float,
        metavar="N",
        help="Exit 1 when N turns or more failed; below 1 a share of the turns, 0 for any.",
    ),
    click.Option(
        ["--fail-on-judge-error"],
        type=float,
        metavar="N",
        help="Exit 1 when N judgements or more failed; below 1 a share of the judged turns, 0 for any.",
    ),
    click.Option(["--notes"], help="A remark for the run manifest."),
)
"""Every setting of a run that has a flag; each is also a key of the file and a variable."""


def run_options(command: F) -> F:
    """Give a command the options of a run and ``--config``."""
    return options_over(read_config, command)


def options_over(read: Callable[[Path], dict[str, Any]], command: F) -> F:
    """Give a command the options of a run, and ``--config`` for the file that ``read`` reads."""
    params: list[click.Parameter] = getattr(command, "__click_params__", [])
    for option in RUN_OPTIONS:
        option.envvar = f"MEMFIN_{(option.name or '').upper()}"
    config = click.Option(
        ["--config"],
        type=click.Path(path_type=Path),
        envvar="MEMFIN_CONFIG",
        is_eager=True,
        expose_value=False,
        callback=partial(_load_config, read),
        help=f"Settings file.  [default: {CONFIG_FILE} where it exists]",
    )
    command.__click_params__ = [*reversed((config, *RUN_OPTIONS)), *params]  # type: ignore[attr-defined]
    return command


def fail_under_gates(values: tuple[str, ...]) -> dict[str, float]:
    """Return the thresholds of all ``--fail-under`` options; raises `UsageError` as `parse_fail_under`."""
    return dict(parse_fail_under(value) for value in values)


def _load_config(
    read: Callable[[Path], dict[str, Any]], ctx: click.Context, param: click.Parameter, value: Path | None
) -> None:
    """Put the file's settings beneath flags and environment."""
    del param
    path = value or Path(CONFIG_FILE)
    if value is None and not path.is_file():
        return
    ctx.default_map = {**(ctx.default_map or {}), **read(path)}


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings of a ``memfin.toml``; its ``[run]`` table counts as the top level.

    Raises:
        UsageError: the file cannot be read, is not TOML, has a key that is no setting, or a value
            of another type than the setting's.
    """
    return settings_of(path, read_toml(path), {})


def settings_of(path: Path, content: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the content of a file holds for runs; those ``above`` go first.

    Raises:
        UsageError: as `read_config`.
    """
    content = {name: value for name, value in content.items() if name not in OF_OTHERS}
    table = content.pop("run", {})
    settings = {**content, **table} if isinstance(table, Mapping) else {**content, "run": table}
    settings |= above
    known = {option.name for option in RUN_OPTIONS} | {"dataset", *FLAGS}
    for name in settings:
        if name not in known:
            raise UsageError(
                f"config {path}: unknown setting {name!r}; known: {', '.join(sorted(filter(None, known)))}"
            )
    gates = (
        {"fail_under": _fail_under_texts(path, settings.pop("fail_under"))}
        if "fail_under" in settings
        else {}
    )
    flags = {param: settings.pop(name) for name, param in FLAGS.items() if name in settings}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise UsageError(f"config {path}: quiet and json are true or false")
    try:  # the command line would take 4.7 for 4 and true for 1
        msgspec.convert(settings, RunConfig)
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).rpartition(" - at `$.")
        raise UsageError(f"config {path}: {where.rstrip('`')}: {message}") from problem
    return settings | gates | flags


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a settings file; raises `UsageError` when it cannot be read or is no TOML."""
    try:
        return reading.read_toml(path)
    except UsageError as problem:
        raise UsageError(f"config {path}: {problem}") from problem


def _fail_under_texts(path: Path, value: object) -> list[str]:
    if isinstance(value, Mapping):
        gates = dict(_dotted(value))
        try:
            for name in gates:
                check_value_name(name)
        except UsageError as problem:
            raise UsageError(f"config {path}: {problem}") from None
        return [f"{name}={threshold}" for name, threshold in gates.items()]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    if isinstance(value, str):
        return [value]
    raise UsageError(f"config {path}: fail_under is a table of metric.value = number, or a list of texts")


def _dotted(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a table by dotted name: without quotes TOML makes tables of the dots."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
