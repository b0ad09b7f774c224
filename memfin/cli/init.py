"""``memfin init``: a starter dataset, an agent and settings, ready for ``memfin run``."""

from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from memfin.cli.output import note
from memfin.errors import RunFault, UsageError
from memfin.journal.disk import Disk

STARTER: Final = {
    "dialogs.jsonl": "dialogs.jsonl",
    "my_agent.py": "my_agent.txt",
    "memfin.toml": "memfin.toml",
}
"""Files that are written, and their names among the data of the package."""


@click.command("init")
@click.argument("directory", default=Path(), type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write a small dataset, an agent and memfin.toml into DIRECTORY, by default the current one.

    \b
    memfin init my-evaluation

    Then memfin run in that directory evaluates the agent on the dialogues. Nothing is overwritten: if one of
    the files exists already, none is written.
    """
    for name in STARTER:
        if (directory / name).exists():
            raise UsageError(
                f"{directory / name} exists already; nothing was written, name another directory"
            )
    disk, data = Disk(), files("memfin") / "data" / "starter"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, source in STARTER.items():
            disk.write_whole(directory / name, (data / source).read_bytes())
    except (FileExistsError, NotADirectoryError) as problem:
        raise UsageError(f"{directory}: {problem.filename} is no directory") from problem
    except OSError as problem:
        raise RunFault(f"{problem.filename or directory}: {problem.strerror or problem}") from problem
    place = "" if directory == Path() else f"cd {directory} && "
    note(f"wrote {', '.join(STARTER)}; now: {place}memfin run")
