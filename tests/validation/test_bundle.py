"""Archives of evidence bundles: reproducible, checked to the last byte, safe against hostile ones."""

import hashlib
import random
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.validation import bundle
from memfin.validation.bundle import MANIFEST, extract_bundle, write_bundle

CONTENTS = {"run/rows.jsonl": b'{"a": 1}\n' * 300, "run/empty.json": b"", "page.html": "页".encode()}


def written(path: Path) -> Path:
    write_bundle(path, CONTENTS, run_id="r1", version="1.0", missing=["labels: none"])
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return written(tmp_path / "b.zip")


def problems(path: Path) -> list[str]:
    """Return what extraction finds, the refusal of an archive included."""
    out = path.parent / f"out-{random.random()}"
    out.mkdir()
    try:
        return extract_bundle(path, out)[1]
    except UsageError as problem:
        return [str(problem)]


def sealed(path: Path) -> Path:
    """Give a changed archive the checksum that a bundle of its bytes has, as a forger would."""
    data = path.read_bytes()[:-64]
    path.write_bytes(data + hashlib.sha256(data).hexdigest().encode())
    return path


EMPTY = b'{"format": 1, "run_id": "r", "memfin_version": "1", "files": []}'


def forged(path: Path, entries: Mapping[Any, bytes] | None = None, manifest: bytes = EMPTY) -> Path:
    """Write an archive like a bundle with other entries, and a valid checksum."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in (entries or {}).items():
            archive.writestr(entry, data)
        archive.writestr(MANIFEST, manifest)
        archive.comment = b"memfin-bundle sha256:" + b"0" * 64
    return sealed(path)


def test_the_same_contents_give_the_same_bytes_and_come_back(tmp_path: Path, made: Path) -> None:
    assert written(tmp_path / "again.zip").read_bytes() == made.read_bytes()
    assert zipfile.ZipFile(made).testzip() is None  # any program can open it
    assert {each.date_time for each in zipfile.ZipFile(made).infolist()} == {(1980, 1, 1, 0, 0, 0)}
    (tmp_path / "out").mkdir()
    manifest, found = extract_bundle(made, tmp_path / "out")
    assert (found, manifest.run_id, manifest.missing) == ([], "r1", ["labels: none"])
    assert {each.name: (tmp_path / "out" / each.name).read_bytes() for each in manifest.files} == CONTENTS
    assert [each.sha256 for each in manifest.files if not each.bytes] == [hashlib.sha256().hexdigest()]


def test_the_files_of_a_directory_are_streamed(tmp_path: Path, made: Path) -> None:
    for number, (_, data) in enumerate(CONTENTS.items()):
        (tmp_path / str(number)).write_bytes(data)
    contents = {name: tmp_path / str(number) for number, name in enumerate(CONTENTS)}
    write_bundle(tmp_path / "c.zip", contents, run_id="r1", version="1.0", missing=["labels: none"])
    assert (tmp_path / "c.zip").read_bytes() == made.read_bytes()


def test_a_file_that_exists_is_kept_unless_forced(made: Path) -> None:
    with pytest.raises(UsageError, match="exists already; --force"):
        written(made)
    with pytest.raises(UsageError, match="there is no directory"):
        written(made.parent / "absent" / "b.zip")
    before = made.read_bytes()
    write_bundle(made, {}, run_id="r2", version="1.0", missing=[], force=True)
    assert made.read_bytes() != before
    assert [each.name for each in made.parent.iterdir()] == [made.name]


def test_flipped_bytes_are_found(made: Path) -> None:
    data = made.read_bytes()
    for place in {*range(0, len(data), 4), *range(len(data) - 100, len(data))}:
        made.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert problems(made), place


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_cannot_be_read(made: Path, share: float) -> None:
    data = made.read_bytes()
    made.write_bytes(data[: int(share * len(data))])
    assert "is no bundle of memfin, or is truncated" in problems(made)[0]


def test_changes_with_a_valid_checksum_are_named(tmp_path: Path) -> None:
    entry = b'[{"name": "a", "bytes": 1, "sha256": "%s"}]' % hashlib.sha256(b"x").hexdigest().encode()

    def archive(**files: bytes) -> list[str]:
        manifest = EMPTY.replace(b"[]", entry)
        return problems(forged(tmp_path / "f.zip", files, manifest))

    assert archive(a=b"x") == []
    assert archive() == ["a: is missing or unreadable"]
    assert archive(a=b"x", b=b"y") == ["b: was added: the manifest does not list it"]
    assert archive(a=b"y")[0].startswith("a: was changed: its SHA-256 is ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../a", "name that no bundle has"),
        ("/etc/a", "name that no bundle has"),
        ("a/../../b", "name that no bundle has"),
        ("C:\\a", "name that no bundle has"),
        (".hidden", "name that no bundle has"),
        ("a/", "name that no bundle has"),
        ("a\x1b[31m", "name that no bundle has"),
        (MANIFEST.lower(), "occurs twice"),
    ],
)
def test_hostile_names_are_refused(tmp_path: Path, name: str, words: str) -> None:
    path = forged(tmp_path / "f.zip", {name: b"x"})
    assert words in problems(path)[0]
    assert {each.name for each in tmp_path.iterdir() if not each.name.startswith("out-")} == {"f.zip"}


def test_links_and_duplicates_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = forged(tmp_path / "l.zip", {link: b"/etc/passwd"})
    assert "'link' is a link or another special file" in problems(path)[0]
    with pytest.warns(UserWarning, match="Duplicate"):
        forged(path, {zipfile.ZipInfo("a"): b"x", "a": b"y"})
    assert "'a' occurs twice" in problems(path)[0]


def test_encrypted_entries_are_refused(made: Path) -> None:
    data = bytearray(made.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(signature), bytes(data)):
            data[found.start() + flags] |= 1
    made.write_bytes(data)
    assert "is encrypted" in problems(sealed(made))[0]


def test_bytes_between_entries_are_refused(made: Path) -> None:
    data = made.read_bytes()
    made.write_bytes(b"hidden" + data)
    assert "bytes in front that belong to no file" in problems(sealed(made))[0]
    place = data.index(b"PK\x01\x02")
    hidden = bytearray(data[:place] + b"hidden" + data[place:])
    struct.pack_into("<I", hidden, len(hidden) - 22 - 85 + 16, place + 6)  # the place of the list
    made.write_bytes(hidden)
    assert "bytes behind the last file that belong to none" in problems(sealed(made))[0]


def test_a_wrong_crc_is_named(made: Path) -> None:
    data = bytearray(made.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + 16] ^= 1
    made.write_bytes(data)
    found = problems(sealed(made))
    assert found[0].startswith("page.html: cannot be read: Bad CRC-32")
    assert "page.html: is missing or unreadable" in found[1] or "was changed" in found[1]


def test_bombs_are_refused_by_declared_and_by_real_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FREE_BYTES", 1 << 20)
    path = forged(tmp_path / "bomb.zip", {"a": bytes(8 << 20)})
    assert "no bundle is so dense" in problems(path)[0]
    # The list says one byte: no more than that is written.
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 1)
    path.write_bytes(data)
    found = problems(sealed(path))
    assert found[0].startswith("a: cannot be read: Bad CRC-32")
    assert sum(each.stat().st_size for out in tmp_path.glob("out-*") for each in out.iterdir()) < 1000


def test_long_lists_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILES", 3)
    path = forged(tmp_path / "l.zip", {str(each): b"" for each in range(9)})
    assert "10 files, a list of 482 bytes; a bundle has at most 3" in problems(path)[0]
    with pytest.raises(UsageError, match="at most 3"):
        write_bundle(
            tmp_path / "m.zip",
            {str(each): b"" for each in range(4)},
            run_id="r",
            version="1",
            missing=[],
        )
    assert not (tmp_path / "m.zip").exists()


@pytest.mark.parametrize("manifest", [b"[1]", b"\xff", b'{"format": 2, "run_id": "r"}', b"[" * 100_000])
def test_a_broken_manifest_is_one_line(tmp_path: Path, manifest: bytes) -> None:
    path = forged(tmp_path / "f.zip", manifest=manifest)
    assert "MANIFEST.json is not that of a bundle" in problems(path)[0]
