"""Options of a run: flags over environment over file, and refusals in one line."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from memfin.cli.options import (
    BENCH_OPTIONS,
    CONFIG_FILE,
    NO_ENGINE,
    REPEATS,
    RUN_OPTIONS,
    SOAK_OPTIONS,
    read_config,
    with_options,
    with_settings,
)
from memfin.contracts import RunConfig
from memfin.errors import UsageError
from memfin.runtime.plan import make_plan
from tests.support import each_case

GATE = "m3_risk_coverage.risk_coverage"


@pytest.fixture(autouse=True)
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for option in RUN_OPTIONS:
        monkeypatch.delenv(f"MEMFIN_{(option.name or '').upper()}", raising=False)
    monkeypatch.delenv("MEMFIN_CONFIG", raising=False)


def settings(
    *args: str, env: Mapping[str, str] | None = None, config: str | None = None, name: str = CONFIG_FILE
) -> dict[str, Any]:
    """Return what a command with the options of a run is called with."""
    got: dict[str, Any] = {}

    @click.command()
    @click.argument("dataset", required=False, envvar="MEMFIN_DATASET")
    @with_settings(RUN_OPTIONS, "run")
    def command(**values: Any) -> None:
        got.update(values)

    if config is not None:
        Path(name).write_text(config, "utf-8")
    result = CliRunner().invoke(command, list(args), env=env, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return got


def refusal(config: str) -> str:
    with pytest.raises(UsageError) as refused:
        settings(config=config)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert message.startswith("config memfin.toml: ")
    return message.removeprefix("config memfin.toml: ")


def test_every_setting_of_a_run_has_a_flag_and_the_same_default() -> None:
    defaults = settings()
    fields = RunConfig()
    assert set(defaults) == set(RunConfig.__struct_fields__)
    for name, value in defaults.items():
        assert value == fields[name], name


def test_what_the_python_api_names_is_what_the_flags_name() -> None:
    named = set(inspect.signature(make_plan).parameters) - {"settings", "observer_factory", "metrics"}
    assert named <= {option.name for option in RUN_OPTIONS} | {"dataset"}


def test_flags_win_over_environment_which_wins_over_the_file() -> None:
    config = "seed = 1\n"
    env = {"MEMFIN_SEED": "2"}
    assert settings("--seed", "3", env=env, config=config)["seed"] == 3
    assert settings(env=env, config=config)["seed"] == 2
    assert settings(config=config)["seed"] == 1


def test_every_flag_has_its_variable() -> None:
    values = {
        "agent": "echo",
        "judge": "none",
        "runs_dir": "elsewhere",
        "run_id": "x",
        "workers_dialog": "7",
        "workers_judge": "8",
        "workers_score": "3",
        "score_timeout": "2.5",
        "score_chars": "5000",
        "tag_map": "tags.toml",
        "metric": "a.b:C d:E",
        "detector": "rules:Fees rules:Names",
        "history": "forced",
        "limit": "9",
        "shard": "1/4",
        "turn_timeout": "1.5",
        "turn_retries": "0",
        "agent_rpm": "20",
        "rate_lease_address": "127.0.0.1:9",
        "judge_rpm": "10",
        "judge_tpm": "11",
        "judge_scope": "all",
        "judge_votes": "3",
        "judge_patience": "30.0",
        "judge_max_tokens": "4096",
        "judge_cache": "off",
        "judge_cache_dir": "verdicts",
        "agent_system": "prompt.md",
        "agent_history": "none",
        "agent_user": "{user_id}",
        "agent_headers": "X-User={user_id} X-Session-Id={session_id}",
        "agent_metadata": '{"session": "{session_id}"}',
        "agent_memory": "builtin",
        "agent_temperature": "0.5",
        "agent_max_tokens": "300",
        "agent_context_tokens": "4000",
        "seed": "12",
        "client": "simulated",
        "client_model": "openai:small",
        "probes": "none",
        "probe_fork": "replay",
        "perturb": "flattery,pushing",
        "grade_probes": "True",
        "fsync_interval": "0.5",
        "fsync_turns": "33",
        "trace_version": "v1.1",
        "fail_under": f"{GATE}=0.1 {GATE}=0.2",
        "fail_over": "m4_compliance.severe_violation_rate=0.1",
        "gate": f"{GATE}>=0.1 {GATE}>=0.2@95",
        "fail_on_error": "0.5",
        "fail_on_judge_error": "0.25",
        "notes": "n",
    }
    assert set(values) == {option.setting.key for option in RUN_OPTIONS if not option.hidden}
    got = settings(env={f"MEMFIN_{name.upper()}": value for name, value in values.items()})
    assert got.pop("detectors") == ["rules:Fees", "rules:Names"]
    assert got.pop("forbidden_patterns") == {}
    assert got.pop("risk_tag_mapper") is None
    del values["detector"]
    assert got.pop("agent_headers") == values.pop("agent_headers").split()
    assert got.pop("fail_under") == {GATE: 0.2}
    assert got.pop("fail_over") == {"m4_compliance.severe_violation_rate": 0.1}
    assert got.pop("gate") == [f"{GATE}>=0.1", f"{GATE}>=0.2@95"]
    assert got.pop("metric") == ["a.b:C", "d:E"]
    for name in ("fail_under", "fail_over", "gate", "metric"):
        del values[name]
    assert {name: str(got[name]) for name in values} == values | {
        "agent_rpm": "20.0",
        "rate_lease_address": "127.0.0.1:9",
        "judge_rpm": "10.0",
        "judge_tpm": "11.0",
    }


def test_an_empty_variable_is_no_variable() -> None:
    assert settings(env={"MEMFIN_SEED": ""}, config="seed = 5")["seed"] == 5


def test_the_dataset_comes_from_argument_variable_or_file() -> None:
    config = 'dataset = "file.jsonl"\n'
    env = {"MEMFIN_DATASET": "variable.jsonl"}
    assert settings("argument.jsonl", env=env, config=config)["dataset"] == "argument.jsonl"
    assert settings(env=env, config=config)["dataset"] == "variable.jsonl"
    assert settings(config=config)["dataset"] == "file.jsonl"


def test_the_file_may_have_another_name() -> None:
    assert settings("--config", "own.toml", config="seed = 4", name="own.toml")["seed"] == 4
    assert settings(env={"MEMFIN_CONFIG": "own.toml"})["seed"] == 4
    assert settings()["seed"] == 0


def test_the_run_table_counts_as_the_top_level_and_wins() -> None:
    got = settings(config="seed = 1\nlimit = 2\n[run]\nseed = 3\n")
    assert (got["seed"], got["limit"]) == (3, 2)


def test_a_mark_and_carriage_returns_are_no_part_of_the_file() -> None:
    assert settings(config="\ufeffseed = 3\r\nlimit = 2\r\n")["limit"] == 2


def test_whole_numbers_do_where_the_setting_is_a_float() -> None:
    assert settings(config="turn_timeout = 5")["turn_timeout"] == 5.0


@each_case(
    ("config", "message"),
    [
        ("workers_dialog = 4.7", "workers_dialog: must be an integer, not a number"),
        ("limit = true", "limit: must be an integer, not true or false"),
        ("workers_dialog = [1]", "workers_dialog: must be an integer, not a list"),
        ('seed = "5"', "seed: must be an integer, not a string"),
        ('agent = ["a"]', "agent: must be a string, not a list"),
        ("dataset = 5", "dataset: must be a string"),
        ("agent = 2024-01-01", "agent: must be a string, not a date"),
        ("turn_timeout = nan", "turn_timeout: must be more than 0"),
        ("turn_timeout = inf", "turn_timeout: must be at most 86400"),
        ("workers_dialog = 0", "workers_dialog: must be at least 1"),
        ('history = "both"', "history: must be one of free, forced, not 'both'"),
        ("quiet = 1", "quiet: must be true or false"),
        ("unknown = 1", "unknown setting 'unknown'; known: agent, agent_context_tokens, agent_headers, "),
        ("[run]\nworkers-dialog = 1", "unknown setting 'workers-dialog'; known: "),
        ("run = 5", "run is a table, [run]"),
        ("seed = ", "Invalid value"),
        ("seed 5", "Expected '=' after a key"),
        ("seed = 1\nseed = 2", "Cannot overwrite a value"),
        (f"seed = {'[' * 5000}{']' * 5000}", "the values are nested too deeply"),
        (f"seed = {'9' * 5000}", "Exceeds the limit (4300 digits) for integer string conversion"),
        (f"{'a.' * 10_000}a = 1", "the file is larger than 16 KiB"),
        ("fail_under = 5", "fail_under: must be a table of metric.value = number, or a list of strings"),
        ("fail_under = [5]", "fail_under: must be a table of metric.value = number, or a list of strings"),
        ("[fail_under]\nm9 = 0.5", "fail_under: unknown value 'm9'"),
        ("[run.fail_under]\nm3_risk_coverage.none = 0.5", "fail_under: unknown value "),
    ],
)
def test_an_unusable_file_is_refused_in_one_line(config: str, message: str) -> None:
    assert refusal(config).startswith(message)


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    Path(CONFIG_FILE).write_bytes(b"seed = '\xff'")
    with pytest.raises(UsageError, match=r"config memfin\.toml: 'utf-8' codec can't decode"):
        settings()


def test_a_file_that_is_named_must_be_readable(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config none\.toml: No such file or directory"):
        settings("--config", "none.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        settings("--config", str(tmp_path))


def test_a_directory_of_the_default_name_is_not_read() -> None:
    Path(CONFIG_FILE).mkdir()
    assert settings()["seed"] == 0


@pytest.mark.parametrize(
    "config",
    [
        f'[fail_under]\n"{GATE}" = 0.8',
        f"[fail_under]\n{GATE} = 0.8",
        "[run.fail_under.m3_risk_coverage]\nrisk_coverage = 0.8",
        f'fail_under = ["{GATE}=0.8"]',
        f'fail_under = "{GATE}=0.8"',
    ],
)
def test_thresholds_may_be_written_in_every_way_toml_has(config: str) -> None:
    assert settings(config=config)["fail_under"] == {GATE: 0.8}


def test_thresholds_of_flags_replace_those_of_the_file() -> None:
    got = settings("--fail-under", f"{GATE}=0.5", config=f'fail_under = "{GATE}=0.8"')
    assert got["fail_under"] == {GATE: 0.5}


def test_the_last_threshold_of_a_value_counts() -> None:
    got = settings("--fail-under", f"{GATE}=0.1", "--fail-under", f"{GATE}=0.2")
    assert got["fail_under"] == {GATE: 0.2}
    assert settings()["fail_under"] == {}


def test_gates_of_the_file_are_texts() -> None:
    for config in (f'gate = "{GATE}>=0.8@95"', f'[run]\ngate = ["{GATE} >= 0.8 @95"]'):
        assert settings(config=config)["gate"] == [f"{GATE}>=0.8@95"]


def test_a_threshold_of_the_file_must_be_a_number() -> None:
    with pytest.raises(UsageError, match=r"expected metric\.value=number"):
        settings(config=f'[fail_under]\n"{GATE}" = "much"')


def test_reading_a_config_returns_its_settings() -> None:
    Path("a.toml").write_text("[run]\nseed = 1\n")
    assert read_config(Path("a.toml")) == {"seed": 1}


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("--workers-dialog", "many"), "--workers-dialog"),
        (("--history", "both"), "--history"),
        (("--trace-version", "v2"), "--trace-version"),
        (("--turn-timeout", "soon"), "--turn-timeout"),
        (("--judge-cache", "maybe"), "--judge-cache"),
    ],
)
def test_a_flag_of_the_wrong_type_is_named(args: tuple[str, ...], name: str) -> None:
    command = click.Command("c", callback=lambda **values: None, params=[*RUN_OPTIONS])
    result = CliRunner().invoke(command, list(args))
    assert result.exit_code == 2
    assert f"Invalid value for '{name}'" in result.output


def test_the_table_of_the_soak_goes_before_the_settings_of_all() -> None:
    Path(CONFIG_FILE).write_text(
        "seed = 1\nlimit = 2\n[run]\nseed = 3\nworkers_dialog = 5\n"
        '[soak]\nseed = 4\nduration = "1h30m"\nepochs = 7\nkeep_epochs = 0\nmetrics_port = 9464\n'
        "quiet = true\n"
        '[bench]\nrag = "oracle"\n',
    )
    of_soak = {"duration": "1h30m", "epochs": 7, "keep_epochs": 0, "metrics_port": 9464}
    assert read_config(Path(CONFIG_FILE), SOAK_OPTIONS, "soak") == {
        "seed": 4,
        "limit": 2,
        "workers_dialog": 5,
        "quiet": True,
        **of_soak,
    }
    assert read_config(Path(CONFIG_FILE)) == {"seed": 3, "limit": 2, "workers_dialog": 5}


@each_case(
    ("text", "words"),
    [
        ("soak = 3", r"soak is a table, \[soak\]"),
        ("[soak]\nspeed = 3", "unknown setting 'soak.speed'"),
        ("[soak]\nlimit = true", "soak.limit: must be an integer"),
        ("[soak]\nepochs = 0", "soak.epochs: must be at least 1"),
        ("[soak]\nkeep_epochs = 1.5", r"soak.keep_epochs: must be an integer, not a number"),
        ("[soak]\nduration = 8", "soak.duration: must be a string such as '8h', not 8"),
        ('[soak]\nduration = "0s"', "soak.duration: '0s': must be more than 0"),
        ("epochs = 3", "unknown setting 'epochs'"),
    ],
)
def test_a_wrong_soak_table_is_one_line(text: str, words: str) -> None:
    Path(CONFIG_FILE).write_text(text)
    with pytest.raises(UsageError, match=words) as refused:
        read_config(Path(CONFIG_FILE), SOAK_OPTIONS, "soak")
    assert len(str(refused.value).splitlines()) == 1


def test_a_misspelt_variable_is_reported_with_the_nearest_one() -> None:
    @click.command()
    @with_settings(RUN_OPTIONS, "run")
    def command(**values: Any) -> None: ...

    known = {
        "MEMFIN_LANG": "en",
        "MEMFIN_WORKERS_DIALOG": "2",
        "MEMFIN_JUDGE_API_KEY": "k",
        "MEMFIN_BENCH_FAIL_UNDER": "1",
    }
    assert CliRunner().invoke(command, env=known).output == ""
    unknown = {"MEMFIN_WORKERS_DIALGO": "2", "MEMFIN_XYZZY": ""}
    assert CliRunner().invoke(command, env=known | unknown).output.splitlines() == [
        "memfin: warning: the variable MEMFIN_WORKERS_DIALGO is ignored; did you mean MEMFIN_WORKERS_DIALOG?",
        "memfin: warning: the variable MEMFIN_XYZZY is ignored",
    ]


def test_an_engine_of_the_file_is_for_runs_alone() -> None:
    @click.command()
    @with_settings(SOAK_OPTIONS, "soak")
    @with_options(NO_ENGINE)
    def soak(**values: Any) -> None:
        del values

    Path(CONFIG_FILE).write_text('engine = "processes"\nkeep_shards = true\n', "utf-8")
    done = CliRunner().invoke(soak)
    assert done.exit_code == 0, done.exception
    refused = CliRunner().invoke(soak, ["--engine", "processes"])
    assert str(refused.exception) == "--engine: memfin soak runs in one process; memfin run has engines"


def test_repeats_of_the_file_are_for_runs_and_no_setting_of_a_soak() -> None:
    Path(CONFIG_FILE).write_text("repeats = 3\n[bench]\nrepeats = 2\n")
    assert read_config(Path(CONFIG_FILE), (*RUN_OPTIONS, *REPEATS), "run") == {"repeats": 3}
    assert read_config(Path(CONFIG_FILE), BENCH_OPTIONS, "bench") == {"repeats": 2}
    for text, words in (
        ("repeats = 0", "repeats: must be at least 1"),
        ("[soak]\nrepeats = 2", "unknown setting 'soak.repeats'"),
    ):
        Path(CONFIG_FILE).write_text(text)
        with pytest.raises(UsageError, match=words):
            read_config(Path(CONFIG_FILE), SOAK_OPTIONS, "soak")
