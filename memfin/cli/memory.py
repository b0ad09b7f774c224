"""``memfin memory``: the governed memory layer, served and looked after."""

from pathlib import Path
from typing import get_args

import click

from memfin.cli.output import counted, note
from memfin.contracts.memory import ItemKind, Route
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.memory import MemoryStore
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile
from memfin.memory.drift import load_thresholds
from memfin.memory.errors import NotFound
from memfin.memory.foreign import import_items as read_items
from memfin.memory.package import verify_package
from memfin.memory.paths import Paths
from memfin.memory.tools import MemoryTools
from memfin.sandbox.references import one_line

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
    help="TOML file with thresholds of the drift detectors.  [default: those that ship with MemFin]",
)


@click.group("memory")
def command() -> None:
    """Serve the governed memory layer, and look after its data.

    \b
    memfin memory token add alice                    a token for the service, printed this once
    memfin memory serve                              REST and web pages on 127.0.0.1
    memfin memory expire                             remove task contexts of more than 24 hours ago
    memfin memory export alice --out exports         all that is remembered of alice
    memfin memory verify exports/alice               compare it with its checksums
    memfin memory import exports/alice --data other
    memfin memory import-items memories.json --user alice
    memfin memory mcp --user alice                   tools for a model that speaks MCP
    memfin memory delete alice --yes                 remove an account for good

    memfin memory COMMAND --help has the details.
    """


@command.command("serve", short_help="Serve the REST interface and the pages.")
@data_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8766,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--allowed-host",
    "names",
    metavar="NAME",
    multiple=True,
    help="A further host name of the service, as behind a proxy. Repeatable.",
)
@click.option(
    "--secure-cookies",
    is_flag=True,
    help="Browsers send the cookies of the pages through TLS only; set it behind a proxy that speaks TLS.",
)
@thresholds_option
@click.option(
    "--skills",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file with the skills that GET /api/tasks/suggestions recommends.",
)
def serve(
    data: Path,
    host: str,
    port: int,
    names: tuple[str, ...],
    *,
    secure_cookies: bool,
    thresholds: Path | None,
    skills: Path | None,
) -> None:
    """Serve the REST interface and the pages until SIGINT or SIGTERM.

    \b
    memfin memory serve --data data --port 8766

    Prints one line with the address when it is ready. At a stop, running calls are answered first. An
    address that the network can reach needs a token made beforehand.
    """
    from memfin.web.memory.serving import serve as run  # noqa: PLC0415 - no other command needs a server

    run(
        data,
        host=host,
        port=port,
        names=names,
        secure_cookies=secure_cookies,
        thresholds=thresholds,
        skills=skills,
    )


@command.command("expire", short_help="Remove what has expired, finish what was interrupted.")
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
    note(f"{sweep.task_contexts} expired task contexts removed")
    if signals:
        note(f"{signals} drift signals recorded")
    if sweep.finished:
        note(f"{sweep.finished} interrupted operations finished")
    undone = [f"{sweep.refused} expired task contexts cannot be removed yet"] if sweep.refused else []
    if sweep.failed:
        undone.append(f"{sweep.failed} interrupted operations cannot be finished yet")
    if undone:
        raise RunFault(f"memory {data}: {'; '.join(undone)}")
    if sweep.overdue:
        raise GateFailed(f"{sweep.overdue} revocations had waited for more than 48 hours; they are done now")


@command.command("export", short_help="Export all that is remembered of a user.")
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


@command.command("import", short_help="Take in an export.")
@click.argument("package", type=click.Path(path_type=Path))
@data_option
def import_(package: Path, data: Path) -> None:
    """Take in an export, a directory or a zip file, of a user who is not known here.

    \b
    memfin memory import exports/alice --data other

    Everything in it is checked before anything is written.
    """
    if not package.exists():  # checked before a store is made for it
        raise UsageError(f"{package}: No such file or directory")
    with _store(data, create=True) as store:
        imported = store.import_package(package)
    note(f"user {imported.user_id}: {imported.files} files imported")


@command.command("import-items", short_help="Take in the memories of mem0, LangMem or LangGraph.")
@click.argument("file", type=click.Path(path_type=Path))
@data_option
@click.option("--user", required=True, help="User whose memories are taken in.")
@click.option("--from-user", "name", metavar="NAME", help="The user's name in FILE.  [default: as --user]")
@click.option(
    "--kind",
    type=click.Choice(get_args(ItemKind)),
    default="note",
    show_default=True,
    help="Kind of the items.",
)
def import_items(file: Path, data: Path, user: str, name: str | None, kind: ItemKind) -> None:
    """Take in a user's memories from FILE: JSON or JSON Lines of mem0 or of a LangGraph store.

    \b
    memfin memory import-items memories.json --user alice --data data

    Needs the user's consent to save_to_profile. Memories of others are left out, and those that are known are
    not added again. Sensitive and unreadable ones are listed as FILE: number: reason, without their words.
    Exit code 0: all are in. 1: some are not. 2: none can be taken in, and nothing was written.
    """
    with _store(data) as store:
        done = read_items(store, user, file, kind=kind, name=name)
    for number, reason in done.left:
        click.echo(one_line(f"{file}: {number}: {reason}"), err=True)
    counts = (
        f"{counted(done.added, 'item')} added, {done.known} known before, {done.of_others} of other users"
    )
    if done.left:
        raise GateFailed(f"user {user}: {counts}; {len(done.left)} of {file} not taken in")
    note(f"user {user}: {counts}")


@command.command("verify", short_help="Compare an export with its checksums.")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), help="Ignored; accepted for consistency.")
def verify(package: Path, data: Path | None) -> None:
    """Compare every byte of an export, a directory or a zip file, with its manifest.

    \b
    memfin memory verify exports/alice

    Exit code 0: all is as it was exported. 1: something differs, listed as file: what.
    """
    del data
    verified = verify_package(package)
    for each in verified.discrepancies:
        click.echo(str(each))
    if verified.discrepancies or verified.manifest is None:
        raise GateFailed(f"{package}: {counted(len(verified.discrepancies), 'difference')}")
    made = verified.manifest
    note(f"{package}: as exported at {made.exported_at}: user {made.user_id}, {len(made.files)} files")


@command.command("delete", short_help="Remove an account for good.")
@click.argument("user")
@data_option
@click.option("--yes", is_flag=True, help="Confirm: a deletion cannot be undone.")
def delete(user: str, data: Path, *, yes: bool) -> None:
    """Remove an account for good: all its data and its tokens; a stub with two fields stays.

    \b
    memfin memory delete alice --yes
    """
    if not yes:
        raise UsageError(
            f"deleting user {user} cannot be undone; pass --yes to confirm; consider "
            f"`memfin memory export {user}` first"
        )
    with _store(data) as store:
        tokens = store.despite_full_disk(lambda: TokenFile(data / TOKENS_FILE).forget_user(user))
        try:
            deleted_at = store.delete_user(user).deleted_at
        except NotFound:
            if not tokens:
                raise
            note(f"user {user}: nothing was saved; {tokens} tokens revoked")
            return
    note(f"user {user} deleted at {deleted_at.isoformat(timespec='seconds')}; {tokens} tokens revoked")


@command.command("mcp", short_help="Serve a user's memory to an MCP client.")
@data_option
@click.option("--user", required=True, help="User whose memory is served; a model cannot name another one.")
@click.option(
    "--route",
    type=click.Choice(get_args(Route)),
    help="Kind of task; only what it may read is seen and written.  [default: all]",
)
@click.option("--thread", metavar="ID", help="Thread whose items are seen and written, too.")
def mcp(data: Path, user: str, route: Route | None, thread: str | None) -> None:
    """Serve a user's memory to an MCP client on stdin and stdout: remember, search, update and forget.

    \b
    memfin memory mcp --data data --user alice

    The client starts the command, with an absolute path, as by this entry of its configuration:

    \b
    {"mcpServers": {"memory": {"command": "memfin",
      "args": ["memory", "mcp", "--data", "/path/to/data", "--user", "alice"]}}}

    What the consent of the user does not allow is refused. Needs pip install 'memfin[mcp]'.
    """
    from memfin.cli.mcp import check_mcp, serve_mcp  # noqa: PLC0415 - no other command needs the protocol

    check_mcp("memfin memory mcp")
    from memfin.web.memory_server import MemoryServer  # noqa: PLC0415 - needs the extra

    with _store(data) as store:
        server = MemoryServer(MemoryTools(store, user, route=route, thread_id=thread))
        note(f"serving the memory of {user} to an MCP client on stdin and stdout")
        serve_mcp(server.run)


@command.group("token", short_help="Make and revoke the tokens of the service.")
def token() -> None:
    """Make and revoke the tokens of the memory service; each acts for one user.

    \b
    memfin memory token add alice
    memfin memory token list
    memfin memory token revoke 3f9a0c51d2b7
    """


@token.command("add", short_help="Make a token for a user and print it, this once.")
@click.argument("user")
@data_option
def add(user: str, data: Path) -> None:
    """Make a token for a user and print it, this once; only its hash is kept.

    \b
    memfin memory token add alice --data data
    """
    made, shown = TokenFile(data / TOKENS_FILE).add(user)
    click.echo(shown)
    note(f"token {made.token_id} acts for user {user}; it is not shown again")


@token.command("list")
@data_option
def list_(data: Path) -> None:
    """List tokens: id, user, when it was made.

    \b
    memfin memory token list --data data
    """
    for each in TokenFile(data / TOKENS_FILE).all():
        click.echo(f"{each.token_id}  {each.user_id}  {each.created_at.isoformat(timespec='seconds')}")


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@data_option
def revoke(token_id: str, data: Path) -> None:
    """Revoke a token; a running service refuses it from then on.

    \b
    memfin memory token revoke 3f9a0c51d2b7 --data data
    """
    if not TokenFile(data / TOKENS_FILE).revoke(token_id):
        raise UsageError(f"token {token_id}: no such token; memfin memory token list shows all")
    note(f"token {token_id} revoked")


def _store(data: Path, *, create: bool = False, thresholds: Path | None = None) -> MemoryStore:
    """Return the open store; a directory without one is a mistake, not an empty store."""
    read = None if thresholds is None else load_thresholds(thresholds)
    paths = Paths(data)
    if not create and not data.is_dir():
        raise UsageError(
            f"{data}: no such directory; pass the directory of the memory layer's data with --data"
        )
    if not create and not any(each.exists() for each in (paths.state, paths.consents, data / TOKENS_FILE)):
        raise UsageError(
            f"{data}: holds no data of the memory layer; pass the directory that does with --data"
        )
    return MemoryStore(data, thresholds=read)
