"""Access tokens: shown once, kept as hashes, one user each; a file that only its owner reads."""

import multiprocessing
import stat
from pathlib import Path

import pytest

from memfin.errors import RunFault, UsageError
from memfin.memory.access_tokens import TOKENS_FILE, TokenFile


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / TOKENS_FILE)


def test_a_token_acts_for_its_user_and_for_no_one_else(tokens: TokenFile) -> None:
    _, alice = tokens.add("alice")
    _, bob = tokens.add("bob")
    assert (tokens.user_of(alice), tokens.user_of(bob)) == ("alice", "bob")


def test_what_is_not_exactly_a_token_acts_for_nobody(tokens: TokenFile) -> None:
    token, shown = tokens.add("alice")
    _, other = tokens.add("bob")
    swapped = shown[:-43] + other[-43:]
    last = "A" if shown[-1] != "A" else "B"
    wrong = [
        "",
        "x",
        shown + " ",
        shown[:-1],
        shown[:-1] + last,
        swapped,
        token.token_id,
        "\udcff",
        shown.upper(),
    ]
    assert [tokens.user_of(each) for each in wrong] == [None] * len(wrong)


def test_the_file_holds_no_token_and_is_for_its_owner_alone(tokens: TokenFile, tmp_path: Path) -> None:
    _, shown = tokens.add("alice")
    file = tmp_path / TOKENS_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shown.rsplit("_", 1)[1].encode() not in file.read_bytes()
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".tmp")] == []


def test_a_file_that_others_can_read_is_refused(tokens: TokenFile, tmp_path: Path) -> None:
    _, shown = tokens.add("alice")
    (tmp_path / TOKENS_FILE).chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        TokenFile(tmp_path / TOKENS_FILE).user_of(shown)
    with pytest.raises(UsageError, match="chmod 600"):
        tokens.add("bob")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"tokens": 1}', b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / TOKENS_FILE
    file.touch(0o600)
    file.write_bytes(content)
    for attempt in (lambda: TokenFile(file).add("alice"), lambda: TokenFile(file).all()):
        with pytest.raises(UsageError, match="not a token file"):
            attempt()
    assert file.read_bytes() == content


def test_what_one_process_changes_the_other_sees_at_once(tokens: TokenFile, tmp_path: Path) -> None:
    served = TokenFile(tmp_path / TOKENS_FILE)
    assert not served.exists
    token, shown = tokens.add("alice")
    assert served.user_of(shown) == "alice"
    assert tokens.revoke(token.token_id)
    assert served.user_of(shown) is None
    assert not tokens.revoke(token.token_id)


def test_a_user_who_is_forgotten_leaves_no_trace(tokens: TokenFile, tmp_path: Path) -> None:
    assert tokens.forget_user("alice") == 0
    tokens.add("alice")
    _, bob = tokens.add("bob")
    tokens.add("alice")
    assert tokens.forget_user("alice") == 2
    assert b"alice" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert tokens.user_of(bob) == "bob"


@pytest.mark.parametrize("user", ["", "a/b", "..", "a b", "é", "x" * 65, "alice\n"])
def test_ids_that_are_none_get_no_token(tokens: TokenFile, user: str) -> None:
    with pytest.raises(UsageError, match="user id"):
        tokens.add(user)
    assert not tokens.exists


def test_a_user_whose_id_differs_only_in_case_gets_no_token(tokens: TokenFile) -> None:
    tokens.add("alice")
    with pytest.raises(UsageError, match="differs only in case"):
        tokens.add("Alice")


def _adds(path: Path, user: str, times: int) -> None:
    for _ in range(times):
        TokenFile(path).add(user)


def test_no_token_is_lost_between_processes(tmp_path: Path) -> None:
    path = tmp_path / TOKENS_FILE
    spawned = multiprocessing.get_context("fork")
    workers = [spawned.Process(target=_adds, args=(path, f"u{number}", 20)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(each.user_id for each in TokenFile(path).all()) == sorted(
        f"u{n}" for n in range(4) for _ in range(20)
    )


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFault, match=r"file"):
        TokenFile(tmp_path / "file" / TOKENS_FILE).add("alice")
    with pytest.raises(RunFault, match=r"file"):
        TokenFile(tmp_path / "file" / TOKENS_FILE).all()
