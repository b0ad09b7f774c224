"""The table ``[soak]`` of the settings file: what it holds, what goes first, what is refused."""

from pathlib import Path

import pytest

from memfin.cli.options import read_config
from memfin.cli.soak_options import read_soak_config
from memfin.errors import UsageError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "memfin.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_table_of_the_soak_goes_before_the_settings_of_all(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "seed = 1\nlimit = 2\n[run]\nseed = 3\nworkers_dialog = 5\n"
        '[soak]\nseed = 4\nduration = "1h30m"\nepochs = 7\nkeep_epochs = 0\nmetrics_port = 9464\n'
        "quiet = true\n"
        '[bench]\nrag = "oracle"\n',
    )
    of_soak = {"duration": "1h30m", "epochs": 7, "keep_epochs": 0, "metrics_port": 9464}
    assert read_soak_config(path) == {
        "seed": 4,
        "limit": 2,
        "workers_dialog": 5,
        "quiet": True,
        **of_soak,
    }
    assert read_config(path) == {"seed": 3, "limit": 2, "workers_dialog": 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soak = 3", r"soak is a table, \[soak\]"),
        ("[soak]\nspeed = 3", "unknown setting 'speed'"),
        ("[soak]\nlimit = true", "limit: Expected `int"),
        ("[soak]\nepochs = 0", "soak.epochs: Expected `int` >= 1"),
        ("[soak]\nkeep_epochs = 1.5", r"soak.keep_epochs: Expected `int \| null`, got `float`"),
        ("[soak]\nduration = 8", "soak.duration: Expected `str`, got `int`"),
        ('[soak]\nduration = "0s"', "soak.duration: '0s': must be more than 0"),
        ("epochs = 3", "unknown setting 'epochs'"),
    ],
    ids=["table", "name", "type", "few", "fraction", "number", "nothing", "place"],
)
def test_a_wrong_table_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        read_soak_config(written(tmp_path, text))
    assert len(str(refused.value).splitlines()) == 1
