"""``memfin memory token``: who may use the memory service."""

from pathlib import Path

import click

from memfin.errors import UsageError
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile

_data = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
    show_default=True,
    help="Directory of the memory layer's data.",
)


@click.group("token")
def token() -> None:
    """Make and take back the tokens of the memory service; each acts for one user.

    \b
    memfin memory token add alice
    memfin memory token list
    memfin memory token revoke 3f9a0c51d2b7
    """


@token.command("add")
@click.argument("user")
@_data
def add(user: str, data: Path) -> None:
    """Make a token for a user and print it, this once; only its hash is kept.

    \b
    memfin memory token add alice --data data
    """
    made, shown = TokenFile(data / TOKENS_FILE).add(user)
    click.echo(shown)
    click.echo(f"memfin: token {made.token_id} acts for user {user}; it is not shown again", err=True)


@token.command("list")
@_data
def list_(data: Path) -> None:
    """List tokens: id, user, when it was made.

    \b
    memfin memory token list --data data
    """
    for each in TokenFile(data / TOKENS_FILE).all():
        click.echo(f"{each.token_id}  {each.user_id}  {each.created_at.isoformat(timespec='seconds')}")


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@_data
def revoke(token_id: str, data: Path) -> None:
    """Take a token back; a running service refuses it from then on.

    \b
    memfin memory token revoke 3f9a0c51d2b7 --data data
    """
    if not TokenFile(data / TOKENS_FILE).revoke(token_id):
        raise UsageError(f"token {token_id}: there is none of that id; memfin memory token list shows all")
    click.echo(f"memfin: token {token_id} taken back", err=True)
