"""The options that say when repetitions end and what is kept of them."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from memfin.contracts.soak import SoakLimits
from memfin.runtime.soak_plan import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

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
                    help="Keep traces and rows of the last K epochs, and of others their papers only.  "
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
