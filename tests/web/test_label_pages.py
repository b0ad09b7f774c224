"""Labelling pages over HTTP: blindness, forms, conflicts, readers, forged and hostile input."""

import json
from asyncio import timeout
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from memfin.contracts import LabelMark
from memfin.validation import validate_path
from memfin.validity.corrections import read_run
from memfin.web.label.forms import reply_pieces
from tests.web.label_runs import CONSTRAINT, HOSTILE, SECRETS, Form, Labelling, labelling, write_label_run

Fields = list[tuple[str, str]]

WHOLE: Fields = [
    ("compliance", "3"),
    ("contradiction", "0"),
    ("forbidden", "保本保收益"),
    ("forbidden", "内幕信息"),
    ("tags:volatility_risk", "yes"),
    ("tags:<tag>", "no"),
    ("rubric:信息依据", "yes"),
    ("marks", '[{"start": 0, "end": 8, "label": "保本保收益"}]'),
    ("note", 'a "note"\r\n<b>'),
    ("unsure", "yes"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_label_run(tmp_path / "runs" / "r")


@pytest.fixture
async def pages(run: Path, tmp_path: Path) -> AsyncIterator[Labelling]:
    async with labelling(run, tmp_path, number=8, readers=2) as running:
        yield running


def fresh(fields: Fields, version: str = "") -> Fields:
    return [*fields, ("version", version)]


async def test_detectors_and_judge_are_not_shown_before_the_label_is_saved(pages: Labelling) -> None:
    place, other = pages.places()[:2]
    for path in ("/", place, other):
        page = (await pages.get(path)).text
        assert not [secret for secret in SECRETS if secret in page], path
    assert (await pages.post(place, fresh(WHOLE))).status == 303
    shown = (await pages.get(place)).text
    assert [secret for secret in SECRETS if secret not in shown] == ["words-of-the-reference"]
    for path, reader in ((place, "bob"), (other, "ann"), ("/agreement", "bob"), ("/", "bob")):
        page = (await pages.get(path, reader)).text
        assert not [secret for secret in (*SECRETS, "a &#34;note&#34;") if secret in page], (path, reader)
    hidden = await pages.get(place.replace("turns", "adjudicate"), "bob")
    assert (hidden.status, "a &#34;note" in hidden.text) == (403, False)


async def test_a_form_is_saved_whole_and_shown_as_it_was_saved(pages: Labelling) -> None:
    place, drawn = pages.places()[0], pages.draw.turns[0]
    assert Form((await pages.get(place)).text).fields == [("version", ""), ("marks", "[]"), ("note", "")]
    sent = await pages.post(place, fresh(WHOLE))
    assert (sent.status, sent.headers["Location"]) == (303, pages.places()[1])
    (line,) = pages.store.path.read_bytes().splitlines()
    label = json.loads(line)
    assert label == {
        "id": f"{drawn.dialog_id}#{drawn.turn}",
        "text": f"{HOSTILE} {drawn.dialog_id[2]}.{drawn.turn}",
        "user_text": f"问{drawn.turn}",
        "dialog_id": drawn.dialog_id,
        "turn": drawn.turn,
        "probability": drawn.probability,
        "reader": "ann",
        "constraints": [CONSTRAINT, "不用杠杆"],
        "compliance": "severe_violation",
        "contradiction": 1,
        "contradicted_constraints": [CONSTRAINT],
        "forbidden_hits": ["保本保收益", "内幕信息"],
        "risk_tags": {"volatility_risk": True, "<tag>": False},
        "rubric": {"信息依据": True},
        "marks": [{"start": 0, "end": 8, "label": "保本保收益"}],
        "note": 'a "note"\n<b>',
        "unsure": True,
    }
    form = Form((await pages.get(place)).text).fields
    assert {*form} >= {each for each in WHOLE if each[0] not in ("marks", "note")}
    assert (await pages.post(place, form)).status == 303
    assert pages.store.path.read_bytes().splitlines() == [line]
    assert list(validate_path(pages.store.path)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("compliance", "1")], {"compliance": "compliant"}),
        ([("contradiction", "none")], {"contradiction": 0}),
        ([("contradiction", "other")], {"contradiction": 1}),
        ([("forbidden", "none")], {"forbidden_hits": []}),
        ([("tags:<tag>", "yes")], {"risk_tags": {"<tag>": True}}),
        ([("note", "later")], {"note": "later"}),
    ],
)
async def test_a_label_can_be_partial_and_completed_later(
    pages: Labelling, fields: Fields, expected: dict[str, Any]
) -> None:
    place = pages.places()[0]
    assert (await pages.post(place, fresh(fields))).status == 303
    (stored,) = pages.store.read().values()
    names = (
        "compliance",
        "contradiction",
        "forbidden_hits",
        "risk_tags",
        "rubric",
        "marks",
        "note",
        "unsure",
    )
    assert {name: stored.label[name] for name in names if stored.label[name] is not None} == expected
    form = Form((await pages.get(place)).text).fields
    assert set(fields) <= set(form)
    assert (await pages.post(place, [*form, ("unsure", "yes")])).status == 303
    (completed,) = pages.store.read().values()
    assert completed.label == stored.label.replace(unsure=True)


async def test_a_second_tab_does_not_overwrite_a_newer_label(pages: Labelling) -> None:
    place = pages.places()[0]
    tab = Form((await pages.get(place)).text).fields
    assert (await pages.post(place, [*tab, ("compliance", "1"), ("note", "of the first tab")])).status == 303
    refused = await pages.post(place, [*tab, ("compliance", "2"), ("note", "of the second tab")])
    assert refused.status == 409
    for words in ("changed meanwhile", "of the first tab", "of the second tab", "minor violation"):
        assert words in refused.text
    assert [each.label.note for each in pages.store.read().values()] == ["of the first tab"]
    mine = Form(refused.text).fields
    assert ("compliance", "2") in mine
    assert (await pages.post(place, mine)).status == 303
    assert [each.label.compliance for each in pages.store.read().values()] == ["minor_violation"]


async def test_forged_forms_save_nothing(pages: Labelling) -> None:
    place = pages.places()[0]
    port = pages.url.rpartition(":")[2]
    for headers in (
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},  # another server on this machine
        {"Origin": f"http://localhost:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        for path in (place, "/reader", place.replace("turns", "adjudicate")):
            assert (await pages.post(path, fresh(WHOLE), **headers)).status == 403, (path, headers)
    assert (await pages.post(place, fresh(WHOLE), reader="")).status == 403
    assert (await pages.post(place, fresh(WHOLE), Content_Type="text/plain")).status == 415
    assert (await pages.get(place, headers={"Host": "evil.example"})).status == 421
    assert not pages.store.path.exists()
    signed = await pages.post("/reader", [("reader", " 王 芳; a=b ")])
    cookie = signed.headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "%E7%8E%8B%20%E8%8A%B3%3B%20a%3Db"))
    assert "王 芳; a=b" in (await pages.get("/", "%E7%8E%8B%20%E8%8A%B3%3B%20a%3Db")).text
    for name in ("adjudicated", "Adjudicated", "x" * 61):
        assert (await pages.post("/reader", [("reader", name)])).status == 400
        assert (await pages.post(place, fresh(WHOLE), name)).status == 403


@pytest.mark.parametrize(
    "fields",
    [
        [("compliance", "4")],
        [("contradiction", "2")],
        [("contradiction", "none"), ("contradiction", "0")],
        [("forbidden", "none"), ("forbidden", "保本保收益")],
        [("forbidden", "夸")],
        [("marks", "{")],
        [("marks", '[{"start": 0, "end": 999, "label": "保本保收益"}]')],
        [("marks", '[{"start": 3, "end": 3, "label": "保本保收益"}]')],
        [("marks", '[{"start": 0, "end": 3, "label": "own"}]')],
        [("marks", '[{"start": 0, "end": 3, "label": "保本保收益", "kind": "missed"}]')],
    ],
)
async def test_values_that_no_form_has_are_refused(pages: Labelling, fields: Fields) -> None:
    refused = await pages.post(pages.places()[0], fresh(fields))
    assert refused.status == 400
    assert "The form holds values" in refused.text or "Choose either" in refused.text
    assert not pages.store.path.exists()


async def test_a_form_of_many_fields_takes_linear_time(pages: Labelling) -> None:
    many = [(f"{number}", "") for number in range(60_000)]  # a scan per field would take minutes
    async with timeout(10):
        assert (await pages.post(pages.places()[0], fresh([*many, ("compliance", "1")]))).status == 303


async def test_hostile_replies_stay_text(pages: Labelling) -> None:
    pages.store.save(  # a hostile label of another program
        (await _saved(pages)).replace(reader="bob", note="<script>alert(3)</script>", compliance="compliant"),
        "",
    )
    place = pages.places()[0]
    for path in ("/", place, "/agreement", place.replace("turns", "adjudicate")):
        page = await pages.get(path)
        assert page.status == 200
        assert "default-src 'none'; script-src 'self'" in page.headers["Content-Security-Policy"]
        for markup in ("<script>", "<img", "<b>", "<i>", "<tag>", "\u202e", 'onerror="'):
            assert markup not in page.text, (path, markup)
    text = "".join(f"{piece.text}" for piece in reply_pieces(HOSTILE))
    assert "⟨U+202E⟩😀" in text
    for piece in reply_pieces(HOSTILE):
        if not piece.spelt:
            assert HOSTILE[piece.at : piece.at + len(piece.text)] == piece.text


async def _saved(pages: Labelling) -> Any:
    assert (await pages.post(pages.places()[0], fresh(WHOLE))).status == 303
    (stored,) = pages.store.read().values()
    return stored.label


async def test_labelling_goes_on_where_it_was_left(pages: Labelling) -> None:
    places = pages.places()
    assert "0 of 8 labelled" in (await pages.get("/")).text
    for at in (0, 1, 3):
        assert (await pages.post(places[at], fresh(WHOLE[:2]))).status == 303
    assert (await pages.get("/next")).headers["Location"] == places[2]
    assert (await pages.get("/next", "bob")).headers["Location"] == places[0]
    assert (await pages.post(places[2], fresh([]))).headers["Location"] == places[4]  # skipped
    assert (await pages.post(places[7], fresh(WHOLE))).headers["Location"] == places[2]
    assert "4 of 8 labelled" in (await pages.get("/")).text
    page = (await pages.get(places[3])).text
    assert f'rel="prev" href="{places[2]}"' in page
    assert f'rel="next" href="{places[4]}"' in page
    assert (await pages.get(places[0], "")).headers["Location"] == "/"
    assert "Who labels?" in (await pages.get("/", "")).text


async def test_readers_of_single_labels_share_the_turns(run: Path, tmp_path: Path) -> None:
    async with labelling(run, tmp_path, number=3) as pages:
        places = pages.places()
        assert (await pages.post(places[0], fresh(WHOLE))).headers["Location"] == places[1]
        assert (await pages.post(places[1], fresh(WHOLE), "bob")).headers["Location"] == places[2]
        assert "labelled by another reader" in (await pages.get("/")).text
        assert (await pages.post(places[2], fresh(WHOLE))).headers["Location"] == "/"
        assert "All turns of the draw are labelled" in (await pages.get("/")).text


async def test_findings_are_marked_and_turns_picked_by_hand_have_probability_zero(
    pages: Labelling, run: Path
) -> None:
    drawn = set(pages.places())
    picked = next(
        place
        for at in range(1, 5)
        if (place := f"/turns/d%2F{pages.draw.turns[0].dialog_id[2]}%20%3Ci%3E/{at}") not in drawn
    )
    dialog, number = picked.split("/")[2:]
    seen = f"http://127.0.0.1:8767/runs/r/dialogs/{dialog}?q=x#t{number}"
    for address in (seen, f" {unquote(dialog)}#t{number}"):
        opened = await pages.post("/open", [("address", address)])
        assert (opened.status, opened.headers["Location"]) == (303, picked)
    for address in ("", "/turns/d/1", "d#t"):
        assert (await pages.post("/open", [("address", address)])).status == 400
    page = (await pages.get(picked)).text
    assert "This turn was not drawn" in page
    assert SECRETS[0] in page
    sent = await pages.post(picked, fresh([("alarm", "1"), ("missed", "<tag>")]))
    assert sent.headers["Location"] == picked
    (stored,) = pages.store.read().values()
    assert (stored.label.probability, stored.label.compliance) == (0, None)
    assert stored.label.marks == [
        LabelMark(start=9, end=12, label="contradiction", kind="false_alarm"),
        LabelMark(start=0, end=len(stored.label.text), label="<tag>", kind="missed"),
    ]
    assert {("alarm", "1"), ("missed", "<tag>")} <= set(Form((await pages.get(picked)).text).fields)
    await _saved_all(pages)
    joined = read_run(run, [pages.store.path])
    assert (joined.joined, list(joined.unjoined)) == (8, [])
    assert list(validate_path(pages.store.path)) == []
    assert picked in (await pages.get("/")).text
    assert (await pages.get("/turns/d/1")).status == (await pages.get("/turns/none/99999")).status == 404


async def _saved_all(pages: Labelling) -> None:
    for place in pages.places():
        assert (await pages.post(place, fresh(WHOLE))).status == 303


async def test_disagreements_of_two_readers_are_decided(pages: Labelling, run: Path) -> None:
    first, second = pages.places()[:2]
    for place in (first, second):
        assert (await pages.post(place, fresh(WHOLE))).status == 303
    for place, changed in ((first, [("compliance", "1")]), (second, [])):
        assert (await pages.post(place, fresh([*changed, *WHOLE[len(changed) :]]), "bob")).status == 303
    page = unescape((await pages.get("/agreement")).text)
    decide = first.replace("turns", "adjudicate")
    assert decide in page
    assert second.replace("turns", "adjudicate") not in page
    assert "50.0 %" in page
    with pytest.raises(Exception, match="adjudicated"):
        read_run(run, [pages.store.path])
    page = (await pages.get(decide)).text
    assert "Found by the detectors" not in page
    form = Form(page).fields
    assert {name for name, _ in form} >= {"contradiction", "tags:<tag>", "rubric:信息依据"}
    assert "compliance" not in {name for name, _ in form}
    sent = await pages.post(decide, [*form, ("compliance", "2")])
    assert (sent.status, sent.headers["Location"]) == (303, "/agreement")
    decided = {key[2]: each.label for key, each in pages.store.read().items() if key[2] == "adjudicated"}
    assert decided["adjudicated"].compliance == "minor_violation"
    assert "Found by the detectors" in (await pages.get(decide)).text
    assert "decided" in (await pages.get("/agreement")).text
    assert read_run(run, [pages.store.path]).joined == 5


async def test_a_token_is_asked_for(run: Path, tmp_path: Path) -> None:
    async with labelling(run, tmp_path, number=3, token="t" * 20, reader="ann") as pages:
        place = pages.places()[0]
        assert (await pages.get(place)).status == 401
        assert (await pages.post(place, fresh(WHOLE))).status == 401
        opened = await pages.get(f"/?token={'t' * 20}")
        assert opened.headers["Set-Cookie"].startswith("memfin_label=")
        assert (await pages.get(place, "")).status == 200


async def test_pages_are_chinese_for_those_who_ask(pages: Labelling) -> None:
    await _saved(pages)
    place = pages.places()[0]
    for path in ("/", place, "/agreement"):
        page = (await pages.get(f"{path}?lang=zh")).text
        assert '<html lang="zh' in page
        for words in ("labelled", "Forbidden", "Save", "Agreement", "Constraints"):
            assert words not in page, (path, words)
