"""Files of labels under races and kills, draws that can be resumed, agreement of readers."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import LabelledReply, LabelMark
from memfin.contracts.validity import LABEL_DRAW
from memfin.errors import UsageError
from memfin.runtime.api import evaluate
from memfin.validation import validate_path
from memfin.validity.corrections import read_run
from memfin.validity.label_plan import MORE
from memfin.validity.labelling import (
    LabelConflict,
    LabelDraw,
    LabelStore,
    agreement,
    by_turn,
    differences,
    open_draw,
)
from tests.support import write_jsonl


def label(turn: int, reader: str = "ann", **values: Any) -> LabelledReply:
    return LabelledReply(id=f"d#{turn}", text="好", dialog_id="d", turn=turn, reader=reader, **values)


# ---- the file


def test_a_label_is_changed_by_its_version_only(tmp_path: Path) -> None:
    store = LabelStore(tmp_path / "labels.jsonl")
    store.save(label(1, compliance="compliant"), "")
    first = store.read()["d", 1, "ann"]
    store.save(label(1, compliance="compliant"), "")  # sent twice
    store.save(label(1, compliance="minor_violation"), first.version)
    second = store.read()["d", 1, "ann"]
    for version in ("", first.version):
        with pytest.raises(LabelConflict) as conflict:
            store.save(label(1, compliance="severe_violation"), version)
        assert conflict.value.stored == second
    store.save(label(1, "bob"), "")
    marks = [LabelMark(start=0, end=1, label="contradiction")]
    store.save(label(2, marks=marks, note="?", unsure=True, probability=0.0), "")
    assert [key[1:] for key in store.read()] == [(1, "ann"), (1, "bob"), (2, "ann")]
    assert list(validate_path(store.path)) == []
    assert "null" not in store.path.read_text("utf-8")
    (tmp_path / "labels.jsonl").unlink()
    with pytest.raises(UsageError, match=r"the label of 'd#1' was removed"):
        store.save(label(1), second.version)


def test_marks_are_within_the_reply(tmp_path: Path) -> None:
    store = LabelStore(tmp_path / "labels.jsonl")
    marks = [LabelMark(start=0, end=1, label="contradiction"), LabelMark(start=1, end=2, label="fx_risk")]
    store.save(label(1, marks=marks), "")
    (finding,) = validate_path(store.path)
    assert str(finding).endswith("labels.jsonl:1: $.marks[1]: its characters are not in the text")


def test_lines_of_others_stay_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b'{"id": "x",  "text": "y", "own": 1}\r\n\n{"id": "z", "text": ""}')
    store = LabelStore(path)
    store.save(label(1), "")
    lines = path.read_bytes().split(b"\n")
    assert lines[:2] == [b'{"id": "x",  "text": "y", "own": 1}', b'{"id": "z", "text": ""}']
    assert len(lines) == 4
    path.write_bytes(path.read_bytes() + b'{"id": 1}\n')
    with pytest.raises(UsageError, match=r"labels.jsonl:4: \$\.id: Expected `str`"):
        store.save(label(2), "")


WRITER = """
import sys
from pathlib import Path
from memfin.validity.labelling import LabelStore
from tests.validity.test_labelling import label
store, reader, turns = LabelStore(Path(sys.argv[1])), sys.argv[2], range(int(sys.argv[3]), int(sys.argv[4]))
sys.stdin.readline()
for turn in turns:
    store.save(label(turn, reader, compliance="compliant"), "")
    print(turn, flush=True)
"""


def writer(path: Path, reader: str, start: int, end: int) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", WRITER, str(path), reader, str(start), str(end)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(*writers: "subprocess.Popen[str]") -> None:
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()


def test_racing_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    writers = [writer(path, "ann", 0, 25), writer(path, "ann", 25, 50), writer(path, "bob", 0, 25)]
    go(*writers)
    ends = [(each.communicate()[0].split()[-1], each.returncode) for each in writers]
    assert ends == [("24", 0), ("49", 0), ("24", 0)]
    expected = {("d", turn, "ann") for turn in range(50)} | {("d", turn, "bob") for turn in range(25)}
    assert set(LabelStore(path).read()) == expected
    assert len(path.read_bytes().splitlines()) == len(expected)


@pytest.mark.parametrize("acknowledged", [1, 20])
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "labels.jsonl"
    with writer(path, "ann", 0, 100_000) as killed:
        go(killed)
        assert killed.stdout is not None
        seen = [int(killed.stdout.readline()) for _ in range(acknowledged)]
        killed.send_signal(signal.SIGKILL)
        seen += map(int, killed.stdout.read().split())
    (tmp_path / f".labels.jsonl.{'0' * 16}.tmp").write_bytes(b"torn")
    store = LabelStore(path)
    assert {turn for _, turn, _ in store.read()}.issuperset(seen)
    assert list(validate_path(path)) == []
    store.save(label(200_000), "")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".labels.jsonl.lock", "labels.jsonl"]


# ---- the draw


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("labelling") / "runs"
    asyncio.run(evaluate(None, runs_dir=str(runs), run_id="r1", limit=8))
    return runs / "r1"


def drawn(run: Path, directory: Path, **options: Any) -> LabelDraw:
    directory.mkdir(exist_ok=True)
    return open_draw(run, LabelStore(directory / "labels.jsonl"), **options)


def test_a_draw_is_repeated_by_its_seed_and_resumed_without_options(run: Path, tmp_path: Path) -> None:
    first = drawn(run, tmp_path / "1", number=20, seed=3)
    assert len(first.turns) == 20
    assert drawn(run, tmp_path / "1") == first == drawn(run, tmp_path / "1", number=20, seed=3)
    assert drawn(run, tmp_path / "2", number=20, seed=3) == first
    assert drawn(run, tmp_path / "3", number=20).turns != first.turns
    assert drawn(run, tmp_path / "1", readers=2) == first.replace(readers=2) == drawn(run, tmp_path / "1")
    for options, words in (
        ({"number": 30}, "--draw 20; go on without --draw"),
        ({"seed": 4}, "--seed 3"),
        ({"more": "unsure"}, "--more none"),
    ):
        with pytest.raises(UsageError, match=words):
            drawn(run, tmp_path / "1", **options)


def test_a_draw_with_an_impossible_probability_is_refused(run: Path, tmp_path: Path) -> None:
    drawn(run, tmp_path / "1", number=5)
    path = tmp_path / "1" / LABEL_DRAW
    draw = json.loads(path.read_text("utf-8"))
    draw["turns"][2]["probability"] = -3
    path.write_text(json.dumps(draw), "utf-8")
    with pytest.raises(UsageError, match=r"label_draw.json: the probability -3 of turn"):
        drawn(run, tmp_path / "1")


def test_a_draw_is_of_these_rows_and_comes_before_the_labels(run: Path, tmp_path: Path) -> None:
    made = drawn(run, tmp_path / "1", number=5)
    path = tmp_path / "1" / LABEL_DRAW
    path.write_text(path.read_text().replace(made.turn_eval_sha256, "0" * 64))
    with pytest.raises(UsageError, match=r"label_draw.json: drawn from other rows"):
        drawn(run, tmp_path / "1")
    path.unlink()
    LabelStore(tmp_path / "1" / "labels.jsonl").save(label(1), "")
    with pytest.raises(UsageError, match=r"it has labels, and there is no label_draw.json beside it"):
        drawn(run, tmp_path / "1")


@pytest.mark.parametrize("more", ["unsure", "detector"])
def test_doubted_or_flagged_turns_are_drawn_more_often(run: Path, tmp_path: Path, more: str) -> None:
    changed = (
        {"unsure": ["compliance"]} if more == "unsure" else {"pred_compliance_label": "severe_violation"}
    )
    copy = shutil.copytree(run, tmp_path / "r1")
    rows = [json.loads(line) for line in (run / "turn_eval.jsonl").read_text("utf-8").splitlines()]
    often = rows[::3]
    plain = {
        "unsure": [],
        "pred_compliance_label": "compliant",
        "constraint_contradiction": 0,
        "forbidden_hits": [],
    }
    write_jsonl(copy / "turn_eval.jsonl", [row | plain | (changed if row in often else {}) for row in rows])
    found = open_draw(copy, LabelStore(copy / "labels.jsonl"), number=12, more=more)  # type: ignore[arg-type]
    names = {(row["dialog_id"], row["turn_pair_id"]) for row in often}
    chances = {((each.dialog_id, each.turn) in names): each.probability for each in found.turns}
    assert chances[True] / chances[False] == pytest.approx(MORE)


def test_labels_of_a_draw_correct_the_run(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "r1")
    store = LabelStore(copy / "labels.jsonl")
    texts = {
        (dialog["dialog_id"], turn["turn_pair_id"]): turn["pred_assistant_text"]
        for dialog in map(json.loads, (run / "dialog_trace.jsonl").read_text("utf-8").splitlines())
        for turn in dialog["turns"]
    }
    for each in open_draw(copy, store, number=12, more="unsure").turns:
        place: dict[str, Any] = {"dialog_id": each.dialog_id, "turn": each.turn, "reader": "ann"}
        text = texts[each.dialog_id, each.turn]
        store.save(
            LabelledReply(
                id=f"{place}", text=text, probability=each.probability, compliance="compliant", **place
            ),
            "",
        )
    assert list(validate_path(copy)) == []
    joined = read_run(copy, [store.path])
    assert (joined.joined, joined.unjoined) == (12, [])


# ---- agreement


def contradictions(reader: str, answers: Iterable[int]) -> list[LabelledReply]:
    return [label(turn, reader, contradiction=answer) for turn, answer in enumerate(answers)]


def test_agreement_is_that_of_the_published_example() -> None:
    """Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, A: alpha is 0.095."""
    meg, owen = (0, 1, 0, 0, 0, 0, 0, 0, 1, 0), (1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    labels = contradictions("meg", meg) + contradictions("owen", owen)
    labels += [*contradictions("adjudicated", owen), label(99, "meg", contradiction=1)]
    (found,) = agreement(labels)
    assert (found.field, found.units, found.observed) == ("contradiction", 10, 0.6)
    assert found.alpha == pytest.approx(1 - 19 * 8 / (2 * 6 * 14))
    assert round(found.alpha or 0, 3) == 0.095
    assert found.kappa == pytest.approx((0.6 - 0.56) / (1 - 0.56))


def test_agreement_is_by_field_over_all_questions_that_both_answered() -> None:
    one = label(1, "a", compliance="compliant", risk_tags={"x": True, "y": False}, forbidden_hits=[])
    other = label(1, "b", risk_tags={"x": True, "y": True, "z": True}, forbidden_hits=["内幕信息"])
    assert differences(by_turn([other, one])["d", 1]) == [
        ("forbidden_hits", "内幕信息"),
        ("risk_tags", "y"),
    ]
    found = {each.field: each for each in agreement([one, other])}
    assert {field: (each.units, each.observed) for field, each in found.items()} == {
        "forbidden_hits": (7, 6 / 7),
        "risk_tags": (2, 0.5),
    }
    assert found["risk_tags"].kappa == 0
    assert found["risk_tags"].kappa_bounds is None  # a single dialogue


def test_the_interval_of_kappa_is_by_dialogue() -> None:
    labels = [
        label(turn, reader, contradiction=answer).replace(dialog_id=f"d{turn}")
        for reader, answers in (("a", (0, 0, 1, 1, 0)), ("b", (0, 0, 1, 0, 0)))
        for turn, answer in enumerate(answers)
    ]
    (found,) = agreement(labels)
    assert found.kappa == pytest.approx((0.8 - 0.56) / 0.44)
    assert found.kappa_bounds is not None
    low, high = found.kappa_bounds
    assert -1 <= low < (found.kappa or 0) < high <= 1
