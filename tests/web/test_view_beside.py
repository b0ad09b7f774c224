"""Two runs side by side: counts, filters, first turns that differ, bounded work, hostile texts, keys."""

import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import anyio.to_thread
import msgspec
import pytest

from memfin import evaluate
from memfin.contracts import ConfigFile, DialogTrace, Finding, RunManifest, TurnEvalRow
from memfin.contracts.reading import iter_jsonl
from memfin.report.comparison import compare_runs
from memfin.report.tables import comparison_rows
from memfin.web.view import beside
from memfin.web.view.conversation import Piece, marked_text
from memfin.web.view.difference import MAX_WORK, differences, layered
from tests.report.report_run_factory import row, summary, trace, turn, write_run
from tests.web.browsers import chromium, needs_chromium
from tests.web.test_view_browser import press
from tests.web.test_view_pages import HOSTILE, Strict
from tests.web.view_runs import Viewer, viewing

Place = tuple[str, int]


@pytest.fixture(scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two agents on the sample, and one like the first without a dialogue, with other replies."""
    root = tmp_path_factory.mktemp("runs")
    for name, agent in (("before", "builtin"), ("after", "oracle")):
        await evaluate(agent=agent, runs_dir=root, run_id=name)
    changed = root / "changed"
    changed.mkdir()
    for path in (root / "before").glob("*.json*"):
        (changed / path.name).write_bytes(path.read_bytes())
    traces: list[DialogTrace] = []
    chance = random.Random(4)
    for _, each in iter_jsonl(root / "before" / "dialog_trace.jsonl", DialogTrace):
        chosen = chance.sample(each.turns, chance.randrange(3))
        turns = [
            one.replace(pred_assistant_text=f"{one.pred_assistant_text}市场有风险。")
            if one in chosen
            else one
            for one in each.turns
        ]
        traces.append(each.replace(turns=turns if traces else turns[1:]))
    traces.pop()
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in traces)
    (changed / "dialog_trace.jsonl").write_bytes(lines)
    return root


@pytest.fixture
async def viewer(runs: Path, tmp_path: Path) -> AsyncIterator[Viewer]:
    async with viewing(runs, tmp_path) as running:
        yield running


def replies(run: Path) -> dict[Place, str | None]:
    """Return the replies of a run in the order of the dataset."""
    traces = [each for _, each in iter_jsonl(run / "dialog_trace.jsonl", DialogTrace)]
    return {
        (each.dialog_id, one.turn_pair_id): one.pred_assistant_text
        for each in sorted(traces, key=lambda each: each.dataset_index)
        for one in each.turns
    }


def rows(run: Path) -> dict[Place, TurnEvalRow]:
    return {
        (each.dialog_id, each.turn_pair_id): each
        for _, each in iter_jsonl(run / "turn_eval.jsonl", TurnEvalRow)
    }


def linked(page: str) -> list[Place]:
    """Return the turns that the list of dialogues links to, 0 for a whole dialogue."""
    lines = re.findall(r'<p class="turn-links">(.*?)</p>', page)
    found = re.findall(r'href="/compare/dialogs/([^"?]+)[^"#]*(?:#t(\d+))?"', "".join(lines))
    return [(unquote(unescape(name)), int(number or 0)) for name, number in found]


def opened(page: str) -> list[Place]:
    """Return the turns at which the dialogues of a list open."""
    found = re.findall(r'class="where" href="/compare/dialogs/([^"?]+)[^"#]*#t(\d+)"', page)
    return [(unquote(unescape(name)), int(number)) for name, number in found]


def table(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the cells of each row of the table of values, and the addresses in it."""
    for line in re.findall(r'<tr><th scope="row">.*?</tr>', page):
        cells = [
            unescape(re.sub("<[^>]+>", "", each)) for each in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", line)
        ]
        yield cells, [unescape(each) for each in re.findall(r'href="([^"]+)"', line)]


async def test_values_and_counts_are_those_of_the_comparison_and_link_to_exactly_these_turns(
    viewer: Viewer, runs: Path
) -> None:
    expected = compare_runs(runs / "before", runs / "after")
    known = {row[0]: row for row in comparison_rows(expected, all_values=False)}
    page = (await viewer.get("/compare?a=before&b=after")).text
    shown = {cells[0]: (cells, links) for cells, links in table(page)}
    assert shown.keys() == known.keys()
    assert len(shown) == 10
    for name, (cells, links) in shown.items():
        assert cells[1:5] == list(known[name][1:5])
        worse, better, same, _ = (int(each.replace(",", "")) for each in cells[6:])
        assert known[name][5] == f"{better}/{worse}"
        metric = next(value for value in expected.values.values() if value.units == worse + better + same)
        assert metric.units
        counts = [count for count in (worse, better, same, int(cells[9])) if count]
        found = [linked((await viewer.get(link)).text) for link in links[1:]]
        assert [len(each) for each in found] == counts
    text = "/compare?a=before&b=after&metric=m3_risk_coverage.risk_coverage&changed="
    before, after = rows(runs / "before"), rows(runs / "after")
    for changed, sign in (("better", 1), ("worse", -1), ("same", 0)):
        units = [
            place
            for place in replies(runs / "before")
            if before[place].eligible_m3
            and before[place].risk_required_tags
            and (after[place].risk_tag_hits > before[place].risk_tag_hits)
            - (after[place].risk_tag_hits < before[place].risk_tag_hits)
            == sign
        ]
        assert linked((await viewer.get(text + changed)).text) == units
        assert units


async def test_the_words_of_the_client_stand_once_as_they_are(viewer: Viewer, runs: Path) -> None:
    for line in (runs / "before" / "dialog_trace.jsonl").read_text("utf-8").splitlines()[:3]:
        dialog = json.loads(line)
        page = (await viewer.get(f"/compare/dialogs/{quote(dialog['dialog_id'])}?a=before&b=changed")).text
        words = re.findall(r'message client">.*?<p><bdi>(.*?)</bdi>', page, re.DOTALL)
        assert [unescape(each) for each in words] == [each["user_text"] for each in dialog["turns"]]


async def test_each_dialogue_opens_at_its_first_turn_that_differs(viewer: Viewer, runs: Path) -> None:
    before, changed = replies(runs / "before"), replies(runs / "changed")
    differing = [place for place in before if changed.get(place, "missing") != before[place]]
    first: dict[str, int] = {}
    for name, number in differing:
        first.setdefault(name, number)
    assert 3 < len(first) < 14
    address = "/compare?a=before&b=changed"
    page = (await viewer.get(address)).text
    assert opened(page) == list(first.items())
    assert linked(page) == differing
    missing = [place for place in before if place not in changed]
    assert linked((await viewer.get(f"{address}&changed=missing")).text) == missing
    assert linked((await viewer.get(f"{address}&changed=reply")).text) == [
        place for place in differing if place in changed
    ]
    names = list(first)
    for at, name in enumerate(names):
        page = (await viewer.get(f"/compare/dialogs/{quote(name)}?a=before&b=changed")).text
        assert re.findall(r'data-open href="#t(\d+)"', page) == [str(first[name])]
        marked = re.findall(r'class="exchange both diverges" id="t(\d+)"', page)
        assert [(name, int(number)) for number in marked] == [each for each in differing if each[0] == name]
        for rel, other in (("prev", at - 1), ("next", at + 1)):
            found = re.search(rf'rel="{rel}" href="/compare/dialogs/([^?]+)[^#]+#t(\d+)"', page)
            wanted = names[other] if 0 <= other < len(names) else None
            assert (found and (found[1], int(found[2]))) == (wanted and (wanted, first[wanted]))
    (gone,) = {name for name, _ in before} - {name for name, _ in changed}
    lacking = (await viewer.get(f"/compare/dialogs/{gone}?a=before&b=changed")).text
    assert "This dialogue is not in the run changed." in lacking
    assert lacking.count("<em>not in this run</em>") == lacking.count("<article")
    name = next(name for name, number in differing if name != gone and (name, number) in changed)
    page = (await viewer.get(f"/compare/dialogs/{name}?a=before&b=changed")).text
    assert '<ins><span class="vh">[only in b: </span>市场有风险。<span class="vh">]</span></ins>' in page
    clients = re.findall(r'<div class="message client">.*?<p><bdi>(.*?)</bdi>', page, re.DOTALL)
    traces = [each for _, each in iter_jsonl(runs / "before" / "dialog_trace.jsonl", DialogTrace)]
    trace = next(each for each in traces if each.dialog_id == name)
    assert [unescape(text) for text in clients] == [one.user_text for one in trace.turns]


async def test_changes_combine_with_the_filters_of_turns(viewer: Viewer, runs: Path) -> None:
    sides = [(replies(runs / name), rows(runs / name)) for name in ("before", "after")]
    traces = {
        each.dialog_id: each for _, each in iter_jsonl(runs / "before" / "dialog_trace.jsonl", DialogTrace)
    }
    label = "severe_violation"
    scenario = next(iter(traces.values())).scenario_type
    conditions: Mapping[str, Any] = {
        f"label={label}": lambda place, _, row: row.pred_compliance_label == label,
        f"scenario={quote(scenario or '')}": lambda place, *_: traces[place[0]].scenario_type == scenario,
        "difficulty=hard": lambda place, *_: traces[place[0]].difficulty == "hard",
        f"q={quote('债券')}": lambda place, reply, _: "债券" in (reply or ""),
        "latency=0..": lambda *_: True,
    }
    for query, condition in conditions.items():
        page = (await viewer.get(f"/compare?a=before&b=after&changed=reply&{query}")).text
        expected = [
            place
            for place in sides[0][0]
            if any(condition(place, texts[place], scored[place]) for texts, scored in sides)
            or (query.startswith("q=") and "债券" in user_text(traces, place))
        ]
        assert linked(page) == expected, query
        assert expected
        counted = re.search(r'<h2 id="dialogues">Dialogues <small>(\d+) dialogues, (\d+) turns', page)
        assert counted is not None
        assert int(counted[2]) == len(expected)
        assert page.count("Remove this filter") == 2
        kept = {name for name in ("changed", "latency") if f'name="{name}"' in page}
        assert kept == {"changed", *({"latency"} & {query.partition("=")[0]})}
    value = "metric=m3_risk_coverage.risk_coverage&value=0..2"
    every = linked((await viewer.get(f"/compare?a=before&b=after&{value.partition('&')[0]}")).text)
    assert linked((await viewer.get(f"/compare?a=before&b=after&{value}")).text) == every


def user_text(traces: Mapping[str, DialogTrace], place: Place) -> str:
    return next(one.user_text for one in traces[place[0]].turns if one.turn_pair_id == place[1])


async def test_runs_are_chosen_by_forms_those_of_the_same_dataset_first(viewer: Viewer, runs: Path) -> None:
    write_run(runs / "other", [trace("d", [turn()])], [row("d")], summary(dataset_path="a/other"))
    try:
        for path in ("/", "/runs/after", "/compare"):
            page = (await viewer.get(path)).text
            assert '<form class="compare-runs" action="/compare">' in page
        page = (await viewer.get("/runs/after")).text
        assert '<input type="hidden" name="b" value="after">' in page
        options = re.findall(r'<option value="([^"]+)"', page)
        assert (set(options[:2]), options[2:]) == ({"before", "changed"}, ["other"])
        refused = await viewer.get("/compare?a=before&b=other")
        assert (refused.status, "no dialogue in common" in refused.text) == (400, True)
    finally:
        for file in (runs / "other").iterdir():
            file.unlink()
        (runs / "other").rmdir()


async def test_what_cannot_be_compared_is_refused_in_one_clear_page(tmp_path: Path) -> None:
    encode = msgspec.json.encode
    root = tmp_path / "runs"
    for name in ("a", "b", "rag", "open", "broken"):
        write_run(root / name, [trace("d", [turn()])], [row("d")], summary(run_id=name), extras=True)
    path = root / "b" / "config.json"
    config = msgspec.json.decode(path.read_bytes(), type=ConfigFile)
    path.write_bytes(encode(config.replace(fingerprint_inputs={"dataset_sha256": "ef" * 32})))
    path = root / "rag" / "run_manifest.json"
    manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
    path.write_bytes(encode(manifest.replace(suite="rag")))
    (root / "open" / "metrics_summary.json").unlink()
    (root / "broken" / "turn_eval.jsonl").write_bytes(b"{\n")
    async with viewing(root, tmp_path) as viewer:
        for query, status, words in (
            ("a=a&b=b", 400, "different datasets"),
            ("a=a&b=rag", 400, "rag is no run of dialogues"),
            ("a=open&b=a", 400, "open has not finished"),
            ("a=broken&b=a", 500, "turn_eval.jsonl"),
            ("a=a&b=none", 404, "nothing here"),
            ("a=..&b=a", 404, "nothing here"),
            ("a=a&b=a", 200, "The two runs do not differ."),
        ):
            answer = await viewer.get(f"/compare?{query}")
            assert (answer.status, words in answer.text) == (status, True), query
            if status != 200:
                assert (await viewer.get(f"/compare/dialogs/d?{query}")).status == status
        assert (await viewer.get("/compare/dialogs/none?a=a&b=a")).status == 404
        assert (await viewer.get("/compare/dialogs/d")).status == 404


async def test_a_comparison_is_made_again_only_once_files_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    for name in "abc":
        write_run(root / name, [trace("d", [turn()])], [row("d")], summary(run_id=name))
    made: list[object] = []
    compared = beside._compared

    def counted(*given: Any) -> beside.Pair:
        made.append(given)
        return compared(*given)

    monkeypatch.setattr(beside, "_compared", counted)
    async with viewing(root, tmp_path) as viewer:
        for address in ("/compare?a=a&b=b", "/compare/dialogs/d?a=a&b=b", "/compare?a=a&b=b&changed=same"):
            assert (await viewer.get(address)).status == 200
        assert len(made) == 1
        traces = [trace("d", [turn(reply="别的回复")])]
        write_run(root / "b", traces, [row("d")], summary(run_id="b"))
        assert opened((await viewer.get("/compare?a=a&b=b")).text) == [("d", 1)]
        assert len(made) == 2


def test_differences_leave_the_same_rest_and_never_exceed_their_work() -> None:
    chance = random.Random(2)
    sources = ["的一是。\n", "ab ,. ", "建议配置60%债券。Markets may fall 3.5%. \u2028"]
    pairs = [
        ["".join(chance.choices(letters, k=chance.randrange(60))) for _ in range(2)]
        for letters in sources * 30
    ]
    long = 20_000
    pairs += [
        ["的" * long, "的" * (long - 1) + "了"],
        *(
            ["".join(chance.choices(letters, k=long)) for _ in range(2)]
            for letters in ("ab", "ab。", "净值会波动")
        ),
        ["a b " * (long // 4), "b a " * (long // 4)],
    ]
    for one, other in pairs:
        gone, new, work = differences(one, other)
        assert rest(one, gone) == rest(other, new)
        assert work <= MAX_WORK
        for text, spans in ((one, gone), (other, new)):
            assert all(low < high <= len(text) for low, high in spans)
            assert spans == sorted(spans)
    sentence = "建议将{}的资金投入债券基金，其余留作应急。过去的业绩不代表将来。\n"
    one, other = (
        "".join(sentence.format(share) for share in shares) for shares in (range(400), range(1, 401))
    )
    gone, new, work = differences(one, other)
    assert work < MAX_WORK
    assert [one[low:high] for low, high in gone] == [one[: one.index("\n") + 1]]
    gone, new, _ = differences(
        "资金的60%配置在债券基金。净值可能波动。", "资金的40%配置在货币基金。净值可能波动。"
    )
    assert [(3, 6), (9, 11)] == gone == new


def rest(text: str, spans: list[tuple[int, int]]) -> str:
    for low, high in reversed(spans):
        text = text[:low] + text[high:]
    return text


def test_layers_keep_the_text_its_findings_and_their_numbers() -> None:
    text = "保本保收益，可以配置债券。"
    found = [
        Finding(field="compliance", value="v", rule="r", start=0, end=5),
        Finding(field="rubric", value="w", rule="s", start=3, end=9),
    ]
    pieces = marked_text(text, found)
    layers = layered(pieces, [(1, 4), (8, 13)])
    flat: list[Piece] = [piece for _, group in layers for piece in group]
    assert "".join(piece.text for piece in flat) == text
    assert ["".join(piece.text for piece in group) for inside, group in layers if inside] == [
        "本保收",
        "置债券。",
    ] or [sum(len(piece.text) for piece in group) for inside, group in layers if inside] == [3, 5]
    assert [number for piece in flat for number in piece.ends] == [1, 2]
    assert {piece.level for piece in flat if piece.text in "保本保收益"} >= {"bad"}
    assert layered(pieces, []) == [(False, list(pieces))]


async def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    finding = Finding(field=HOSTILE, value=HOSTILE, rule=HOSTILE, start=3, end=40)
    for name, reply in (("a", HOSTILE), ("b", f"x{HOSTILE[9:]}")):
        made = trace(HOSTILE, [turn(1, HOSTILE + name, reply, error=HOSTILE)], scenario_type=HOSTILE)
        scored = row(HOSTILE, findings=[finding], key_hit_flags=[int(name == "a")], forbidden_hits=[HOSTILE])
        write_run(root / name, [made], [scored], summary(run_id=name, dataset_path=HOSTILE))
    dialog = f"/compare/dialogs/{quote(HOSTILE, safe='')}?a=a&b=b"
    filters = "&".join(f"{name}={quote(HOSTILE)}" for name in ("changed", "metric", "label", "rule", "q"))
    async with viewing(root, tmp_path) as viewer:
        for path in (
            "/compare",
            "/compare?a=a&b=b",
            f"/compare?a=a&b=b&{filters}",
            dialog,
            f"{dialog}&{filters}",
        ):
            answer = await viewer.get(path)
            assert answer.status == 200, path
            Strict().feed(answer.text)
            assert not re.search("[\u202e\u2066\x00]", answer.text)
            assert "49" not in re.findall(r"\{\{7\*7\}\}|49", answer.text)
        assert "<del>" in (await viewer.get(dialog)).text
        refused = await viewer.get(f"/compare?a={quote(HOSTILE)}&b={quote(HOSTILE)}")
        assert refused.status == 404
        Strict().feed(refused.text)


@needs_chromium
async def test_keys_step_through_what_differs(runs: Path, tmp_path: Path) -> None:
    async with viewing(runs, tmp_path) as viewer:
        page = (await viewer.get("/compare?a=before&b=changed")).text
        await anyio.to_thread.run_sync(partial(steps, tmp_path, viewer.url, linked(page), opened(page)))


def steps(folder: Path, url: str, differing: list[Place], starts: list[Place]) -> None:
    def address(place: Place) -> str:
        return f"{url}/compare/dialogs/{quote(place[0], safe='')}?a=before&b=changed#t{place[1]}"

    with chromium(folder, javascript=True) as browser:
        browser.get(address(starts[1]).partition("#")[0])
        press(browser, "", address(starts[1]))
        at = differing.index(starts[1])
        for place in differing[at + 1 :][:4]:
            key = "d" if place[0] == differing[differing.index(place) - 1][0] else "n"
            press(browser, key, address(place))
        browser.get(address(starts[-1]))
        press(browser, "p", address(starts[-2]))
        name, number = starts[-2]
        press(browser, "j", address((name, number + 1)))
        press(browser, "k", address((name, number)))
        press(browser, "n", address(starts[-1]))
        for path in ("/compare", "/compare?a=before&b=after", address(starts[1]).removeprefix(url)):
            browser.set_window_size(500, 900)
            browser.get(url + path)
            width = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, path
        browser.get(f"{url}/runs/after")
        browser.find_element("css selector", ".compare-runs button").send_keys("\n")
        press(browser, "", f"{url}/compare?a=changed&b=after")
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
