"""Content of the viewer's pages, read in worker threads: runs, a run, its turns, a dialogue."""

from collections.abc import Mapping
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from memfin.contracts.rag import RagResult
from memfin.contracts.reading import iter_jsonl
from memfin.journal import layout
from memfin.language import marked, tr
from memfin.report.glossary import METRICS, labels, value_label, word
from memfin.report.model import moment
from memfin.text.lines import one_line
from memfin.web.view.conversation import profile_of, turns_of
from memfin.web.view.filters import ANSWER, KINDS, Filters
from memfin.web.view.index import PAGE, Indexes
from memfin.web.view.live import LiveRuns, Snapshot
from memfin.web.view.runs import Catalog, Summary, Value

RUNS_PAGE: Final = 100
QUESTIONS_PAGE: Final = 50
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
        }

    def run(self, query: Query, run: str) -> Page:
        """Return the page of a run: its values, and its turns with filters."""
        summary = self._summary(run)
        if summary.suite == "dialogues" and not summary.problem:
            return self._turns(query, summary, whole=True)
        return "plain", {**self._head(summary), **self._questions(query, run)}

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
            turns = turns_of(trace, index.rows(place), index.votes(place))
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
            "chosen": _chosen(filters),
        }

    def _turns(self, query: Query, summary: Summary, *, whole: bool) -> Page:
        filters = Filters.of(query)
        with closing(self._indexes.open(self._files(summary.name))) as index:
            total, counts, lines = index.total(filters), index.counts(filters), index.lines(filters)
            unreadable = index.unreadable()
        return "run", {
            **self._head(summary),
            "whole": whole and not filters.any and filters.page == 1,
            "filters": filters,
            "chosen": _chosen(filters),
            "facets": [(kind, tr(name), _labelled(kind, counts[kind])) for kind, name in KINDS.items()],
            "total": total,
            "lines": lines,
            "unreadable": unreadable,
            "missed": dict(counts["failed"]),
            "pager": _pager(filters.page, total, PAGE, filters),
            "word": word,
            "statuses": labels("turn_status"),
        }

    def _questions(self, query: Query, run: str) -> dict[str, Any]:
        """Return a page of the questions of a benchmark."""
        path = self._catalog.files(run).get(layout.RAG_RESULTS)
        page = Filters.of(query).page
        shown = range((page - 1) * QUESTIONS_PAGE, page * QUESTIONS_PAGE)
        found: list[RagResult] = []
        total = 0
        for _, one in iter_jsonl(path, RagResult) if path is not None else ():
            if total in shown:
                found.append(one)
            total += 1
        return {"questions": found, "pager": _pager(page, total, QUESTIONS_PAGE, Filters())}

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


def _facet_label(kind: str, value: str) -> str:
    if kind in ("failed", "metric"):
        if value == ANSWER:
            return tr("No answer")
        metric, _, key = value.partition(".")
        code = next((text.code for text in METRICS if text.name == metric), metric)
        return one_line(f"{code} {value_label(key)}", 80)
    if kind == "difficulty":
        return labels("difficulty").get(value, one_line(value, 60))
    return word(value) if kind == "label" else one_line(value, 80)


def _labelled(kind: str, counts: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """Return values, labels and counts of a facet, those of metrics in their order."""
    found = [(value, _facet_label(kind, value), count) for value, count in counts]
    by_name = kind in ("failed", "metric")
    return sorted(found, key=lambda each: (each[0] != ANSWER, each[0])) if by_name else found


def _chosen(filters: Filters) -> list[tuple[str, str, str]]:
    """Return the filters that are set: name, value in words, and the query string without each."""
    chosen = [
        (tr(KINDS[kind]), _facet_label(kind, value), filters.address(**{kind: None}))
        for kind, value in filters.values.items()
    ]
    if filters.q:
        chosen.append((tr("Text"), one_line(filters.q, 80), filters.address(q=None)))
    return chosen


def _pager(page: int, total: int, size: int, filters: Filters) -> dict[str, Any]:
    pages = max(1, -(-total // size))
    return {
        "page": page,
        "pages": pages,
        "before": filters.address(page=page - 1) if 1 < page <= pages + 1 else None,
        "after": filters.address(page=page + 1) if page < pages else None,
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
