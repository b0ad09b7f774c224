"""Packages are whole to the last byte or say where they are not; what strangers pack does no harm."""

import hashlib
import io
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.errors import UsageError
from memfin.memory.package import (
    _PATH,
    MANIFEST,
    decode_manifest,
    encode_manifest,
    manifest_of,
    verify_package,
    zipped,
)
from tests.support import each_case

FILES = {
    "consents/alice.yaml": b"version: 1\n",
    "user_contexts/_profile/ctx_1.json": b'{"language_preference":"zh"}',
    "user_contexts/_thread/thr_1/ctx_2.json": b"{}",
    "persona_drift/drift_1.json": b"",
}
WHOLE = FILES | {MANIFEST: encode_manifest(manifest_of("alice", "2026-05-16T00:00:00Z", FILES))}

REPACKED = "the archive: not byte for byte as an export writes it; the files in it are"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for path, data in WHOLE.items():
        (tmp_path / "alice" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "alice" / path).write_bytes(data)
    return tmp_path / "alice"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "alice.zip"
    path.write_bytes(zipped("alice", WHOLE))
    return path


def problems(path: Path) -> list[str]:
    return [str(each) for each in verify_package(path).discrepancies]


def test_a_package_is_whole_as_directory_as_the_one_around_it_and_as_archive(
    package: Path, archive: Path
) -> None:
    assert problems(package) == []
    assert problems(archive) == []
    archive.unlink()
    assert problems(package.parent) == []


def test_the_manifest_is_yaml_that_names_every_file() -> None:
    read = yaml.safe_load(WHOLE[MANIFEST])
    assert read["schema_version"] == "1.0"
    assert read["user_id"] == "alice"
    assert [(each["path"], each["size"]) for each in read["files"]] == sorted(
        (path, len(data)) for path, data in FILES.items()
    )
    assert yaml.safe_load(encode_manifest(manifest_of("a", "2026-05-16T00:00:00Z", {})))["files"] == []


def test_every_changed_byte_of_every_file_is_found(package: Path) -> None:
    for path, data in WHOLE.items():
        for at in range(len(data)):
            for flip in (0x01, 0x80):
                changed = bytearray(data)
                changed[at] ^= flip
                (package / path).write_bytes(changed)
                assert [each.path for each in verify_package(package).discrepancies] == [path]
        for other in (data + b"\n", data[:-1] if data else b"x"):
            (package / path).write_bytes(other)
            assert [each.path for each in verify_package(package).discrepancies] == [path]
        (package / path).write_bytes(data)
    assert problems(package) == []


def test_every_changed_byte_of_the_archive_is_found(archive: Path) -> None:
    data = archive.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x01
        archive.write_bytes(changed)
        try:
            assert problems(archive), at
        except UsageError as problem:
            assert "alice.zip" in str(problem)  # noqa: PT017 - either is a finding
    archive.write_bytes(b"x" + data)
    assert problems(archive) == [REPACKED]


def test_missing_and_added_files_are_found(package: Path) -> None:
    (package / "consents/alice.yaml").unlink()
    (package / "consents/bob.yaml").write_bytes(b"")
    (package / "with space").write_bytes(b"")
    (package / os.fsdecode(b"\xff\n")).write_bytes(b"")
    (package / "consents/link").symlink_to("/etc/passwd")
    (package / "away").symlink_to("/etc", target_is_directory=True)
    os.mkfifo(package / "persona_drift" / "pipe")
    assert problems(package) == [
        "away: added: neither a file nor a directory of a package",
        "consents/alice.yaml: missing",
        "consents/bob.yaml: added: the manifest does not list it",
        "consents/link: added: neither a file nor a directory of a package",
        "persona_drift/pipe: added: neither a file nor a directory of a package",
        "with space: added: a name that no export writes",
        "⟨U+DCFF⟩⟨U+000A⟩: added: a name that no export writes",
    ]


def test_a_file_in_the_place_of_a_link_is_not_followed(package: Path) -> None:
    (package / "consents/alice.yaml").rename(package.parent / "elsewhere")
    (package / "consents/alice.yaml").symlink_to(package.parent / "elsewhere")
    assert problems(package) == [
        "consents/alice.yaml: added: neither a file nor a directory of a package",
        "consents/alice.yaml: missing",
    ]


@each_case(
    "damage",
    [
        lambda text: text.replace(b"1.0", b"2.0", 1),
        lambda text: text.replace(b"alice", b"al ice", 1),
        lambda text: text.replace(b"size: 0", b"size: 00"),
        lambda text: text.replace(b"files:", b"files: []"),
        lambda text: text.replace(b"consents/alice.yaml", b"../consents/alice.yaml"),
        lambda text: text.replace(b"consents/alice.yaml", b"user_contexts/x/ali.yaml"),
        lambda text: text.replace(b"consents/alice.yaml", b"manifest.yaml"),
        lambda text: text + text[text.index(b"  - path") :],
        lambda text: text + b"extra: 1\n",
        lambda text: b"",
        lambda text: b"a: &a [x]\nb: *a\n",
        lambda text: b"[" * 1_000_000,
    ],
    ids=[
        "version",
        "user",
        "number",
        "empty-list",
        "traversal",
        "order",
        "itself",
        "twice",
        "extra",
        "nothing",
        "alias",
        "deep",
    ],
)
def test_a_manifest_that_was_rewritten_with_a_right_checksum_is_refused(
    damage: Callable[[bytes], bytes],
) -> None:
    body = damage(WHOLE[MANIFEST][: WHOLE[MANIFEST].rindex(b"#")])
    data = body + f"# sha256 of the lines above: {hashlib.sha256(body).hexdigest()}\n".encode()
    with pytest.raises(UsageError, match=r"manifest\.yaml"):
        decode_manifest(data)


@given(
    st.dictionaries(
        st.from_regex(r"\A[a-z_]{1,5}(/[a-zA-Z0-9][a-z.-]{0,4}){0,3}\Z").filter(_PATH.fullmatch),
        st.binary(max_size=9),
        max_size=5,
    ).filter(lambda files: len({path.casefold() for path in files} - {MANIFEST}) == len(files))
)
@settings(max_examples=50)
def test_a_manifest_reads_as_it_was_written(files: dict[str, bytes]) -> None:
    manifest = manifest_of("alice", "2026-05-16T00:00:00Z", files)
    assert decode_manifest(encode_manifest(manifest)) == manifest
    assert yaml.safe_load(encode_manifest(manifest))["files"] == [
        {"path": entry.path, "size": entry.size, "sha256": entry.sha256} for entry in manifest.files
    ]


@each_case(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/..",
        ".hidden",
        "a\\b",
        "a b",
        "a\0b",
        "a\n",
        "c:x",
        "/".join("a" * 9),
    ],
)
def test_paths_that_lead_elsewhere_are_no_package_paths(path: str) -> None:
    assert not _PATH.fullmatch(path)


def hostile() -> Iterator[tuple[str, list[tuple[zipfile.ZipInfo, bytes]], str]]:
    def info(name: str, mode: int = 0) -> zipfile.ZipInfo:
        made = zipfile.ZipInfo(name)
        made.external_attr = mode << 16
        return made

    own = [(info(f"alice/{path}"), data) for path, data in WHOLE.items()]
    yield "traversal", [*own, (info("alice/../../evil"), b"x")], "../../evil"
    yield "outside", [*own, (info("evil"), b"x")], "evil: added"
    yield "absolute", [(info("/etc/passwd"), b"x"), *own], "/etc/passwd"
    yield "backslash", [*own, (info("alice\\..\\evil"), b"x")], "evil"
    yield (
        "link",
        [*own, (info("alice/consents/l", stat.S_IFLNK | 0o777), b"/etc/passwd")],
        "consents/l: added",
    )
    yield "device", [*own, (info("alice/dev", stat.S_IFCHR | 0o666), b"")], "dev: added"
    yield "added", [*own, (info("alice/consents/x.yaml"), b"")], "consents/x.yaml: added"
    yield "full-directory", [*own, (info("alice/consents/"), b"x")], "consents/: added"
    yield "missing", own[1:], "missing"
    yield "no-manifest", own[:-1], "manifest.yaml: missing"


@pytest.mark.parametrize(
    ("entries", "named"), [case[1:] for case in hostile()], ids=[case[0] for case in hostile()]
)
def test_hostile_archives_are_found_out(
    tmp_path: Path, entries: list[tuple[zipfile.ZipInfo, bytes]], named: str
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        for info, data in entries:
            file.writestr(info, data)
    assert any(named in each for each in problems(path))


def test_an_archive_with_a_file_twice_or_too_many_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("alice/a", b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("alice/a", b"")
    with pytest.raises(UsageError, match="twice"):
        verify_package(path)
    monkeypatch.setattr("memfin.memory.package.MAX_FILES", 5)
    with zipfile.ZipFile(path, "w") as file:
        for number in range(6):
            file.writestr(f"alice/{number}", b"")
    with pytest.raises(UsageError, match="an export has at most"):
        verify_package(path)


def test_a_bomb_is_read_no_further_than_the_manifest_says(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in WHOLE.items():
            file.writestr(f"alice/{name}", data)
        with file.open("alice/bomb", "w") as bomb:
            for _ in range(64):
                bomb.write(bytes(1 << 20))
    assert problems(path) == ["bomb: added: the manifest does not list it"]
    manifest = manifest_of("alice", "2026-05-16T00:00:00Z", {"a": b"x"})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"alice/{MANIFEST}", encode_manifest(manifest))
        file.writestr("alice/a", bytes(1 << 24))
    assert problems(path) == ["a: changed: longer than the 1 bytes listed"]
    huge = manifest.replace(files=(manifest.files[0].replace(size=1 << 40),))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"alice/{MANIFEST}", encode_manifest(huge))
        file.writestr("alice/a", b"x")
    assert "a package has at most" in problems(path)[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"alice/{MANIFEST}", bytes(1 << 25))
    assert "longer than" in problems(path)[0]


def test_archives_that_lie_about_themselves_are_one_line(archive: Path) -> None:
    data = archive.read_bytes()
    end = data.rindex(b"PK\x05\x06")
    lies = {
        "list of files is too long": data[: end + 12] + b"\xff\xff\xff\x7f" + data[end + 16 :],
        "neither a directory nor a zip": data[:end],
        "not a zip archive": data[: end + 12] + b"\x05\0\0\0" + data[end + 16 :],
    }
    first = data.index(b"PK\x01\x02")
    lies["encrypted"] = data[: first + 8] + b"\x01" + data[first + 9 :]
    for message, lie in lies.items():
        archive.write_bytes(lie)
        with pytest.raises(UsageError, match=message):
            verify_package(archive)


def test_files_that_are_too_large_to_be_an_export_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.zip").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="an export has at most"):
        verify_package(tmp_path / "x.zip")


def test_what_is_no_package_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        verify_package(tmp_path / "none")
    with pytest.raises(UsageError, match=r"it has no manifest\.yaml"):
        verify_package(tmp_path)
    (tmp_path / "empty.zip").touch()
    with pytest.raises(UsageError, match="neither a directory nor a zip archive"):
        verify_package(tmp_path / "empty.zip")


def test_the_same_files_make_the_same_archive() -> None:
    assert zipped("alice", WHOLE) == zipped("alice", dict(reversed(WHOLE.items())))
    with zipfile.ZipFile(io.BytesIO(zipped("alice", WHOLE))) as file:
        assert {name: file.read(name) for name in file.namelist()} == {
            f"alice/{path}": data for path, data in WHOLE.items()
        }


def test_an_archive_that_somebody_packed_again_still_has_its_files(package: Path, tmp_path: Path) -> None:
    made = shutil.make_archive(str(tmp_path / "again"), "zip", package.parent, "alice")
    assert problems(Path(made)) == [REPACKED]


def test_a_pipe_is_no_package_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a directory nor a zip archive"):
        verify_package(tmp_path / "pipe")
