"""The options that say when repetitions end and what is kept of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from memfin.cli.options import read_toml, settings_of
from memfin.contracts.soak import SoakLimits
from memfin.errors import UsageError
from memfin.runtime.soak_plan import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

TABLE: Final = "soak"
"""The table of the settings file that is for ``soak`` alone."""

LIMITS: Final = ("duration", "epochs", "keep_epochs", "metrics_port")


def soak_options(prefix: str, first: str = "") -> Callable[[F], F]:
    """Return what gives a command these options; their variables begin with ``prefix``.

    ``first`` stands before the help of those that ask for repetitions.
    """

    def decorate(command: F) -> F:
        for option in reversed(
            (
                click.Option(
                    ["--duration"],
                    metavar="TIME",
                    help=f"{first}Begin no epoch after this time: 8h, 30m, 90s, 1d12h.",
                ),
                click.Option(["--epochs"], type=int, metavar="N", help=f"{first}End after N epochs."),
                click.Option(
                    ["--keep-epochs"],
                    type=int,
                    metavar="K",
                    help="Keep traces and rows of the last K epochs, and of others their artifacts only.  "
                    "[default: all]",
                ),
                click.Option(
                    ["--metrics-port"],
                    type=int,
                    metavar="PORT",
                    help="Serve Prometheus metrics on 127.0.0.1:PORT; 0 takes a free port and prints it.",
                ),
            )
        ):
            option.envvar = f"{prefix}_{(option.name or '').upper()}"
            params: list[click.Parameter] = getattr(command, "__click_params__", [])
            command.__click_params__ = [*params, option]  # type: ignore[attr-defined]
        return command

    return decorate


def read_soak_config(path: Path) -> dict[str, Any]:
    """Return the settings of a ``memfin.toml`` for ``soak``.

    They are those of `memfin.cli.options.read_config`, and above them those of the table ``[soak]``, which
    may also say when the soak ends and what it keeps.

    Raises:
        UsageError: as `memfin.cli.options.read_config`, or the table is none.
    """
    content = read_toml(path)
    table = content.get(TABLE, {})
    if not isinstance(table, Mapping):
        raise UsageError(f"config {path}: {TABLE} is a table, [{TABLE}]")
    limits = limits_of_file(path, TABLE, table)
    others = {name: value for name, value in table.items() if name not in limits}
    return settings_of(path, content, others) | limits


def limits_of_file(path: Path, table: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table of a settings file says of the end of repetitions.

    Raises:
        UsageError: a value has another type than the option's, or is out of its range.
    """
    found = {name: settings[name] for name in LIMITS if name in settings}
    numbers = {name: value for name, value in found.items() if name != "duration"}
    duration = found.get("duration", "1s")
    try:  # the command line would take 4.7 for 4 and true for 1
        msgspec.convert(numbers, SoakLimits)
        parse_duration(msgspec.convert(duration, str))
    except UsageError as problem:
        reason = str(problem).removeprefix("--duration ")
        raise UsageError(f"config {path}: {table}.duration: {reason}") from None
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).rpartition(" - at `$.")
        message, name = (message, where.rstrip("`")) if message else (where, "duration")
        raise UsageError(f"config {path}: {table}.{name}: {message}") from problem
    return found


def soak_limits(given: dict[str, Any]) -> SoakLimits | None:
    """Take the limits out of what the command line has given; None where none is set.

    Raises:
        UsageError: the duration has no known form.
    """
    limits = {name: given.pop(name) for name in LIMITS}
    if all(value is None for value in limits.values()):
        return None
    if limits["duration"] is not None:
        limits["duration"] = parse_duration(limits["duration"])
    return SoakLimits(duration_seconds=limits.pop("duration"), **limits)
