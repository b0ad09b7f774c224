"""Pages of benchmarks and soaks: questions under filters, epochs with their runs."""

import re
from collections.abc import AsyncIterator, Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from click.testing import CliRunner

from memfin.cli.main import memfin
from memfin.contracts.rag import RagAnswer, RagCitation, RagEvidence, RagJudged, RagResult
from memfin.contracts.soak import Drift, SoakErrors, SoakSummary
from tests.support import read_jsonl
from tests.web.test_view_pages import HOSTILE, Strict
from tests.web.view_runs import Viewer, viewing


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the run of the built-in benchmark, and a soak of two epochs."""
    root = tmp_path_factory.mktemp("runs")
    bench = ("bench", "--runs-dir", str(root), "--run-id", "b", "--quiet")
    soak = ("soak", "--runs-dir", str(root), "--run-id", "s", "--quiet", "--epochs", "2", "--limit", "1")
    for words in (bench, soak):
        assert CliRunner().invoke(memfin, words).exit_code == 0
    return root


@pytest.fixture
async def viewer(runs: Path, tmp_path: Path) -> AsyncIterator[Viewer]:
    async with viewing(runs, tmp_path) as running:
        yield running


async def listed(viewer: Viewer, query: str) -> tuple[int, list[int]]:
    """Return the number of questions that a list names, and those on its pages."""
    found: list[int] = []
    address: str | None = f"/runs/b?{query}"
    total = 0
    while address:
        page = (await viewer.get(address)).text
        total = int((re.findall(r'<h2 id="questions">(\d+) questions?</h2>', page))[0])
        found += map(int, re.findall(r'<article class="exchange" id="q(\d+)"', page))
        after = re.search(r'rel="next" href="([^"]+)"', page)
        address = f"/runs/b{unescape(after[1])}" if after else None
    return total, found


FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "": lambda _: True,
    "result=passed": lambda one: one["passed"],
    "result=failed": lambda one: not one["passed"],
    "result=failed&type=fact_exact": lambda one: not one["passed"] and one["type"] == "fact_exact",
    "tag=" + quote("日期"): lambda one: "日期" in one["tags"],
    "gap=yes": lambda one: bool(one["details"].get("should_abstain")),
    "gap=yes&refused=no": lambda one: (
        one["details"].get("should_abstain", False) and not one["details"]["abstention"]["abstained"]
    ),
    "missed=recall": lambda one: one["details"].get("recall", 1) < one["details"].get("recall_min", 0),
    "missed=exact_match": lambda one: one["details"].get("exact_match") == 0,
    "category=monetary&difficulty=easy": lambda one: (
        one["category"] == "monetary" and one["difficulty"] == "easy"
    ),
    "q=" + quote("贺知渊"): lambda one: "贺知渊" in one["question"] + one["answer"]["answer"],
    "result=none": lambda _: False,
}


async def test_filters_list_exactly_the_questions_of_a_scan(viewer: Viewer, runs: Path) -> None:
    results = read_jsonl(runs / "b" / "rag_results.jsonl")
    for query, condition in FILTERS.items():
        expected = [one["question_index"] for one in results if condition(one)]
        assert await listed(viewer, query) == (len(expected), expected), query
        assert expected or query == "result=none"


async def test_every_number_leads_to_as_many_questions(viewer: Viewer) -> None:
    page = (await viewer.get("/runs/b")).text + (await viewer.get("/runs/b?result=failed&gap=no")).text
    passed = re.search(r'<a href="/runs/b\?result=passed">67\.3 %</a>', page)
    assert passed is not None
    cells = re.findall(r'<td class="num"><a href="/runs/b\?([^"]+)">(\d+)</a>', page)
    facets = re.findall(r'<li><a href="/runs/b\?([^"]+)"><bdi>[^<]+</bdi> <span>(\d+)</span>', page)
    assert {"result=passed&amp;gap=no", "result=failed&amp;gap=yes"} <= {query for query, _ in facets}
    assert len(cells) > 20
    assert len(facets) > 20
    for query, count in {*cells, *facets}:
        found = (await viewer.get(f"/runs/b?{unescape(query)}&page=99")).text
        assert f'<h2 id="questions">{count} question' in found, query


async def test_a_question_shows_what_was_expected_and_what_was_found(viewer: Viewer, runs: Path) -> None:
    pages = [(await viewer.get(f"/runs/b?page={page}")).text for page in (1, 2)]
    articles = {
        int(number): text
        for page in pages
        for number, text in re.findall(
            r'<article class="exchange" id="q(\d+)"(.*?)</article>', page, re.DOTALL
        )
    }
    for one in read_jsonl(runs / "b" / "rag_results.jsonl"):
        shown, details, answer = articles[one["question_index"]], one["details"], one["answer"]
        assert (">Not passed<" in shown) == (not one["passed"])
        assert ("falls short in: " in shown) == (not one["passed"])
        items = re.findall(r'<li class="(hit|miss)"><bdi>(.*?)</bdi>', shown)
        for field in details.get("fields", ()):
            (status,) = [
                status for status, text in items if text.startswith(field["field"].replace("_", " "))
            ]
            assert (status == "hit") == field["matched"]
        evidence = details.get("evidence") or details.get("citation", {}).get("evidence", [])
        for wanted in evidence:
            status = "hit" if wanted.get("found", wanted.get("cited")) else "miss"
            assert (status, f"p. {wanted['page']}: {wanted['must_include']}") in items
        ranks = re.findall(r"Evidence (\d+) · p\. (\d+)", shown)
        assert ranks == [(str(at), str(each["page"])) for at, each in enumerate(answer["evidence"], 1)]
        assert f"{one['score']:.2f} / {one['max_score']:.2f}" in shown
    for number, mark, expected in (
        (
            31,
            r'<mark class="bad" title="amount total[^"]*">5万元</mark>',
            "amount total: expected 150,000, got 50,000 ",
        ),
        (32, r'<mark class="good" title="text answer[^"]*">HLC-2021-0388</mark>', "got HLC-2021-0388<"),
        (35, r'<mark class="good" title="date range[^"]*">', "got 2021-03-08 – 2022-03-07<"),
        (
            34,
            r'<mark class="plain" title="cited[^"]*">',
            "amount breakdown: expected 150,000, 80,000, 24,000, ",
        ),
    ):
        assert re.search(mark, articles[number]), number
        assert expected in articles[number], number


async def test_results_of_any_form_are_shown_as_text(tmp_path: Path, runs: Path) -> None:
    directory = tmp_path / "runs" / "b"
    directory.mkdir(parents=True)
    (directory / "run_manifest.json").write_bytes((runs / "b" / "run_manifest.json").read_bytes())
    broken: list[Any] = [None, 7, HOSTILE, [HOSTILE, 7, None], {HOSTILE: HOSTILE}]
    names: tuple[str, ...] = (
        "fields",
        "citation",
        "evidence",
        "passages",
        "hallucination",
        "abstention",
        "quote",
        "recall",
    )
    names += ("recall_min", "exact_match", "reason", "key_points_in_answer", "should_abstain")
    odd = {
        "field": HOSTILE,
        "must_include": HOSTILE,
        "page": HOSTILE,
        "got": [HOSTILE, 2.5, True],
        "reason": 5,
    }
    nested = {"fields": [odd], "evidence": [odd], "hallucination": {"invented": [odd]}, "reason": HOSTILE}
    nested |= {"citation": {"citations": [odd]}, "quote": {"required": True, "reason": HOSTILE}}
    answer = RagAnswer(
        answer=HOSTILE,
        evidence=[RagEvidence(text=HOSTILE, page=-1)],
        citation=[RagCitation(quote=HOSTILE, page=None)],
    )
    kinds = ("fact_exact", "evidence_set", "conflict_gap")
    various = [*(dict.fromkeys(names, each) for each in broken), nested, nested, nested]
    results = [
        RagResult(
            schema_version="1.0.0",
            run_id="b",
            id=HOSTILE,
            type=kinds[at % 3],  # type: ignore[arg-type]
            question=HOSTILE,
            question_index=at + 1,
            passed=False,
            score=0.0,
            max_score=0.0,
            details=details,
            error=HOSTILE if at % 2 else None,
            answer=answer,
            category=HOSTILE,
            tags=[HOSTILE, ""],
            judge=RagJudged(
                judge="m",
                faithfulness=2.0,
                answer_correctness=4.0,
                faithfulness_reason=HOSTILE,
                error=HOSTILE if at % 4 else None,
            ),
        )
        for at, details in enumerate(various)
    ]
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in results) + b"{bad\n"
    (directory / "rag_results.jsonl").write_bytes(lines)
    async with viewing(tmp_path / "runs", tmp_path) as viewer:
        for query in ("", f"q={quote(HOSTILE[:20])}", f"tag={quote(HOSTILE)}", f"missed={quote(HOSTILE)}"):
            found = await viewer.get(f"/runs/b?{query}")
            assert found.status == 200
            Strict().feed(found.text)
            assert "2 of 5: &lt;script&gt;" in found.text or "missed=" in query
            assert "1 lines of the run cannot be read" in found.text


async def test_a_soak_shows_its_epochs_with_their_runs(viewer: Viewer, runs: Path) -> None:
    page = (await viewer.get("/runs/s")).text
    Strict().feed(page)
    links = re.findall(r'<a href="(/runs/s\.\d+)" title="[^"]+">(\d+)</a>', page)
    assert links == [("/runs/s.000001", "1"), ("/runs/s.000002", "2")]
    for address, _ in links:
        run = await viewer.get(address)
        assert "Context continuity" in run.text
        assert re.search(r'<h2 id="turns">\d+ turns</h2>', run.text)
    coverage = re.search(r'<p class="big"><a href="([^"]+)">', page)
    assert coverage is not None
    assert coverage[1].startswith("/runs/s.000002/turns?metric=m1_context_continuity.")
    assert re.search(r'<h2 id="turns">\d+ turns</h2>', (await viewer.get(coverage[1])).text)
    assert page.count("<polyline ") >= 6
    assert "style=" not in page
    for address in ("/runs/s.000003", "/runs/b.000001", "/runs/s.1", "/runs/s.000001.000001"):
        assert (await viewer.get(address)).status == 404
    assert "/runs/s.000001" not in (await viewer.get("/")).text


async def test_drift_and_errors_of_a_soak_are_marked_and_lost_epochs_have_no_link(
    tmp_path: Path, runs: Path
) -> None:
    directory = tmp_path / "runs" / "s"
    directory.mkdir(parents=True)
    (directory / "soak.jsonl").write_bytes((runs / "s" / "soak.jsonl").read_bytes())
    known = msgspec.json.decode((runs / "s" / "soak_summary.json").read_bytes(), type=SoakSummary)
    falls = Drift(
        first=0.5, last=0.25, mean=0.4, min=0.2, max=0.5, epochs=4, drifting=True, ci95=(-0.3, -0.1)
    )
    known = known.replace(
        metrics=known.metrics | {"m3_risk_coverage.risk_coverage": falls},
        errors=SoakErrors(failed_turns=12, timeouts=5),
    )
    (directory / "soak_summary.json").write_bytes(msgspec.json.encode(known))
    (directory / "epochs").symlink_to(runs / "s" / "epochs")
    async with viewing(tmp_path / "runs", tmp_path) as viewer:
        page = (await viewer.get("/runs/s")).text
        assert re.findall(r"<li>.*?M3 <strong>.*?<span class=\"mini miss\">(drifts)</span>", page)
        assert page.count('class="series-3 drifts"') == 1
        assert page.count('<tr class="drifts">') == 1
        assert re.search("<dt>failed</dt><dd>12</dd>.*<dt>of them timed out</dt><dd>5</dd>", page)
        assert "/runs/s.0" not in page
        assert (await viewer.get("/runs/s.000001")).status == 404
    async with viewing(runs, tmp_path, only="s") as viewer:
        assert (await viewer.get("/runs/s.000001")).status == 200
        assert (await viewer.get("/runs/b")).status == 404
