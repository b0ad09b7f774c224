"""Datasets as files: refusals in one line, digest, look-up of dialogues by id."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from memfin.dataset import SAMPLE, check_dataset_file, digest_dataset
from memfin.errors import UsageError
from memfin.sessions import DatasetIndex

BOM = b"\xef\xbb\xbf"


def line(dialog_id: str | None, text: str = "question") -> bytes:
    turns = [{"role": "user", "text": text}, {"role": "assistant", "text": "x", "turn_tags": {}}]
    return json.dumps({"dialog_id": dialog_id, "profile_gt": {}, "turns": turns}, ensure_ascii=False).encode()


def index_of(path: Path, data: bytes) -> DatasetIndex:
    path.write_bytes(data)
    return DatasetIndex(path)


def question(index: DatasetIndex, dialog_id: str) -> str | None:
    dialog = index.get(dialog_id)
    return None if dialog is None else dialog.turns[0].text


@pytest.mark.parametrize("bom", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \r\n"])
@pytest.mark.parametrize("last_end", [True, False])
def test_index_finds_every_dialogue(tmp_path: Path, bom: bytes, end: bytes, last_end: bool) -> None:
    lines = [line("一", "第一\u2028行"), line("b", "second"), line("c", "third")]
    data = bom + end.join(lines) + (end if last_end else b"")
    index = index_of(tmp_path / "d.jsonl", data)
    assert [question(index, name) for name in ("c", "一", "b", "none")] == [
        "third",
        "第一\u2028行",
        "second",
        None,
    ]
    assert len(index) == 3


def test_index_finds_dialogues_behind_leading_blank_lines_and_mark(tmp_path: Path) -> None:
    index = index_of(tmp_path / "d.jsonl", BOM + b"\r\n\n" + line("a") + b"\n")
    assert question(index, "a") == "question"


def test_index_finds_dialogues_between_lines_that_are_skipped(tmp_path: Path) -> None:
    too_long = b'"' + b"x" * (17 * 1024 * 1024) + b'"'
    data = b"\n".join([b"nonsense", line("a", "A"), too_long, b"", b"[]", line("b", "B")])
    index = index_of(tmp_path / "d.jsonl", data)
    assert [question(index, "a"), question(index, "b"), len(index)] == ["A", "B", 2]


def test_index_keeps_the_first_of_duplicates(tmp_path: Path) -> None:
    index = index_of(tmp_path / "d.jsonl", line("a", "first") + b"\n" + line("a", "second") + b"\n")
    assert question(index, "a") == "first"


def test_index_names_dialogues_without_id_after_their_line(tmp_path: Path) -> None:
    index = index_of(tmp_path / "d.jsonl", b"\n" + line(None, "who am I") + b"\n")
    assert question(index, "line_2") == "who am I"
    dialog = index.get("line_2")
    assert dialog is not None
    assert dialog.dialog_id == "line_2"


def test_index_reads_the_sample() -> None:
    index = DatasetIndex(SAMPLE)
    ids = [json.loads(text)["dialog_id"] for text in SAMPLE.read_text("utf-8").splitlines()]
    assert len(index) == len(ids)
    assert [dialog.dialog_id for name in ids if (dialog := index.get(name))] == ids


def test_a_usable_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"x")
    check_dataset_file(path)


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as refused:
        check_dataset_file(path)
    with pytest.raises(UsageError):
        DatasetIndex(path)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert message.startswith("dataset ")
    return message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl").endswith("none.jsonl: no such file")


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert "no such file" in refusal(tmp_path / "link")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").touch()
    assert "the file is empty" in refusal(tmp_path / "d.jsonl")


def test_a_pipe_is_refused_without_opening_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")


def test_a_device_is_refused() -> None:
    assert "not a regular file" in refusal(Path("/dev/zero"))


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_bytes(b"x")
    assert "no such file" in refusal(tmp_path / "d.jsonl" / "deeper")


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    assert "too long" in refusal(tmp_path / ("x" * 300))


def test_a_name_with_nul_is_refused() -> None:
    assert refusal(Path("a\0b"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_bytes(b"x")
    (tmp_path / "d.jsonl").chmod(0)
    assert "Permission denied" in refusal(tmp_path / "d.jsonl")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\nb", 2),
        (b"\n\n", 0),
        (b"a\r\nb\r\n", 2),
        (b"\xef\xbb\xbf\r\na\n \t\nb\n\n", 2),
    ],
)
def test_digest_is_that_of_the_bytes_with_the_number_of_lines_that_are_not_blank(
    tmp_path: Path, data: bytes, lines: int
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(data)
    assert digest_dataset(path) == (hashlib.sha256(data).hexdigest(), lines)


def test_digest_does_not_depend_on_how_the_file_falls_into_pieces(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    data = (b"x" * 999_999 + b"\n") * 3 + b" " * 2_000_000 + b"\nend"
    path.write_bytes(data)
    assert digest_dataset(path) == (hashlib.sha256(data).hexdigest(), 4)
