"""``memfin memory``: the governed memory layer, served and looked after."""

from pathlib import Path
from typing import Any

import click

from memfin.cli.memory_tokens import token
from memfin.errors import GateFailed, RunFault, UsageError

DEFAULT_PORT = 8766

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
    show_default=True,
    help="Directory of the memory layer's data.",
)

thresholds_option = click.option(
    "--drift-thresholds",
    "thresholds",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file with thresholds of the drift detectors, in the place of those that ship with MemFin.",
)


@click.group("memory")
def command() -> None:
    """Serve the governed memory layer, and look after its data.

    \b
    memfin memory token add alice                    a token for the service, printed this once
    memfin memory serve                              REST and web pages on 127.0.0.1
    memfin memory expire                             remove task contexts of more than 24 hours ago
    memfin memory export alice --out exports         all that is remembered of alice
    memfin memory verify exports/alice               whether it is, byte for byte, what was exported
    memfin memory import exports/alice --data other
    memfin memory delete alice --yes                 remove an account for good

    memfin memory COMMAND --help tells more of each.
    """


@command.command("serve")
@data_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--allowed-host",
    "names",
    metavar="NAME",
    multiple=True,
    help="A further name under which the service may be asked for, as behind a proxy; may be repeated.",
)
@click.option(
    "--secure-cookies",
    is_flag=True,
    help="Browsers send the cookies of the pages through TLS only; set it behind a proxy that speaks TLS.",
)
@thresholds_option
def serve(
    data: Path, host: str, port: int, names: tuple[str, ...], *, secure_cookies: bool, thresholds: Path | None
) -> None:
    """Serve the REST interface and the pages until SIGINT or SIGTERM.

    \b
    memfin memory serve --data data --port 8766

    Prints one line with the address when it is ready. When it is told to stop, calls that are under way
    are answered first. An address that the network can reach needs a token made beforehand.
    """
    from memfin.web.memory.serving import serve as run  # noqa: PLC0415 - no other command needs a server

    run(data, host=host, port=port, names=names, secure_cookies=secure_cookies, thresholds=thresholds)


@command.command("expire")
@data_option
@thresholds_option
def expire(data: Path, thresholds: Path | None) -> None:
    """Remove expired task contexts, look at reopened questions, finish what was interrupted.

    \b
    memfin memory expire --data data

    Meant for a timer, such as cron's; a running service does the same every ten minutes.
    """
    with _store(data, thresholds=thresholds) as store:
        sweep = store.expire()
        signals = store.scan_drift()
    click.echo(f"memfin: {sweep.task_contexts} expired task contexts removed", err=True)
    if signals:
        click.echo(f"memfin: {signals} drift signals recorded", err=True)
    if sweep.finished:
        click.echo(f"memfin: {sweep.finished} interrupted operations finished", err=True)
    undone = []
    if sweep.refused:
        undone.append(f"{sweep.refused} expired task contexts cannot be removed yet")
    if sweep.failed:
        undone.append(f"{sweep.failed} interrupted operations cannot be finished yet")
    if undone:
        raise RunFault(f"memory {data}: {'; '.join(undone)}")
    if sweep.overdue:
        raise GateFailed(f"{sweep.overdue} revocations had waited for more than 48 hours; they are done now")


@command.command("export")
@click.argument("user")
@data_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory in which a directory named after the user is made.",
)
@click.option("--zip", "as_zip", is_flag=True, help="Make one file, USER.zip, instead.")
def export(user: str, data: Path, out: Path, *, as_zip: bool) -> None:
    """Export all that is remembered of a user, with a manifest of checksums.

    \b
    memfin memory export alice --out exports
    """
    with _store(data) as store:
        made = store.export_to(user, out, as_zip=as_zip)
    click.echo(str(made))


@command.command("import")
@click.argument("package", type=click.Path(path_type=Path))
@data_option
def import_(package: Path, data: Path) -> None:
    """Take in an export, a directory or a zip file, of a user who is not known here.

    \b
    memfin memory import exports/alice --data other

    Everything in it is checked before anything is written.
    """
    if not package.exists():  # told before a store is made for it
        raise UsageError(f"{package}: No such file or directory")
    with _store(data, create=True) as store:
        imported = store.import_package(package)
    click.echo(f"memfin: user {imported.user_id}: {imported.files} files imported", err=True)


@command.command("verify")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), help="Not needed; any is accepted.")
def verify(package: Path, data: Path | None) -> None:
    """Compare every byte of an export, a directory or a zip file, with its manifest.

    \b
    memfin memory verify exports/alice

    Exit code 0: all is as it was exported. 1: something differs, listed as file: what.
    """
    from memfin.memory.package import verify_package  # noqa: PLC0415 - see `_store`

    del data
    verified = verify_package(package)
    for each in verified.discrepancies:
        click.echo(str(each))
    if verified.discrepancies or verified.manifest is None:
        count = len(verified.discrepancies)
        raise GateFailed(f"{package}: {count} {'difference' if count == 1 else 'differences'}")
    manifest = verified.manifest
    click.echo(
        f"memfin: {package}: as exported at {manifest.exported_at}: "
        f"user {manifest.user_id}, {len(manifest.files)} files",
        err=True,
    )


@command.command("delete")
@click.argument("user")
@data_option
@click.option("--yes", is_flag=True, help="Required: there is no way back.")
def delete(user: str, data: Path, *, yes: bool) -> None:
    """Remove an account for good: all its data and its tokens; a stub with two fields stays.

    \b
    memfin memory delete alice --yes
    """
    from memfin.memory.access_tokens import TOKENS_FILE, TokenFile  # noqa: PLC0415 - see `_store`
    from memfin.memory.errors import NotFound  # noqa: PLC0415

    if not yes:
        raise UsageError(
            f"deleting user {user} cannot be undone; say --yes, and think of memory export first"
        )
    with _store(data) as store:
        tokens = store.despite_full_disk(lambda: TokenFile(data / TOKENS_FILE).forget_user(user))
        try:
            deleted_at = store.delete_user(user).deleted_at
        except NotFound:
            if not tokens:
                raise
            click.echo(f"memfin: user {user}: nothing was saved; {tokens} tokens taken back", err=True)
            return
    when = deleted_at.isoformat(timespec="seconds")
    click.echo(f"memfin: user {user} deleted at {when}; {tokens} tokens taken back", err=True)


command.add_command(token)


def _store(data: Path, *, create: bool = False, thresholds: Path | None = None) -> Any:
    """Return the open store; a directory without one is a slip of the pen, not an empty store."""
    from memfin.memory import MemoryStore  # noqa: PLC0415 - other commands start without it
    from memfin.memory.access_tokens import TOKENS_FILE  # noqa: PLC0415
    from memfin.memory.drift import load_thresholds  # noqa: PLC0415
    from memfin.memory.paths import Paths  # noqa: PLC0415

    read = None if thresholds is None else load_thresholds(thresholds)
    if not create:
        if not data.is_dir():
            raise UsageError(
                f"{data}: no such directory; name the one with the memory layer's data with --data"
            )
        paths = Paths(data)
        if not any(each.exists() for each in (paths.state, paths.consents, data / TOKENS_FILE)):
            raise UsageError(
                f"{data}: holds no data of the memory layer; name the directory that does with --data"
            )
    return MemoryStore(data, thresholds=read)
