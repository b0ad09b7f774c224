"""Content of a benchmark's page: questions under filters, with what the scorer found in each answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memfin.contracts import Finding
from memfin.contracts.rag import RagGroup, RagResult, read_sums
from memfin.contracts.reading import iter_jsonl
from memfin.language import marked, tr
from memfin.rag.extraction.facts import facts_in, ordering_masked, parse_date
from memfin.report.glossary import TYPES, labels
from memfin.report.model import Evidence, Item, milliseconds, percent
from memfin.report.rag_report import judge_evidence, plain
from memfin.text.lines import one_line
from memfin.web.view.conversation import marked_text, with_targets
from memfin.web.view.figures import Cell, Table
from memfin.web.view.filters import Filters, list_of

PAGE: Final = 50
"""Questions on a page."""

KINDS: Final = {
    "result": marked("Result"),
    "missed": marked("Falls short in"),
    "type": marked("Type"),
    "gap": marked("Left open by the document"),
    "refused": marked("Declined"),
    "difficulty": marked("Difficulty"),
    "category": marked("Category"),
    "tag": marked("Tag"),
}
"""Facets of questions with their names for readers."""

_RESULTS: Final = {
    "passed": marked("Passed"),
    "failed": marked("Not passed"),
    "error": marked("without an answer"),
}
_YES_NO: Final = {"yes": marked("yes"), "no": marked("no")}
_TYPES: Final = {text.name: text for text in TYPES}
_MAX_GROUPS: Final = 12
_SLACK: Final = 1e-9


def questions_page(files: Mapping[str, Path], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the questions that meet the filters of a query, for the template.

    Args:
        files: ``rag_results.jsonl`` and, of a finished run, ``rag_summary.json``.
        query: the fields of the address.
    """
    filters = Filters.of(query, KINDS)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    shown: list[dict[str, Any]] = []
    total = unreadable = 0

    def skip(*_: object) -> None:
        nonlocal unreadable
        unreadable += 1

    path = files.get("rag_results.jsonl")
    for _, one in iter_jsonl(path, RagResult, on_error=skip) if path is not None else ():
        if not _has(one, filters.q):
            continue
        facets = set(_facets(one))
        unmet = [kind for kind, value in filters.values.items() if (kind, value) not in facets]
        for kind, value in facets if len(unmet) < 2 else ():  # noqa: PLR2004 - under all others, or another
            if not unmet or unmet == [kind]:
                counts[kind][value] += 1
        if not unmet:
            if (filters.page - 1) * PAGE <= total < filters.page * PAGE:
                shown.append(_question(one, filters.q))
            total += 1
    summary = files.get("rag_summary.json")
    ordered = {
        kind: sorted(found.items(), key=lambda each: (-each[1], each[0])) for kind, found in counts.items()
    }
    return {
        **list_of(filters, total, PAGE, KINDS, _label, ordered),
        "whole": not filters.any and filters.page == 1,
        "unreadable": unreadable,
        "questions": shown,
        "tables": list(_tables(summary)) if summary is not None else [],
    }


def _has(one: RagResult, text: str) -> bool:
    answer = one.answer.answer if one.answer is not None else ""
    return text.casefold() in "\n".join((one.id, one.question, answer, one.error or "")).casefold()


def _facets(one: RagResult) -> Iterator[tuple[str, str]]:
    yield "result", "passed" if one.passed else "failed"
    if one.error is not None:
        yield "result", "error"
    yield from (("missed", key) for key, _, _, value, least in _parts(one) if value < least)
    yield "type", one.type
    yield "gap", "yes" if one.details.get("should_abstain") else "no"
    yield "refused", "yes" if _is_declined(one) else "no"
    if one.difficulty:
        yield "difficulty", one.difficulty
    if one.category:
        yield "category", one.category
    yield from (("tag", tag) for tag in one.tags if tag)


def _is_declined(one: RagResult) -> bool:
    """Return True for an answer that declines, by the scorer's reading where it has one."""
    if (read := _mapping(one.details.get("abstention"))) is not None:
        return bool(read.get("abstained"))
    return one.details.get("reason") == "abstained" or bool(one.answer is not None and one.answer.abstained)


def _label(kind: str, value: str) -> str:
    """Return the value of a filter in words."""
    if kind == "type" and value in _TYPES:
        return _TYPES[value].title
    if kind == "missed":
        return next(
            (label for text in TYPES for key, label, _ in text.parts if key == value), one_line(value, 80)
        )
    if kind == "difficulty":
        return labels("difficulty").get(value, one_line(value, 80))
    known = {"result": _RESULTS, "gap": _YES_NO, "refused": _YES_NO}.get(kind, {})
    return tr(known[value]) if value in known else one_line(value, 80)


def _tables(path: Path) -> Iterator[Table]:
    """Yield the tables of the summary by group: asked, passed, and the share of the score."""
    summary = read_sums(path)
    headings = (tr("Group"), tr("Asked"), tr("Passed"), tr("Score"))
    for kind, title in (
        ("type", tr("By type")),
        ("difficulty", tr("By difficulty")),
        ("category", tr("By category")),
        ("tag", tr("By tag")),
    ):
        found: Mapping[str, RagGroup] = summary[f"by_{kind}"]
        rows: list[tuple[str, list[Cell | None]]] = []
        for name, group in sorted(found.items(), key=lambda each: (-each[1].count, each[0]))[:_MAX_GROUPS]:
            asked, passed = (Filters({kind: name, **more}).address() for more in ({}, {"result": "passed"}))
            share = min(max(group.total_score / group.max_score, 0.0), 1.0) if group.max_score else 0.0
            cells = [Cell(f"{group.count:,}", asked), Cell(f"{group.passed:,}", passed)]
            if group.count:
                rows.append((_label(kind, name), [*cells, Cell(percent(share), asked, share)]))
        if rows:
            yield title, headings, rows


def _question(one: RagResult, search: str) -> dict[str, Any]:
    """Return a question with its answer and everything beside them."""
    answer = one.answer
    missed = [label for _, label, _, value, least in _parts(one) if value < least]
    why = one.error or (tr("falls short in: {parts}", parts=tr(", ").join(missed)) if missed else "")
    facts = [_label("type", one.type), _label("difficulty", one.difficulty or ""), one.category, *one.tags]
    if one.latency_ms is not None:
        facts.append(milliseconds(one.latency_ms))
    return {
        "number": one.question_index,
        "id": one_line(one.id, 80),
        "passed": one.passed,
        "score": f"{one.score:.2f} / {one.max_score:.2f}",
        "facts": [one_line(fact, 60) for fact in facts if fact],
        "why": "" if one.passed else one_line(why, 400),
        "question": marked_text(one.question, (), search),
        "answer": None if answer is None else marked_text(answer.answer, list(_marks(one)), search),
        "sections": [each for each in _sections(one) if each.items],
        "evidence": list(_evidence(one)),
    }


def _parts(one: RagResult) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield name, label, weight and value of the parts of a score, and the value that each should reach."""
    for key, label, weight in _TYPES[one.type].parts:
        value, least = one.details.get(key), one.details.get(f"{key}_min", 1.0)
        if isinstance(value, bool | int | float) and isinstance(least, int | float):
            yield key, label, weight, float(value), least - _SLACK


def _marks(one: RagResult) -> Iterator[Finding]:
    """Yield what the scorer found in the answer: expected values, inventions, required words, citations."""
    text = one.answer.answer if one.answer is not None else ""
    masked = ordering_masked(text)
    facts = facts_in(masked) if len(masked) == len(text) else ()

    def words(wanted: object, level: str, name: str) -> Iterator[Finding]:
        if isinstance(wanted, str) and wanted and (at := text.find(wanted)) >= 0:
            yield Finding(field=level, value=name, rule=tr("scorer"), start=at, end=at + len(wanted))

    for field in _mappings(one.details.get("fields")):
        got, level = field.get("got"), "hit" if field.get("matched") else "miss"
        name = _field_name(field)
        for each in got if isinstance(got, list) else list(got.values()) if isinstance(got, dict) else [got]:
            yield from words(each, level, name)
            value = parse_date(each) if isinstance(each, str) else each
            for fact in facts if value is not None and not isinstance(value, bool) else ():
                if fact.value == value:
                    yield Finding(field=level, value=name, rule=tr("scorer"), start=fact.start, end=fact.end)
    for invented in _mappings((_mapping(one.details.get("hallucination")) or {}).get("invented")):
        yield from words(invented.get("text"), "miss", tr("not in the document"))
    for wanted in _required(one):
        yield from words(wanted.get("must_include"), "hit", tr("required words"))
    for quote in one.answer.citation if one.answer is not None else ():
        yield from words(quote.quote, "quote", tr("cited"))


def _sections(one: RagResult) -> Iterator[Evidence]:
    """Yield the parts of the score and what was expected, each with hit or miss."""
    details = one.details
    parts = []
    for _, label, weight, value, least in _parts(one):
        words = tr("{part}: {value:.0%}, weight {weight}", part=label, value=value, weight=weight)
        if 0 < least < 1 - 2 * _SLACK:
            words += tr(", at least {least:.0%}", least=least)
        parts.append(Item(words, "miss" if value < least else "hit"))
    if reason := details.get("reason"):
        parts.append(Item(_reason(reason), "miss"))
    yield Evidence(tr("Score by part"), tuple(parts))
    yield Evidence(tr("Expected values"), tuple(map(_field, _mappings(details.get("fields")))))
    yield Evidence(tr("Required evidence"), tuple(map(_wanted, _required(one))))
    points = details.get("key_points_in_answer")
    yield Evidence(
        tr("Key points"),
        tuple(
            Item(tr("key point {number}", number=number), _status(bool(met)))
            for number, met in enumerate(points if isinstance(points, list) else (), 1)
        ),
    )
    yield Evidence(tr("Conflict or gap"), tuple(_gap(details)))
    yield from judge_evidence(one)


def _gap(details: Mapping[str, Any]) -> Iterator[Item]:
    if (read := _mapping(details.get("abstention"))) is not None:
        wanted, declined = bool(details.get("should_abstain")), bool(read.get("abstained"))
        words = tr(
            "should decline: {wanted}, declined: {declined}", wanted=plain(wanted), declined=plain(declined)
        )
        yield Item(words, _status(bool(details.get("correct_abstention"))))
    check = _mapping(details.get("hallucination")) or {}
    for fact in _mappings(check.get("invented")):
        yield Item(tr("not in the document: {words}", words=one_line(str(fact.get("text")), 120)), "miss")
    if check.get("checked") is False:
        yield Item(tr("inventions: not checked, without a document"), "unknown")
    quote = _mapping(details.get("quote")) or {}
    if quote.get("required"):
        reason = quote.get("reason")
        words = _reason(reason) if reason else tr("found")
        yield Item(tr("required quote: {words}", words=words), _status(not reason))


def _evidence(one: RagResult) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield source, status and text of the evidence and citations of an answer, in their ranks."""
    if one.answer is None:
        return
    evidence, details = one.answer.evidence, one.details
    targets = [str(wanted.get("must_include") or "") for wanted in _required(one)]
    cited = (_mapping(details.get("citation")) or {}).get("citations")
    for title, texts, entries in (
        (tr("Evidence"), [(each.text, each.page) for each in evidence], details.get("passages")),
        (tr("Citation"), [(each.quote, each.page) for each in one.answer.citation], cited),
    ):
        results = _mappings(entries)
        for rank, (text, page) in enumerate(texts, 1):
            about, status = [f"{title} {rank}"], ""
            if page is not None:
                about.append(tr("p. {page}", page=page))
            if len(results) == len(texts):  # repeated evidence counts once
                reason = results[rank - 1].get("reason")
                status = "miss" if reason else "hit"
                about += [_reason(reason)] if reason else []
            yield " · ".join(about), status, with_targets(text, [target for target in targets if target])


def _field(field: Mapping[str, Any]) -> Item:
    words = {key: one_line(_value(field.get(key)), 200) for key in ("expected", "got")}
    text = tr("{name}: expected {expected}, got {got}", name=_field_name(field), **words)
    reason = field.get("reason")
    return Item(f"{text} ({_reason(reason)})" if reason else text, _status(bool(field.get("matched"))))


def _value(value: object) -> str:
    """Write a value of an answer: a breakdown with commas, a period with a dash."""
    if isinstance(value, list):
        return tr(", ").join(map(_value, value))
    if isinstance(value, dict):
        return " – ".join(map(_value, value.values()))
    return f"{value:,.12g}" if isinstance(value, float) else plain(value)


def _field_name(field: Mapping[str, Any]) -> str:
    return one_line(str(field.get("field", "?")), 40).replace("_", " ")


def _required(one: RagResult) -> Sequence[Mapping[str, Any]]:
    """Return the required evidence with what became of each: ``found`` or, of citations, ``cited``."""
    citation = _mapping(one.details.get("citation")) or {}
    return _mappings(one.details.get("evidence")) or _mappings(citation.get("evidence"))


def _wanted(wanted: Mapping[str, Any]) -> Item:
    page = wanted.get("page")
    place = "" if page is None else tr("p. {page}: ", page=one_line(str(page), 20))
    status = _status(bool(wanted.get("found", wanted.get("cited"))))
    return Item(place + one_line(str(wanted.get("must_include")), 200), status)


def _status(met: bool) -> Any:
    return "hit" if met else "miss"


def _reason(code: object) -> str:
    """Return a reason of the scorer in words."""
    return labels("rag_reasons").get(str(code), one_line(str(code), 120).replace("_", " "))


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None


def _mappings(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
