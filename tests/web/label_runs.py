"""A run to label, full of texts that no page may show too early or run at all, and servers of its pages."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import ClientSession, CookieJar
from aiohttp.test_utils import TestServer
from yarl import URL

from memfin.contracts import Finding, TurnEvalRow
from memfin.contracts.dataset import ProfileTruth
from memfin.validity.labelling import LabelDraw, LabelStore, open_draw
from memfin.web.label.application import label_application
from memfin.web.label.views import LabelViews
from memfin.web.view.index import Indexes
from memfin.web.view.runs import Catalog
from tests.commands import Command
from tests.report.report_run_factory import row, summary, trace, turn, write_run
from tests.web.view_runs import Answer, write_votes

HOSTILE = '<script>alert(1)</script>\r\n<img src=x onerror="alert(2)">\u202e😀 "保本" \'&amp;'
"""A reply with markup, a line end of two characters, a direction mark and one beyond 16 bits."""

RULE, REASON, CONSTRAINT = "rule.of.a.detector", "VERDICT-OF-THE-JUDGE", "现金 ≥20% <b>"
SECRETS = (RULE, REASON, "severe.slogan", "words-of-the-reference", 'class="chip')
"""What a page shows of detectors, judge and reference reply, and only after the label is saved."""


def write_label_run(directory: Path, dialogs: int = 6, turns: int = 4) -> Path:
    """Write a run whose replies are hostile, with findings and verdicts in every turn."""
    traces, rows = [], []
    for number in range(dialogs):
        name = f"d/{number} <i>"
        replies = [turn(at, f"问{at}", f"{HOSTILE} {number}.{at}") for at in range(1, turns + 1)]
        traces.append(
            trace(
                name,
                [each.replace(gt_assistant_text="words-of-the-reference") for each in replies],
                dataset_index=number + 1,
                profile_gt=ProfileTruth(constraints_gt=[CONSTRAINT, "不用杠杆"], risk_level_gt="稳健"),
            )
        )
        rows += [_row(name, at) for at in range(1, turns + 1)]
    write_run(directory, traces, rows, summary(run_id=directory.name), extras=True)
    write_votes(directory, rows, REASON)
    return directory


def _row(dialog: str, at: int) -> TurnEvalRow:
    return row(
        dialog,
        at,
        risk_required_tags=["volatility_risk", "<tag>"],
        rubric_hit_items=[],
        pred_compliance_label="severe_violation",
        forbidden_hits=["severe.slogan"],
        judge_score_1_5=2.0,
        findings=[
            Finding(field="compliance", value="保本保收益", rule=RULE, start=0, end=8),
            Finding(field="constraint_contradiction", value=CONSTRAINT, rule=RULE, start=9, end=12),
        ],
    )


class Form(HTMLParser):
    """The values with which a browser would send the form of a page without a script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: list[tuple[str, str]] = []
        self._inside = False
        self._area: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("class") == "questions"
        elif self._inside and tag == "textarea":
            self._area = given["name"]
        elif self._inside and tag == "input" and (given["type"] == "hidden" or "checked" in given):
            self.fields.append((given["name"], given["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        if tag == "textarea" and self._area is not None:
            self.fields.append((self._area, ""))
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.fields.append((self._area, data))
            self._area = None


class Labelling(NamedTuple):
    """A running server of labelling pages, and its file."""

    url: str
    client: ClientSession
    store: LabelStore
    draw: LabelDraw

    async def get(self, path: str, reader: str = "ann", **options: Any) -> Answer:
        return await self.ask("GET", path, reader, **options)

    async def post(
        self, path: str, fields: list[tuple[str, str]], reader: str = "ann", **headers: str
    ) -> Answer:
        given = {"Origin": self.url, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await self.ask("POST", path, reader, data=fields, headers=given)

    async def ask(self, method: str, path: str, reader: str, **options: Any) -> Answer:
        cookies = {"memfin_label_reader": reader} if reader else {}
        async with self.client.request(
            method, URL(self.url + path, encoded=True), allow_redirects=False, cookies=cookies, **options
        ) as response:
            return Answer(response.status, dict(response.headers), await response.text())

    def places(self) -> list[str]:
        return [f"/turns/{quote(each.dialog_id, safe='')}/{each.turn}" for each in self.draw.turns]


@asynccontextmanager
async def labelling(run: Path, spare: Path, **options: Any) -> AsyncIterator[Labelling]:
    access = {name: options.pop(name) for name in ("token", "language") if name in options}
    reader = options.pop("reader", None)
    store = LabelStore(run / "labels.jsonl")
    draw = open_draw(run, store, **options)
    files = Catalog(run.parent, run.name).files(run.name)
    views = LabelViews(store, draw, files, Indexes(spare), reader=reader)
    async with (
        TestServer(label_application(views, **access)) as server,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as client,
    ):
        yield Labelling(str(server.make_url("")).rstrip("/"), client, store, draw)


@contextmanager
def label_process(run: Path, *words: object, port: int = 0) -> Iterator[tuple[Command, str]]:
    """Start ``memfin label``; yields the process and its address."""
    process = Command("label", run, "--port", port, *words)
    try:
        line = process.first_line()
        assert line.startswith("memfin label server: http://"), line
        yield process, line.split()[-1].rstrip("/")
    finally:
        process.kill()
        process.communicate()
