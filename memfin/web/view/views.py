"""Content of the viewer's pages, read in worker threads: runs, a run, its turns, a dialogue."""

from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from memfin.contracts.reading import read_json
from memfin.journal import layout
from memfin.language import tr
from memfin.report.glossary import ALL_METRICS, format_corrected, labels, word
from memfin.report.model import moment
from memfin.report.reader import SUMMARY, SummaryFile, by_dialog
from memfin.text.lines import one_line
from memfin.web.pages import not_found
from memfin.web.view.benchmark import questions_page
from memfin.web.view.conversation import excerpt, head_of, turns_of
from memfin.web.view.corrected import CorrectedRates
from memfin.web.view.figures import PROFILE, figures_of
from memfin.web.view.filters import Filters, Page, Query, list_of
from memfin.web.view.index import PAGE, Counts, Index, Indexes
from memfin.web.view.live import LiveRuns, Snapshot
from memfin.web.view.runs import Catalog, Recent, Summary, Value, leading
from memfin.web.view.soak import soak_page

RUNS_PAGE: Final = 100
TREND: Final = 30
"""Runs in a trend, the newest ones."""


class Views:
    """The pages of the runs below a directory."""

    def __init__(self, catalog: Catalog, indexes: Indexes) -> None:
        self._catalog = catalog
        self._indexes = indexes
        self.live = LiveRuns(catalog)
        self._corrected = CorrectedRates(catalog)
        self._counted = Recent[Counts](1)

    @property
    def sources(self) -> tuple[Catalog, Indexes]:
        """The runs and their indexes."""
        return self._catalog, self._indexes

    def runs(self, query: Query) -> Page:
        """Return the list of runs, and the trends of their datasets."""
        runs = self._catalog.summaries()
        filters = Filters.of(query, ())._replace(q="")
        shown = runs[(filters.page - 1) * RUNS_PAGE : filters.page * RUNS_PAGE]
        return "runs", {
            "runs": [(run, *self.live.state(run)) for run in shown],
            "live": True,
            "leading": leading,
            "suites": {"dialogues": tr("dialogues"), "rag": tr("benchmark"), "soak": tr("soak")},
            "trends": list(_trends(runs)),
            **list_of(filters, len(runs), RUNS_PAGE),
            "moment": moment,
            "states": _states(),
            "comparable": self._catalog.comparable(),
        }

    def run(self, query: Query, run: str) -> Page:
        """Return the page of a run: its values, and its turns with filters."""
        summary = self._summary(run)
        if summary.suite == "dialogues" and not summary.problem:
            return self._turns(query, summary, whole=True)
        if summary.suite == "soak":
            return "soak", {**self._head(summary), **soak_page(self._catalog, run)}
        if summary.problem:
            return "problem", {"words": summary.problem}
        return "benchmark", {**self._head(summary), **questions_page(self._catalog.files(run), query)}

    def live_state(self, run: str) -> Snapshot | None:
        """Return the state of a run that goes on, None for one that has finished."""
        return self.live.read(self._summary(run))

    def live_part(self, query: Query, run: str) -> Page:
        """Return what changes of the page of a run while it goes on."""
        del query
        return "live_run", self._head(self._summary(run))

    def turns(self, query: Query, run: str) -> Page:
        """Return the turns of a run that meet the filters."""
        return self._turns(query, self._summary(run), whole=False)

    def dialog(self, query: Query, run: str, dialog: str) -> Page:
        """Return the conversation of a dialogue; the filters decide which turns and dialogues come next."""
        filters = Filters.of(query)._replace(page=1)
        with closing(self._indexes.open(self._files(run))) as index:
            place = index.dialog(dialog)
            if place is None:
                raise not_found()
            trace, rows, votes = index.records(place)
            matching = index.matching(place, filters)
            neighbours = [index.neighbour(place, filters, after=each) for each in (False, True)]
            before, after = (each and (quote(each["name"], safe=""), each["number"]) for each in neighbours)
        return "dialog", {
            "run": run,
            **head_of(trace),
            "turns": turns_of(trace, rows, votes, filters.q),
            "matching": matching if filters.any else set(),
            "before": before,
            "after": after,
            **list_of(filters, 0, PAGE),
        }

    def _turns(self, query: Query, summary: Summary, *, whole: bool) -> Page:
        filters = Filters.of(query)
        with closing(self._indexes.open(self._files(summary.name))) as index:
            (total, dialogs), lines = index.totals(filters), index.lines(filters)
            counts = self._counts(summary.name, index, filters)
            unreadable = int(index.meta("unreadable"))
            whole = whole and not filters.any and filters.page == 1
            figures = (
                figures_of(index, summary.values, dict(counts["missed"]), self._profiles(summary))
                if whole and summary.values
                else {}
            )
        corrected, labels_problem = self._corrected.of(summary.name) if whole else ({}, "")
        return "run", {
            **self._head(summary),
            **figures,
            "corrected": corrected,
            "labels_problem": labels_problem,
            "format_corrected": format_corrected,
            "whole": whole,
            "comparable": self._catalog.comparable(summary) if whole and summary.values else {},
            "dialogs": dialogs,
            "counted": dict(counts["metric"]),
            **list_of(filters, total, PAGE, counts=counts),
            "lines": lines,
            "unreadable": unreadable,
            "missed": dict(counts["failed"]),
            "word": word,
            "excerpt": excerpt,
            "statuses": labels("turn_status"),
        }

    def _counts(self, run: str, index: Index, filters: Filters) -> Counts:
        """Return the counts of the facets, which are slow to make and the same on all pages of a list."""
        state = (run, index.meta("key"), filters._replace(page=1))
        return self._counted.get(None, state, lambda: index.counts(filters))

    def _profiles(self, summary: Summary) -> dict[str, float]:
        """Return the profile score of each dialogue."""
        path = self._files(summary.name)[SUMMARY]
        metric, _, value = PROFILE.partition(".")
        found = read_json(path, SummaryFile).metrics.get(metric)
        return {} if found is None else by_dialog(path.parent, metric, value, found)

    def _head(self, summary: Summary) -> dict[str, Any]:
        """Return facts and values of a run; those so far where it goes on."""
        live = self.live.read(summary)
        if live is not None:
            summary = summary._replace(values=live.values or summary.values, state="", ended=None)
        command = self._catalog.command(summary.name)
        return {**_head(summary), "live": live, "command": command, "moment": moment}

    def _summary(self, run: str) -> Summary:
        summary = self._catalog.summary(run)
        if summary is None:
            raise not_found()
        return summary

    def _files(self, run: str) -> dict[str, Path]:
        files = self._catalog.files(run)
        if layout.DIALOG_TRACE not in files:
            raise not_found()
        return files


def _head(summary: Summary) -> dict[str, Any]:
    facts = (
        (tr("Agent"), summary.agent),
        (tr("Dataset"), summary.dataset),
        (tr("Started"), moment(summary.started)),
        (tr("Ended"), moment(summary.ended)),
        (tr("State"), _states().get(summary.state, summary.state)),
    )
    cards = [(code, list(group)) for code, group in groupby(summary.values, key=attrgetter("code"))]
    if not any(code for code, _ in cards):
        cards = [("", [value]) for value in summary.values]
    shown = [(name, one_line(value, 300)) for name, value in facts if value]
    home = f"/runs/{quote(summary.name)}"
    addresses = {value.name: f"{home}/turns?metric={quote(value.name)}" for value in summary.values}
    if summary.suite == "rag":
        addresses = {"score": "#questions", "pass_rate": f"{home}?result=passed"}
    return {
        "run": summary,
        "facts": shown,
        "cards": cards,
        "titles": {metric.code: metric.title for metric in ALL_METRICS},
        "addresses": addresses,
    }


def _states() -> dict[str, str]:
    return {**labels("soak_states"), "unfinished": tr("not finished")}


def _trends(runs: list[Summary]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the courses of the leading values of each dataset with several finished runs."""
    finished = [run for run in runs if run.values and run.dataset]
    for dataset in dict.fromkeys(run.dataset for run in finished):
        courses: dict[str, list[Value]] = {}
        for run in [run for run in finished if run.dataset == dataset][:TREND][::-1]:
            for value in leading(run.values):
                if value.number is not None:
                    courses.setdefault(value.name, []).append(value)
        if trends := [_trend(values) for values in courses.values() if len(values) > 1]:
            yield one_line(dataset, 200), trends


def _trend(values: list[Value]) -> dict[str, str]:
    """Return the course of a value, oldest first; its points are in a box of 100 by 30."""
    numbers = [value.number or 0.0 for value in values]
    low, high = min(numbers), max(numbers)
    span = (high - low) or 1.0
    words = tr(", ").join(value.text for value in values)
    step = 100 / (len(numbers) - 1)
    heights = (27 - 24 * (number - low) / span for number in numbers)
    points = " ".join(f"{step * at:.2f},{height:.2f}" for at, height in enumerate(heights))
    label = f"{values[-1].code} {values[-1].label}".strip()
    return {"label": label, "points": points, "text": values[-1].text, "alt": f"{label}: {words}"}
