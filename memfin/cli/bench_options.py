"""The options of ``bench``: flags, ``MEMFIN_*`` variables and ``memfin.toml``, in that order of weight."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click
import msgspec

from memfin.cli.options import CONFIG_FILE, FLAGS, RUN_OPTIONS, read_toml
from memfin.cli.soak_options import LIMITS, limits_of_file
from memfin.contracts import BenchConfig
from memfin.contracts.rag import RagType
from memfin.errors import UsageError
from memfin.runtime.bench_gates import PERCENTAGE

F = TypeVar("F", bound=Callable[..., Any])

TABLE: Final = "bench"
"""The table of the settings file that is for ``bench`` alone."""

AS_IN_RUN: Final = (
    "runs_dir",
    "run_id",
    "turn_retries",
    "agent_system",
    "agent_temperature",
    "agent_max_tokens",
    "agent_context_tokens",
    "workers_judge",
    "judge_rpm",
    "judge_tpm",
    "judge_patience",
    "judge_max_tokens",
    "judge_cache",
    "judge_cache_dir",
    "fail_on_judge_error",
    "seed",
    "fsync_interval",
    "notes",
)
"""Options of ``run`` that mean the same here."""

_OWN: Final[tuple[click.Option, ...]] = (
    click.Option(
        ["--rag"],
        default="builtin",
        show_default=True,
        help="System under test: builtin, oracle, http(s)://..., openai:MODEL or pkg.module:factory.",
    ),
    click.Option(
        ["--judge"],
        default="none",
        show_default=True,
        help="Judge of the answers, beside the formulas: none, openai:MODEL or pkg.module:factory.",
    ),
    click.Option(
        ["--judge-votes"],
        type=int,
        default=1,
        show_default=True,
        help="Judgements of each answer by an openai judge, in varied order; the median counts.",
    ),
    click.Option(
        ["--document"],
        metavar="PATH",
        help="The document: Markdown, text, PDF or a directory of pages.  [default: the one they name]",
    ),
    click.Option(
        ["--type"], type=click.Choice(get_args(RagType)), help="Ask the questions of one type only."
    ),
    click.Option(
        ["--workers-dialog"], type=int, default=4, show_default=True, help="Questions asked at a time."
    ),
    click.Option(["--limit"], type=int, help="Ask the first N questions only."),
    click.Option(
        ["--turn-timeout"],
        type=float,
        default=120.0,
        show_default=True,
        help="Seconds the system has for a question, retries included.",
    ),
    click.Option(
        ["--fsync-turns"],
        type=int,
        default=256,
        show_default=True,
        help="Answers that gather at most before the disk is synchronised.",
    ),
    click.Option(
        ["--fail-under"],
        type=float,
        metavar="PERCENT",
        help="Exit 1 when the score is below PERCENT of the greatest.",
    ),
    click.Option(
        ["--fail-on-regression"],
        metavar="RUN",
        help="Exit 1 when a fact question that RUN, an earlier run directory, has right is wrong now.",
    ),
    click.Option(
        ["--fail-on-error"],
        type=float,
        metavar="N",
        help="Exit 1 when the system failed on N questions or more; below 1 a share, 0 for any.",
    ),
)

_OF_ANOTHER_FORM: Final = frozenset({"fail_under", "judge", "judge_votes"})
"""Settings that ``run`` has, too, in a form or with a default of its own: theirs have names of their own in
the environment."""


def _options() -> tuple[click.Option, ...]:
    own = {option.name: option for option in _OWN}
    of_run = {option.name: option for option in RUN_OPTIONS}
    shared = [of_run[name] for name in AS_IN_RUN]
    return (*own.values(), *shared)


BENCH_OPTIONS: Final = _options()
"""Every setting of a benchmark run that has a flag; each is also a key of the file and a variable."""


def bench_options(command: F) -> F:
    """Give a command the options of a benchmark run and ``--config``."""
    params: list[click.Parameter] = getattr(command, "__click_params__", [])
    for option in BENCH_OPTIONS:
        prefix = "MEMFIN_BENCH" if option.name in _OF_ANOTHER_FORM else "MEMFIN"
        option.envvar = f"{prefix}_{(option.name or '').upper()}"
    config = click.Option(
        ["--config"],
        type=click.Path(path_type=Path),
        envvar="MEMFIN_CONFIG",
        is_eager=True,
        expose_value=False,
        callback=_load_config,
        help=f"Settings file.  [default: {CONFIG_FILE} where it exists]",
    )
    command.__click_params__ = [*reversed((config, *BENCH_OPTIONS)), *params]  # type: ignore[attr-defined]
    return command


def gates(threshold: float | None) -> dict[str, float]:
    """Return the thresholds that ``--fail-under`` stands for."""
    return {} if threshold is None else {PERCENTAGE: threshold}


def _load_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Put the file's settings beneath flags and environment."""
    del param
    path = value or Path(CONFIG_FILE)
    if value is None and not path.is_file():
        return
    ctx.default_map = {**(ctx.default_map or {}), **read_bench_config(path)}


def read_bench_config(path: Path) -> dict[str, Any]:
    """Return the settings of a ``memfin.toml`` that are for ``bench``.

    The table ``[bench]`` has all of them; settings at the top level that ``run`` has in the same meaning
    hold here, too.

    Raises:
        UsageError: the file cannot be read, is not TOML, or ``[bench]`` has a key that is no setting or a
            value of another type than the setting's.
    """
    content = read_toml(path)
    table = content.get(TABLE, {})
    if not isinstance(table, Mapping):
        raise UsageError(f"config {path}: bench is a table, [bench]")
    known = {str(option.name) for option in BENCH_OPTIONS} | {"path", *FLAGS, *LIMITS}
    for name in table:
        if name not in known:
            raise UsageError(
                f"config {path}: bench.{name}: unknown setting; known: {', '.join(sorted(known))}"
            )
    shared = {name: content[name] for name in (*AS_IN_RUN, *FLAGS) if name in content and name != "run_id"}
    limits = limits_of_file(path, TABLE, table)
    settings = {**shared, **{name: value for name, value in table.items() if name not in limits}}
    flags = {param: settings.pop(name) for name, param in FLAGS.items() if name in settings}
    if not all(isinstance(value, bool) for value in flags.values()):
        raise UsageError(f"config {path}: quiet and json are true or false")
    renamed = {"rag": "agent", "path": "dataset"}
    checked = {renamed.get(name, name): value for name, value in settings.items()}
    if "fail_under" in checked:
        checked["fail_under"] = {PERCENTAGE: checked["fail_under"]}
    try:  # the command line would take 4.7 for 4 and true for 1
        msgspec.convert(checked, BenchConfig)
    except msgspec.ValidationError as problem:
        message, _, where = str(problem).rpartition(" - at `$.")
        raise UsageError(
            f"config {path}: bench.{where.rstrip('`').partition('[')[0]}: {message}"
        ) from problem
    return settings | flags | limits
