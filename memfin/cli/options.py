"""Options of the commands, made from the settings contract: flags over ``MEMFIN_*`` over ``memfin.toml``."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from memfin.cli.output import note
from memfin.contracts import BenchConfig, Record, RunConfig, SoakLimits, reading
from memfin.contracts.settings import (
    EngineSettings,
    RepeatSettings,
    Setting,
    UploadSettings,
    check_settings,
    settings_of,
)
from memfin.errors import UsageError
from memfin.language import LANGUAGES, Language, locale_language, use_language
from memfin.runtime.bench_gates import PERCENTAGE
from memfin.runtime.gates import Gate, check_gate, parse_gate, parse_value, value_directions
from memfin.runtime.soak_plan import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

CONFIG_FILE: Final = "memfin.toml"
TABLES: Final = ("run", "soak", "bench")
FLAGS: Final = {"json": "as_json", "quiet": "quiet", "github": "github"}
"""Switches of a command that the file may hold, and the names of their parameters."""

TEXTS: Final = ("junit", "lang")
"""Other options of a command that the file may hold."""

FILE: Final = click.Path(path_type=Path, dir_okay=False)
LABEL_FILES: Final = click.option(
    "--labels",
    metavar="FILE",
    type=FILE,
    multiple=True,
    help="Labels of turns of the run.  Repeatable.  [default: RUN/labels.jsonl]",
)
RUN_DATASET: Final = click.option(
    "--dataset", metavar="FILE", type=FILE, help="The run's dataset, where it is no longer at its place."
)


def _limits(option: str, at_most: bool) -> Callable[[Sequence[str]], dict[str, float]]:
    """Return what makes the limits of ``--fail-under`` or ``--fail-over`` of their texts."""

    def limits(values: Sequence[str]) -> dict[str, float]:
        found = dict(parse_value(value, option) for value in values)
        directions = value_directions()
        own = {name.partition(".")[0] for name in directions}
        for name, limit in found.items():
            if "." in name and name.partition(".")[0] not in own:
                continue  # of a custom metric, perhaps: the plan knows them
            check_gate(Gate(f"{option} {name}={limit:g}", name, limit, at_most), directions)
        return found

    return limits


def _percentage(text: Any) -> dict[str, float]:
    """Return the limit of a benchmark's ``--fail-under``, given as ``70`` or ``overall_percentage=70``."""
    if text is None:
        return {}
    name, _, number = str(text).rpartition("=")
    return dict([parse_value(f"{name or PERCENTAGE}={number}", "--fail-under")])


FORMS: Final[Mapping[str, tuple[Any, Callable[[Any], Any]]]] = {
    "fail_under": (str, _limits("--fail-under", at_most=False)),
    "fail_over": (str, _limits("--fail-over", at_most=True)),
    "gate": (str, lambda texts: [parse_gate(text).text.partition(" ")[2] for text in texts]),
    "percent": (str, _percentage),
    "duration": (str, lambda text: None if text is None else parse_duration(text)),
    "list": (str, list),
    "table": (click.UNPROCESSED, lambda value: {} if value is None else value),
    "reference": (click.UNPROCESSED, lambda value: value),
}
"""Notations of a value on the command line: its type there, and what makes the setting of it."""

REPEATED: Final = ("fail_under", "fail_over", "gate", "list")
NO_FLAG: Final = ("table", "reference")
"""Notations that only the file has; the parameter is there to take its value."""


class SettingOption(click.Option):
    """The option of a field of a settings struct; help lists it under its ``group``."""

    def __init__(self, kind: type[Record], setting: Setting, prefix: str | None) -> None:
        extra = setting.extra
        form = extra.get("form")
        kwargs: dict[str, Any] = {}
        value_type = setting.type
        if form is not None:
            value_type, convert = FORMS[form]
            kwargs["hidden"] = form in NO_FLAG
            kwargs["callback"] = lambda ctx, param, value: convert(value)  # noqa: ARG005 - click's signature
        elif setting.type is bool:
            kwargs["is_flag"] = True
        elif setting.default is not None:
            kwargs |= {"default": setting.default, "show_default": True}
        variable = None
        if prefix is not None and form not in NO_FLAG:
            variable = extra.get("variable", f"{prefix}_{setting.key.upper()}")
        text = setting.help + (f"  [default: {extra['default']}]" if "default" in extra else "")
        super().__init__(
            [f"--{setting.key.replace('_', '-')}", setting.name if form == "list" else setting.key],
            type=click.Choice(setting.choices) if setting.choices else value_type,
            multiple=form in REPEATED,
            metavar=extra.get("metavar"),
            envvar=variable,
            help=text,
            **kwargs,
        )
        self.kind = kind
        self.setting = setting
        self.group: str = extra["group"]

    def from_file(self, value: object) -> Any:
        """Return a value of the settings file as click takes it from a default map.

        Raises:
            UsageError: the value has another type than the setting, or is out of bounds.
        """
        form = self.setting.extra.get("form")
        checked = value
        if form in REPEATED:
            texts = _gate_texts(form, value)
            FORMS[form][1](texts)  # raises with the name of the setting
            return texts
        if form == "percent":
            checked = {PERCENTAGE: value}
        elif form == "duration":
            if not isinstance(value, str):
                raise UsageError(f"duration: must be a string such as '8h', not {value!r}")
            checked = parse_duration(value)
        check_settings(self.kind, {self.setting.name: checked})  # click itself would take 4.7 for 4
        return value


def setting_options(
    kind: type[Record],
    names: Collection[str] | None = None,
    groups: Collection[str] = (),
    prefix: str | None = "MEMFIN",
    **changes: Mapping[str, Any],
) -> tuple[SettingOption, ...]:
    """Return the options of a settings struct in its order, or those of some names and groups.

    ``prefix`` is that of the variables, None for options without one; ``changes`` are attributes of a
    `Setting`, by its name, that are others for the command.
    """
    return tuple(
        SettingOption(kind, each._replace(**changes.get(each.name, {})), prefix)
        for each in settings_of(kind)
        if names is None or each.name in names or each.extra["group"] in groups
    )


VALUE_GATES: Final = setting_options(RunConfig, ("fail_under", "fail_over", "gate"), prefix=None)
"""Gates on values, for commands that have no other settings of a run."""

_BENCH_NAMES: Final = {each.name for each in settings_of(BenchConfig) if "dialogs" not in each.extra}

RUN_OPTIONS: Final = setting_options(RunConfig)
LIMITS: Final = setting_options(SoakLimits)
REPEATS: Final = setting_options(RepeatSettings)
ENGINE_OPTIONS: Final = setting_options(EngineSettings)
UPLOAD: Final = setting_options(UploadSettings)
SOAK_OPTIONS: Final = (*LIMITS, *RUN_OPTIONS)
BENCH_OPTIONS: Final = (
    *setting_options(BenchConfig, _BENCH_NAMES),
    *setting_options(RepeatSettings, prefix="MEMFIN_BENCH"),
    *setting_options(SoakLimits, prefix="MEMFIN_BENCH"),
)
PREFIX: Final = "MEMFIN_"
VARIABLES: Final = {
    str(option.envvar).removeprefix(PREFIX)
    for option in (*SOAK_OPTIONS, *ENGINE_OPTIONS, *UPLOAD, *BENCH_OPTIONS)
} | {
    *("CONFIG", "DATASET", "BENCHMARK", "JSON", "QUIET", "JUNIT", "GITHUB", "DEBUG", "LANG"),
    *("AGENT_BASE_URL", "AGENT_API_KEY", "JUDGE_BASE_URL", "JUDGE_API_KEY", "RATE_TOKEN"),
    *("CLIENT_BASE_URL", "CLIENT_API_KEY"),
}
"""The names of all variables behind the prefix."""

SHARED: Final = _BENCH_NAMES - set(BenchConfig.__annotations__) - {"run_id"}
"""Settings of `run` at the top level of the file that mean the same for `bench`."""


class SettingsCommand(click.Command):
    """A command whose help lists its options by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each under its heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for option in sorted(options, key=lambda each: not hasattr(each, "group")):
            if (record := option.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(option, "group", "Other options"), []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def with_settings(options: Sequence[SettingOption], table: str) -> Callable[[F], F]:
    """Return a decorator that gives a command the options and ``--config``, for a table of the file."""
    return with_options(*options, config_option(partial(read_config, options=options, table=table)))


def with_options(*options: click.Option) -> Callable[[F], F]:
    """Return a decorator that gives a command options, which several commands may share."""

    def decorate(command: F) -> F:
        params: list[click.Parameter] = getattr(command, "__click_params__", [])
        command.__click_params__ = [*params, *reversed(options)]  # type: ignore[attr-defined]
        return command

    return decorate


def output_flags(
    what: str, quiet: str = "No progress and no table.", *, variables: bool = False
) -> Callable[[F], F]:
    """Return a decorator that gives a command ``--json``, which prints ``what``, and ``--quiet``."""

    def flag(name: str, text: str) -> click.Option:
        variable = f"MEMFIN_{name.upper()}" if variables else None
        return click.Option([f"--{name}", FLAGS[name]], is_flag=True, envvar=variable, help=text)

    return with_options(flag("json", f"Print {what} as JSON on stdout."), flag("quiet", quiet))


def with_language(*, variable: bool = False) -> Callable[[F], F]:
    """Return a decorator that gives a command ``--lang``, the language of its tables and reports."""

    def start(ctx: click.Context, param: click.Parameter, value: Language | None) -> None:
        del param
        ctx.with_resource(use_language(value or locale_language()))

    option = click.Option(
        ["--lang"],
        type=click.Choice(LANGUAGES),
        envvar="MEMFIN_LANG" if variable else None,
        expose_value=False,
        callback=start,
        help="Language of tables and reports.  [default: that of the locale]",
    )
    return with_options(option)


def config_option(read: Callable[[Path], dict[str, Any]]) -> click.Option:
    """Return ``--config``: what ``read`` makes of the file goes beneath flags and environment."""

    def load(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
        del param
        for line in unknown_variables(os.environ):
            note(f"warning: {line}")
        path = value or Path(CONFIG_FILE)
        if value is not None or path.is_file():
            ctx.default_map = {**(ctx.default_map or {}), **read(path)}

    return click.Option(
        ["--config"],
        type=click.Path(path_type=Path),
        envvar="MEMFIN_CONFIG",
        is_eager=True,
        expose_value=False,
        callback=load,
        help=f"Settings file.  [default: {CONFIG_FILE} where it exists]",
    )


def unknown_variables(environ: Iterable[str]) -> Iterator[str]:
    """Yield a line for every variable that begins with the prefix and is none of `VARIABLES`."""
    for name in sorted(environ):
        bare = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and bare not in VARIABLES:
            near = get_close_matches(bare, VARIABLES, 1)
            yield f"the variable {name} is ignored" + (f"; did you mean {PREFIX}{near[0]}?" if near else "")


def read_config(
    path: Path, options: Sequence[SettingOption] = RUN_OPTIONS, table: str = "run"
) -> dict[str, Any]:
    """Return the settings that a ``memfin.toml`` holds for a command.

    Settings at the top level and in ``[run]`` are for all commands that replay dialogues; ``[soak]`` and
    ``[bench]`` win over them. Of the others `bench` takes those at the top level that are `SHARED`.

    Raises:
        UsageError: the file is unreadable or no TOML, or it has an unknown key or an impossible value.
    """
    try:
        return _settings_of(reading.read_toml(path), options, table)
    except UsageError as problem:
        raise UsageError(f"config {path}: {problem}") from problem


def _settings_of(content: dict[str, Any], options: Sequence[SettingOption], table: str) -> dict[str, Any]:
    tables = {name: content.pop(name, {}) for name in TABLES}
    for name, own in tables.items():
        if not isinstance(own, dict):
            raise UsageError(f"{name} is a table, [{name}]")
    if table == "bench":
        shared = {name: value for name, value in content.items() if name in SHARED | {*FLAGS, *TEXTS}}
        found = _checked(shared, BENCH_OPTIONS, "")
    else:
        own = (*RUN_OPTIONS, *REPEATS, *ENGINE_OPTIONS, *UPLOAD)
        found = _checked({**content, **tables["run"]}, own, "")
    return found if table == "run" else found | _checked(tables[table], options, f"{table}.")


def _checked(values: Mapping[str, Any], options: Sequence[SettingOption], prefix: str) -> dict[str, Any]:
    """Return the values of a table by the names of parameters; messages put ``prefix`` before keys."""
    known = {option.setting.key: option for option in options}
    texts = ("path" if prefix == "bench." else "dataset", *TEXTS)
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in FLAGS or key in texts:
            kind, words = (bool, "true or false") if key in FLAGS else (str, "a string")
            if not isinstance(value, kind):
                raise UsageError(f"{prefix}{key}: must be {words}")
            found[FLAGS.get(key, key)] = value
        elif key in known:
            try:
                found[str(known[key].name)] = known[key].from_file(value)
            except UsageError as problem:  # the first word is the name of the field or the flag
                raise UsageError(f"{prefix}{key}: {str(problem).partition(' ')[2]}") from problem
        else:
            names = ", ".join(sorted({*known, *texts, *FLAGS}))
            raise UsageError(f"unknown setting {prefix + key!r}; known: {names}")
    return found


def _refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE  # a file's is for run
    if given and value not in (None, "local"):
        raise UsageError(f"--engine: memfin {ctx.info_name} runs in one process; memfin run has engines")


NO_ENGINE: Final = click.Option(["--engine"], hidden=True, expose_value=False, callback=_refuse)
"""Option of commands that have no engines, which says so."""


def soak_limits(settings: dict[str, Any]) -> SoakLimits | None:
    """Take the limits of a soak, or the number of repeats, out of the settings; None for a single run.

    Raises:
        UsageError: the number of repeats is out of range, or both are set.
    """
    limits = {option.setting.name: settings.pop(option.setting.key, None) for option in LIMITS}
    repeats = check_settings(RepeatSettings, {"repeats": settings.pop("repeats", 1)}).repeats
    if repeats > 1:
        for name in ("duration_seconds", "epochs", "keep_epochs"):
            if limits[name] is not None:
                option = name.removesuffix("_seconds").replace("_", "-")
                raise UsageError(f"--repeats {repeats}: not together with --{option}; give one of them")
        return SoakLimits(**limits | {"epochs": repeats, "vary_seed": True})
    return SoakLimits(**limits) if any(value is not None for value in limits.values()) else None


def _gate_texts(form: str, value: object) -> Sequence[str]:
    """Return the texts of an option for gates from a table, a list or a string of the file."""
    if isinstance(value, Mapping) and form in ("fail_under", "fail_over"):
        return [f"{name}={limit}" for name, limit in _dotted(value)]
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list) and all(isinstance(item, str) for item in texts):
        return texts
    table = "" if form in ("gate", "list") else "a table of metric.value = number, or "
    raise UsageError(f"{form}: must be {table}a list of strings")


def _dotted(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of a table by dotted name: without quotes TOML makes tables of the dots."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
