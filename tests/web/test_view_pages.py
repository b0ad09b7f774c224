"""Pages of the viewer over HTTP: filters, hostile traces and ids, access."""

import re
from collections.abc import AsyncIterator, Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
import pytest
from msgspec import UNSET

from memfin.contracts import (
    DialogTrace,
    Finding,
    RecallItem,
    RecallTrace,
    ResolvedKey,
    RunManifest,
    ToolTrace,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.dataset import ProfileTruth
from memfin.report.worst_turns import missed_tags
from memfin.web.view.index import NAME
from tests.report.report_run_factory import row, summary, trace, turn, write_run
from tests.web.view_runs import (
    Run,
    Viewer,
    viewing,
    write_benchmark,
    write_soak,
    write_various,
    write_votes,
)

Place = tuple[str, int]


@pytest.fixture(scope="module")
def various(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    root = tmp_path_factory.mktemp("runs")
    return root, write_various(root / "r")


@pytest.fixture
async def viewer(various: tuple[Path, Run], tmp_path: Path) -> AsyncIterator[Viewer]:
    async with viewing(various[0], tmp_path) as running:
        yield running


def places(page: str) -> list[Place]:
    """Return the turns that a list links to."""
    found = re.findall(r'class="where" href="/runs/r/dialogs/([^"?#]+)[^"#]*#t(\d+)"', page)
    return [(unquote(unescape(name)), int(number)) for name, number in found]


async def listed(viewer: Viewer, query: str) -> list[Place]:
    """Return the turns on all pages of a list."""
    found: list[Place] = []
    address: str | None = f"/runs/r/turns?{query}"
    while address:
        page = (await viewer.get(address)).text
        found += places(page)
        after = re.search(r'rel="next" href="([^"]+)"', page)
        address = f"/runs/r/turns{unescape(after[1])}" if after else None
    return found


def short(row: TurnEvalRow, name: str) -> bool:
    """Say of an answered turn if it falls short, by the definitions of docs/metrics.md."""
    return {
        "key_coverage": row.eligible_m1 and sum(row.key_hit_flags) < len(row.key_hit_flags),
        "contradiction_rate": row.eligible_m1 and row.constraint_contradiction == 1,
        "risk_coverage": row.eligible_m3 and bool(missed_tags(row)),
        "severe_violation_rate": row.pred_compliance_label == "severe_violation",
        "compliance_label_acc": row.pred_compliance_label != row.gt_compliance_label,
        "rubric_hit_rate": row.rubric_hit_items != row.rubric_required,
        "judge_score_mean": row.judge_score_1_5 is not None and row.judge_score_1_5 < 4,
    }[name]


Condition = Callable[[DialogTrace, TurnTrace, TurnEvalRow], bool]
FILTERS: dict[str, Condition] = {
    "": lambda *_: True,
    "failed=answer": lambda _, turn, __: turn.turn_status != "ok",
    "label=severe_violation": lambda _, __, row: row.pred_compliance_label == "severe_violation",
    "rule=promise.slogan": lambda _, __, row: any(each.rule == "promise.slogan" for each in row.findings),
    "rule=classifier": lambda _, __, row: len(row.findings) == 3,
    "scenario=" + quote("退休规划"): lambda dialog, _, __: dialog.scenario_type == "退休规划",
    "difficulty=hard": lambda dialog, _, __: dialog.difficulty == "hard",
    "difficulty=hard&rule=vol.may&failed=m3_risk_coverage.risk_coverage": lambda dialog, _, row: (
        dialog.difficulty == "hard" and len(row.findings) > 1 and short(row, "risk_coverage")
    ),
    "metric=m1_context_continuity.key_coverage": lambda _, turn, row: (
        turn.turn_status == "ok" and row.eligible_m1
    ),
    "q=" + quote("稳赚不"): lambda _, turn, __: "稳赚不" in (turn.pred_assistant_text or ""),
    "q=" + quote("HOLD"): lambda _, turn, __: "Hold" in (turn.pred_assistant_text or ""),
    "q=" + quote("第3"): lambda _, turn, __: "第3" in turn.user_text,
    "q=" + quote('0%"'): lambda *_: False,
    "q=" + quote("%_"): lambda *_: False,
    "q=" + quote("h_n"): lambda _, turn, __: "h_n" in (turn.pred_assistant_text or ""),
    "label=nothing": lambda *_: False,
    "status=timeout": lambda _, turn, __: turn.turn_status == "timeout",
    "score=2..4": lambda _, __, row: row.judge_score_1_5 == 2,
    "score=4..": lambda _, __, row: row.judge_score_1_5 == 4.5,
    "score=high&latency=5&value=1..": lambda *_: True,
    "latency=200..400&status=ok": lambda _, turn, __: (
        turn.turn_status == "ok" and turn.latency_ms in (200.0, 300.0)
    ),
    "unsure=any": lambda _, __, row: bool(
        row.judge_spread not in (UNSET, 0) or row.unsure or row.undecided_constraints
    ),
    "unsure=votes": lambda _, __, row: row.judge_spread in (1.0, 2.0),
    "unsure=" + quote("保本保收益"): lambda _, __, row: row.unsure is not UNSET,
    "unsure=contradiction": lambda _, __, row: row.undecided_constraints is not UNSET,
    "missed=profile_gt.risk_level_gt": lambda _, turn, row: (
        turn.turn_status == "ok" and row.eligible_m1 and row.key_hit_flags == [0]
    ),
    "key=profile_gt.risk_level_gt": lambda _, turn, row: turn.turn_status == "ok" and row.eligible_m1,
    **{
        f"failed={metric}.{name}": lambda _, turn, row, name=name: (  # type: ignore[misc]
            turn.turn_status == "ok" and short(row, name)
        )
        for metric, name in (
            ("m1_context_continuity", "key_coverage"),
            ("m1_context_continuity", "contradiction_rate"),
            ("m3_risk_coverage", "risk_coverage"),
            ("m4_compliance", "severe_violation_rate"),
            ("m4_compliance", "compliance_label_acc"),
            ("m5_explainability", "rubric_hit_rate"),
            ("m5_explainability", "judge_score_mean"),
        )
    },
}


async def test_filters_list_exactly_the_turns_of_a_scan_of_the_rows(
    viewer: Viewer, various: tuple[Path, Run]
) -> None:
    _, run = various
    rows = {(row.dialog_id, row.turn_pair_id): row for row in run.rows}
    for query, condition in FILTERS.items():
        expected = [
            place
            for dialog in run.traces
            for turn in dialog.turns
            if condition(dialog, turn, rows[place := (dialog.dialog_id, turn.turn_pair_id)])
        ]
        assert await listed(viewer, query) == expected, query
        assert expected or query in ("label=nothing", "q=0%25%22", "q=%25_")


async def test_every_link_to_turns_leads_to_as_many_as_it_says(viewer: Viewer) -> None:
    page = (await viewer.get("/runs/r")).text
    facets = re.findall(r'<li><a href="/runs/r/turns\?([^"]+)"><bdi>[^<]+</bdi> <span>([\d,]+)</span>', page)
    cards = re.findall(r'class="short"><a href="/runs/r/turns\?([^"]+)">fall short: ([\d,]+)<', page)
    assert len(facets) > 20
    assert len(cards) == 6
    assert page.count("0 of 1 keys") + page.count("1 of 1 keys") == 50
    assert {"severe violation", "contradiction", "score 4.5", "risks not disclosed: 1"} < set(
        re.findall(r'<span class="mini[^"]*">([^<]+)</span>', page)
    )
    for query, count in {*facets, *cards}:
        found = (await viewer.get(f"/runs/r/turns?{unescape(query)}")).text
        assert re.search(f'<h2 id="turns">{count} turns?</h2>', found), query


async def test_a_dialogue_shows_each_turn_with_its_evidence_and_leads_to_the_next(
    viewer: Viewer, various: tuple[Path, Run]
) -> None:
    _, run = various
    name = quote(run.traces[1].dialog_id, safe="")
    page = (await viewer.get(f"/runs/r/dialogs/{name}")).text
    assert re.findall(r'<article class="exchange[^"]*" id="t(\d+)"', page) == [str(n) for n in range(1, 10)]
    assert re.search(r'<mark class="bad" title="[^"]*promise.slogan[^"]*">[^<]+</mark>', page)
    assert '<mark class="key">稳健</mark>' in page
    assert "notes · score 0.5" in page
    assert "参考回答" in page
    first = (
        await viewer.get(f"/runs/r/dialogs/{quote(run.traces[0].dialog_id, safe='')}?failed=answer")
    ).text
    assert "2 of 5: 清楚，但没有依据" in first
    failed = [place for place in await listed(viewer, "failed=answer") if place[0] != run.traces[0].dialog_id]
    after = re.search(r'rel="next" href="([^"]+)"', first)
    assert after is not None
    address = f"/runs/r/dialogs/{quote(failed[0][0], safe='')}?failed=answer#t{failed[0][1]}"
    assert unescape(after[1]) == address
    assert 'rel="prev"' not in first


async def test_words_of_a_search_are_marked_in_the_list_and_in_the_dialogue(tmp_path: Path) -> None:
    reply = f"{400 * '长'}<i>Cash & 现金</i> CASH &amp; 现金"
    finding = Finding(field="compliance", value="v", rule="r", start=404, end=406)  # within the first match
    traces = [trace("d", [turn(1, "cash &\n现金？", reply)])]
    write_run(tmp_path / "r", traces, [row("d", findings=[finding])])
    async with viewing(tmp_path, tmp_path) as viewer:
        query = f"q={quote('cash & 现')}"
        listed = (await viewer.get(f"/runs/r/turns?{query}")).text
        found = re.findall('<mark class="found">(.*?)</mark>', listed)
        assert found == ["cash &amp; 现", "Cash &amp; 现"]
        assert "…长" in listed
        assert "长&lt;i&gt;<mark" in listed
        dialog = (await viewer.get(f"/runs/r/dialogs/d?{query}")).text
        words = re.search("长&lt;i&gt;(.*?)CASH", dialog)
        assert words is not None
        assert re.sub("<.*?>|\\d", "", words[1]) == "Cash &amp; 现金&lt;/i&gt; "
        assert re.findall('<mark class="found">(.*?)</mark>', dialog) == ["C", "as", "h &amp; 现"]
        assert re.search('<mark class="bad" title="[^"]*"><mark class="found">as</mark></mark>', words[1])
        short = (await viewer.get("/runs/r/turns?q=%3C")).text
        assert re.findall('<mark class="found">(.*?)</mark>', short) == 2 * ["&lt;"]
        assert "found" not in (await viewer.get("/runs/r/dialogs/d?q=")).text


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)>"
    "<style>*{display:none}</style>javascript:alert(1)</textarea></bdi>{{7*7}}\u202eevil\u2066\x00"
)
TAGS = frozenset(
    re.findall(
        r"\w+",
        """html head meta title link script body a div nav span main h1 h2 h3 p dl dt dd table thead tbody tr
        th td small strong b bdi br svg rect path polyline text article section form input button ol ul li
        aside details summary header mark code blockquote em figure figcaption
        del ins label select optgroup option""",
    )
)


class Strict(HTMLParser):
    """Fails on anything that could run or leave."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style"
            if name in ("href", "src", "action"):
                assert re.match(r"/(?!/)|#|\?", value or ""), value
        if tag == "script":
            assert dict(attrs)["src"] in ("/view.js", "/htmx.js")


async def test_a_hostile_trace_is_shown_as_text(tmp_path: Path) -> None:
    turns = [
        turn(
            1,
            HOSTILE,
            HOSTILE,
            gt_assistant_text=HOSTILE,
            error=HOSTILE,
            recall=RecallTrace(items=[RecallItem(content=HOSTILE, source=HOSTILE)], profile_context=HOSTILE),
            tools=[ToolTrace(tool_name=HOSTILE, args={HOSTILE: HOSTILE}, error=HOSTILE)],
            profile_snapshot={HOSTILE: HOSTILE},
            observation_error=HOSTILE,
        )
    ]
    profile = ProfileTruth(risk_level_gt=HOSTILE, constraints_gt=[HOSTILE])
    dialog = trace(HOSTILE, turns, scenario_type=HOSTILE, profile_gt=profile)
    finding = Finding(field=HOSTILE, value=HOSTILE, rule=HOSTILE, start=-(2**70), end=2**70)
    inner = Finding(field="x:own", value=HOSTILE, rule=HOSTILE, start=9, end=3)
    key = ResolvedKey(key=HOSTILE, resolvable=True, target_text=HOSTILE)
    rows = [
        row(
            HOSTILE,
            findings=[finding, inner],
            resolved_keys=[key],
            forbidden_hits=[HOSTILE],
            risk_required_tags=[HOSTILE],
            rubric_required=[HOSTILE],
            detector_errors={HOSTILE: HOSTILE},
        )
    ]
    write_run(tmp_path / "r", [dialog], rows, summary(dataset_path=HOSTILE))
    write_votes(tmp_path / "r", rows, HOSTILE)
    manifest = msgspec.json.decode((tmp_path / "r" / "run_manifest.json").read_bytes(), type=RunManifest)
    encoded = msgspec.json.encode(manifest.replace(model_name=HOSTILE, started_at=HOSTILE))
    (tmp_path / "r" / "run_manifest.json").write_bytes(encoded)
    query = "&".join(f"{name}={quote(HOSTILE)}" for name in ("q", "rule", "label", "scenario", "difficulty"))
    async with viewing(tmp_path, tmp_path) as viewer:
        for path in (
            *("/", "/runs/r", f"/runs/r/turns?{query}", f"/runs/r/turns?rule={quote(HOSTILE)}"),
            *(
                f"/runs/r/dialogs/{quote(HOSTILE, safe='')}",
                f"/{quote(HOSTILE, safe='')}?lang={quote(HOSTILE)}",
            ),
        ):
            answer = await viewer.get(path)
            assert answer.status == (404 if path.startswith("/%3C") else 200), path
            Strict().feed(answer.text)
            assert not re.search("[\u202e\u2066\x00]", answer.text)
            assert "49" not in re.findall(r"\{\{7\*7\}\}|49", answer.text)
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
        assert HOSTILE[:25] in unescape((await viewer.get(f"/runs/r/dialogs/{quote(HOSTILE, safe='')}")).text)


async def test_nothing_outside_of_the_directory_is_shown(various: tuple[Path, Run], tmp_path: Path) -> None:
    root, _ = various
    inside = tmp_path / "runs"
    write_run(inside / "own", [trace("d", [turn()])], [row("d")])
    (inside / "link").symlink_to(root / "r")
    (inside / "leak").mkdir()
    for path in (inside / "own").iterdir():
        (inside / "leak" / path.name).write_bytes(path.read_bytes())
    (inside / "leak" / "dialog_trace.jsonl").unlink()
    (inside / "leak" / "dialog_trace.jsonl").symlink_to(root / "r" / "dialog_trace.jsonl")
    outside = quote(f"../{root.name}/r", safe="")
    async with viewing(inside, tmp_path) as viewer:
        listed = re.findall(r'href="/runs/([^"/]+)"', (await viewer.get("/")).text)
        assert sorted(listed) == ["leak", "own"]
        for run in ("link", "leak", outside, "..", ".", "%2e%2e", "own%2F..%2Fown", "own%00", "x" * 300):
            for place in ("turns", "dialogs/d"):
                assert (await viewer.get(f"/runs/{run}/{place}")).status == 404, run
        for dialog in ("..%2F..%2Fown", "%00", "d%2F", "no"):
            assert (await viewer.get(f"/runs/own/dialogs/{dialog}")).status == 404
        assert (await viewer.get("/runs/own/dialogs/d?page=-1&page=99999999999999999999")).status == 200
    (inside / "own" / "config.json").symlink_to(inside / "leak" / "config.json")
    (inside / "leak" / "config.json").write_bytes(b"{")
    for only, status, text in ((None, 200, "config.json"), ("own", 404, "1 turn<")):
        async with viewing(inside, tmp_path, only=only) as viewer:
            assert text in (await viewer.get("/runs/own")).text
            assert (await viewer.get("/runs/leak")).status == status


async def test_only_reading_from_this_host_is_answered(viewer: Viewer) -> None:
    assert (await viewer.get("/", "HEAD")).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert (await viewer.get("/runs/r", method)).status == 405
    assert (await viewer.get("/", headers={"Host": "evil.example"})).status == 421
    assert (await viewer.get("/", headers={"Origin": "https://evil.example"})).status == 403


async def test_with_a_token_the_address_opens_the_pages_and_nothing_else_does(
    various: tuple[Path, Run], tmp_path: Path
) -> None:
    token = 16 * "t"
    async with viewing(various[0], tmp_path, token=token) as viewer:
        for path in ("/", "/runs/r", "/style.css", "/?token=wrong", "/none"):
            assert (await viewer.get(path)).status == 401
        opened = await viewer.get(f"//evil.example/runs?q=a&token={token}")
        assert (opened.status, opened.headers["Location"]) == (303, "/evil.example/runs?q=a")
        assert {"HttpOnly", "SameSite=Strict"} <= set(opened.headers["Set-Cookie"].split("; "))
        assert token not in opened.headers["Set-Cookie"]
        cookie = opened.headers["Set-Cookie"].partition(";")[0]
        viewer.client.cookie_jar.clear()
        assert (await viewer.get("/")).status == 401
        assert (await viewer.get("/", headers={"Cookie": cookie})).status == 200
        assert (await viewer.get("/", headers={"Authorization": f"Bearer {token}"})).status == 200


async def test_the_language_is_the_visitors(viewer: Viewer) -> None:
    chinese = (await viewer.get("/runs/r", headers={"Accept-Language": "zh-CN,zh;q=0.9"})).text
    assert '<html lang="zh' in chinese
    assert "在客户消息和回复中搜索" in chinese
    assert 'href="/runs/r?lang=en"' in chinese
    assert '<html lang="en">' in (await viewer.get("/runs/r", headers={"Accept-Language": "de"})).text
    assert '<html lang="zh' in (await viewer.get("/runs/r/turns?label=compliant&lang=zh")).text
    assert '<html lang="zh' in (await viewer.get("/runs/r")).text


async def test_an_index_follows_a_run_that_goes_on_and_needs_no_writable_directory(tmp_path: Path) -> None:
    directory, spare = tmp_path / "runs" / "r", tmp_path / "spare"
    spare.mkdir()
    write_run(directory, [trace("a", [turn()])], [row("a")])
    summary_file = directory / "metrics_summary.json"
    finished = summary_file.read_bytes()
    summary_file.unlink()
    async with viewing(tmp_path / "runs", spare) as viewer:
        first = (await viewer.get("/runs/r")).text
        assert places(first) == [("a", 1)]
        assert "has not finished" in first
        assert not (directory / NAME).exists()
        with (directory / "dialog_trace.jsonl").open("ab") as file:
            file.write(b"\n{bad}\n" + msgspec.json.encode(trace("b", [turn()])) + b'\n{"dialog_id"')
        grown = (await viewer.get("/runs/r")).text
        assert places(grown) == [("a", 1), ("b", 1)]
        assert "2 lines of the run cannot be read" in grown
        summary_file.write_bytes(finished)
        (spared,) = spare.iterdir()
        spared.unlink()
        assert places((await viewer.get("/runs/r")).text) == [("a", 1), ("b", 1)]
        assert (directory / NAME).is_file()
        (directory / NAME).unlink()
        (directory / NAME).mkdir()  # no file can take its place
        assert (await viewer.get("/runs/r/dialogs/b")).status == 200
        assert len(list(spare.iterdir())) == 1
        (directory / NAME).rmdir()
        (directory / NAME).write_bytes(b"no index")
        assert places((await viewer.get("/runs/r")).text) == [("a", 1), ("b", 1)]
        (directory / "run_manifest.json").write_bytes(b"{")
        assert "run_manifest.json: " in (await viewer.get("/")).text
        assert str(tmp_path) not in (await viewer.get("/runs/r")).text


async def test_runs_are_listed_newest_first_with_trends(tmp_path: Path) -> None:
    for number in range(3):
        known = summary(run_id=f"r{number}")
        write_run(tmp_path / f"r{number}", [], [], known)
        path = tmp_path / f"r{number}" / "run_manifest.json"
        manifest = msgspec.json.decode(path.read_bytes(), type=RunManifest)
        path.write_bytes(msgspec.json.encode(manifest.replace(started_at=f"2026-01-0{number + 1}T00:00:00Z")))
    async with viewing(tmp_path, tmp_path) as viewer:
        page = (await viewer.get("/")).text
    assert re.findall(r'href="/runs/([^"/]+)"', page) == ["r2", "r1", "r0"]
    assert len(re.findall("<polyline ", page)) == 5
    assert "40.0 %, 40.0 %, 40.0 %" in page


async def test_benchmarks_show_their_questions_and_soaks_their_last_values(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "b", 102)
    write_soak(tmp_path / "s")
    async with viewing(tmp_path, tmp_path) as viewer:
        first, *others = [(await viewer.get(f"/runs/b?page={page}")).text for page in (1, 2, 3)]
        assert "99.0 %" in first
        assert "page 1 of 3" in first
        assert "no answer in time" in first
        assert re.findall(r'id="q(\d+)"', first + "".join(others)) == [
            str(number) for number in range(1, 103)
        ]
        page = (await viewer.get("/runs/s")).text
        assert "25.0 %" in page
        assert "interrupted" in page  # no process holds its lock
        assert (await viewer.get("/runs/s/turns")).status == 404
