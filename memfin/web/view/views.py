"""Content of the viewer's pages, read in worker threads: runs, a run, its turns, a dialogue."""

from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from memfin.contracts.reading import read_json
from memfin.journal import layout
from memfin.language import marked, tr
from memfin.report.glossary import METRICS, format_corrected, labels, value_label, word
from memfin.report.model import moment
from memfin.report.reader import SUMMARY, SummaryFile, by_dialog
from memfin.text.lines import one_line
from memfin.web.view.benchmark import PAGE as QUESTIONS
from memfin.web.view.benchmark import questions_page
from memfin.web.view.conversation import excerpt, profile_of, turns_of
from memfin.web.view.corrected import CorrectedRates
from memfin.web.view.figures import PROFILE, figures_of
from memfin.web.view.filters import ANSWER, ANY, CONTRADICTION, KINDS, RANGES, VOTES, Filters, range_words
from memfin.web.view.index import PAGE, Index, Indexes
from memfin.web.view.live import LiveRuns, Snapshot
from memfin.web.view.runs import Catalog, Summary, Value
from memfin.web.view.soak import soak_page

RUNS_PAGE: Final = 100
TREND: Final = 30
"""Runs in a trend, the newest ones."""

Query = Mapping[str, str]
Page = tuple[str, dict[str, Any]]
"""The name of a template, and its values."""


class Refusal(Exception):  # noqa: N818 - an answer, not a malfunction
    """A request that is not answered with a page; ``status`` is that of HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        del code
        super().__init__(message)
        self.status = status


def not_found() -> Refusal:
    """Return the refusal of what is no run or dialogue of the directory."""
    return Refusal(404, "not_found", marked("There is nothing here."))


class Views:
    """The pages of the runs below a directory."""

    def __init__(self, catalog: Catalog, indexes: Indexes) -> None:
        self._catalog = catalog
        self._indexes = indexes
        self.live = LiveRuns(catalog)
        self._corrected = CorrectedRates(catalog)
        self._counted: tuple[object, dict[str, list[tuple[str, int]]]] | None = None

    @property
    def sources(self) -> tuple[Catalog, Indexes]:
        """The runs and their indexes."""
        return self._catalog, self._indexes

    def runs(self, query: Query) -> Page:
        """Return the list of runs, and the trends of their datasets."""
        runs = self._catalog.summaries()
        page = Filters.of(query).page
        shown = runs[(page - 1) * RUNS_PAGE : page * RUNS_PAGE]
        return "runs", {
            "runs": [(run, *self.live.state(run)) for run in shown],
            "leading": _leading,
            "suites": {"dialogues": tr("dialogues"), "rag": tr("benchmark"), "soak": tr("soak")},
            "trends": _trends(runs),
            "pager": _pager(page, len(runs), RUNS_PAGE, Filters()),
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
        found = questions_page(self._catalog.files(run), query)
        pager = _pager(found["filters"].page, found["total"], QUESTIONS, found["filters"])
        return "benchmark", {**self._head(summary), **found, "pager": pager}

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
            trace = index.trace(place)
            turns = turns_of(trace, index.rows(place), index.votes(place), filters.q)
            matching = index.matching(place, filters)
            before, after = (index.neighbour(place, filters, after=each) for each in (False, True))
        difficulty = labels("difficulty").get(trace.difficulty or "")
        return "dialog", {
            "run": run,
            "dialog": dialog,
            "facts": [one_line(each, 80) for each in (trace.scenario_type, difficulty) if each],
            "profile": profile_of(trace),
            "turns": turns,
            "matching": matching if filters.any else set(),
            "before": before,
            "after": after,
            "filters": filters,
            "chosen": chosen_filters(filters, filters.address),
        }

    def _turns(self, query: Query, summary: Summary, *, whole: bool) -> Page:
        filters = Filters.of(query)
        with closing(self._indexes.open(self._files(summary.name))) as index:
            total, lines = index.total(filters), index.lines(filters)
            counts = self._counts(summary.name, index, filters)
            unreadable, dialogs = index.unreadable(), index.dialogs(filters)
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
            "filters": filters,
            "chosen": chosen_filters(filters, filters.address),
            "facets": [(kind, tr(name), _labelled(kind, counts[kind])) for kind, name in KINDS.items()],
            "total": total,
            "lines": lines,
            "unreadable": unreadable,
            "missed": dict(counts["failed"]),
            "pager": _pager(filters.page, total, PAGE, filters),
            "word": word,
            "excerpt": excerpt,
            "statuses": labels("turn_status"),
        }

    def _counts(self, run: str, index: Index, filters: Filters) -> dict[str, list[tuple[str, int]]]:
        """Return the counts of the facets, which are slow to make and the same on all pages of a list."""
        key = (run, index.key(), filters._replace(page=1))
        known = self._counted
        if known is None or known[0] != key:
            self._counted = known = (key, index.counts(filters))
        return known[1]

    def _profiles(self, summary: Summary) -> dict[str, float]:
        """Return the profile score of each dialogue."""
        path = self._files(summary.name)[SUMMARY]
        metric, _, value = PROFILE.partition(".")
        found = read_json(path, SummaryFile).metrics.get(metric)
        return {} if found is None else by_dialog(path.parent, metric, value, found)

    def _head(self, summary: Summary) -> dict[str, Any]:
        """Return facts and values of a run; those so far where it goes on."""
        live = self.live.values(summary)
        if live is None:
            return {**_head(summary), "live": None}
        snapshot: Snapshot = live["live"]
        return (
            _head(summary._replace(values=snapshot.values or summary.values, state="", ended=None))
            | live
            | {"moment": moment}
        )

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
    titles = {metric.code: metric.title for metric in METRICS}
    return {"run": summary, "facts": shown, "cards": cards, "titles": titles}


def _states() -> dict[str, str]:
    return {**labels("soak_states"), "unfinished": tr("not finished")}


def facet_label(kind: str, value: str) -> str:
    """Return the value of a filter in words."""
    if kind in ("failed", "metric"):
        if value == ANSWER:
            return tr("No answer")
        metric, _, key = value.partition(".")
        code = next((text.code for text in METRICS if text.name == metric), metric)
        return one_line(f"{code} {value_label(key)}", 80)
    if kind in RANGES:
        return range_words(value)
    known = {
        "difficulty": labels("difficulty"),
        "status": labels("turn_status"),
        "unsure": {ANY: tr("anything"), VOTES: tr("the judge"), CONTRADICTION: tr("a constraint")},
        **dict.fromkeys(("key", "missed"), labels("keys")),
    }.get(kind, {})
    return known.get(value) or (word(value) if kind in ("label", "unsure") else one_line(value, 80))


def _labelled(kind: str, counts: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """Return values, labels and counts of a facet, those of metrics in their order."""
    found = [(value, facet_label(kind, value), count) for value, count in counts]
    by_name = kind in ("failed", "metric")
    return sorted(found, key=lambda each: (each[0] != ANSWER, each[0])) if by_name else found


def chosen_filters(filters: Filters, address: Callable[..., str]) -> list[tuple[str, str, str]]:
    """Return the filters that are set: name, value in words, and the query string without each."""
    chosen = [
        (tr((KINDS | RANGES)[kind]), facet_label(kind, value), address(**{kind: None}))
        for kind, value in filters.values.items()
    ]
    if filters.q:
        chosen.append((tr("Text"), one_line(filters.q, 80), address(q=None)))
    return chosen


def _pager(page: int, total: int, size: int, filters: Filters) -> dict[str, Any]:
    return pager_of(page, total, size, filters.address)


def pager_of(page: int, total: int, size: int, address: Callable[..., str]) -> dict[str, Any]:
    """Return the number of a page, and the query strings of the pages before and after it."""
    pages = max(1, -(-total // size))
    return {
        "page": page,
        "pages": pages,
        "before": address(page=page - 1) if 1 < page <= pages + 1 else None,
        "after": address(page=page + 1) if page < pages else None,
    }


def _trends(runs: list[Summary]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the courses of the leading values of each dataset with several finished runs."""
    finished = [run for run in runs if run.values and run.dataset]
    found = []
    for dataset in dict.fromkeys(run.dataset for run in finished):
        same = [run for run in finished if run.dataset == dataset][:TREND][::-1]
        courses: dict[str, list[Value]] = {}
        for run in same:
            for value in _leading(run):
                if value.number is not None:
                    courses.setdefault(value.name, []).append(value)
        trends = [_trend(values) for values in courses.values() if len(values) > 1]
        if trends:
            found.append((one_line(dataset, 200), trends))
    return found


def _leading(run: Summary) -> list[Value]:
    """Return the first value of each metric."""
    found: dict[str, Value] = {}
    for value in run.values:
        found.setdefault(value.code or value.name, value)
    return list(found.values())


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
