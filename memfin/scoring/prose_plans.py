"""Allocations in sentences: parts with their shares, sums of money, remainders, ratios and additions.

``60%债券+25%股票+15%现金`` is a plan, and so are 总共50万,45万买基金,其余留活期 (a total with its parts),
股债按6比4 and 已有25%,再加一成, which is one holding of 35 %.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from memfin.scoring.proposals import (
    COMPARED,
    MAX_NAME,
    MIN_PARTS,
    NO_PLAN,
    NO_WEIGHT,
    NONE_BEHIND,
    TOLERANCE,
    WHOLE,
    WHOLE_SLACK,
    Holding,
    Proposal,
    adds_up,
    classes_in,
    count_of,
    holding_of,
    proposal_of,
)
from memfin.scoring.vocabulary import class_finder, term_finder
from memfin.text.document import Document
from memfin.text.quantities import Quantity

_MAX_LINE: Final = 4000
_NEAR: Final = 14
_COUNT_REACH: Final = 20
_NAME_BEHIND: Final = 24
_CHANGES: Final = ("多", "少", "再", "加", "减", "了", "比")
_SENTENCE_BREAK: Final = re.compile(r"[。!?\n]")
_SENTENCE_MARK: Final = re.compile(r"[,。!?;:、()\n]")
_SEPARATOR: Final = re.compile(r"[,、;+:和与及|/]|(?: and )|\n")
_REST: Final = re.compile(
    r"其余|剩下|剩余|余下|余款|剩的|另外的|other half|(?:the )?(?:rest|remaining|remainder|balance)\b"
)
_CASH_USE: Final = re.compile(
    r"周转|备用|应急|急用|日常|零用|手边|手头|卡里|过日子|不动|灵活|living|everyday|at hand|spare"
)
_HELD: Final = re.compile(
    r"(?:已有|已经有|已占|现有|现占|目前|现在|如今|先买|先配|先给|先上|起始|持有|账户里|占|already|currently|today|hold|have|now)"
    r"[^,。;]{0,16}$"
)
_MORE_WORD: Final = re.compile(
    r"[再又添加补增调提fam](?:(?<=[再又添加补])|(?<=增)加|(?<=上)调|(?<=提)高|(?<=\bf)urther|(?<=\ba)(?:nother|dd)|(?<=\bm)ore)"
)
_MORE: Final = re.compile(rf"{_MORE_WORD.pattern}[^,。;\d]{{0,12}}$")
_TOTAL_BEFORE: Final = re.compile(
    r"(?:共|总|本金|手头|手里|手上|账户|账上|账面|名下|可动用|可投|资金|资产|积蓄|存款|闲钱|这笔|这|有|款|"
    r"total|have|holds?|your|worth|of)[^,。;!?\d]{0,10}$"
)
_TOTAL_BEHIND: Final = re.compile(r"里|中(?!证|国|信|短|长|期)|当中|:")
_SPENT: Final = re.compile(
    r"每月|每年|一个月|月供|工资|收入|支出|开销|花|利息|收益|费|亏|跌|市值|成交|以上|起购|门槛|"
    r"month|a year|income|spend|salary"
)
_NUMERAL: Final = r"(?:\d{1,2}|[一二三四五六七八九])"
# Begins with the sign between two numbers, so that the engine skips from sign to sign.
_RATIO: Final = re.compile(
    rf"[:比/](?<=(?:\d|[一二三四五六七八九]).) ?({_NUMERAL})(?: ?[:比/] ?({_NUMERAL}))?"
    r"(?!\.?\d|[%:比/年月日万天])"
)
_FIRST: Final = re.compile(rf"(?<![\d.:比/年月]){_NUMERAL}$")
_LETTERS: Final = re.compile(
    r"(?:(?:股票?|债券?|权益|固收|黄金|金|现金?|货币?)[一二三四五六七八九]成?[、,]?){2,5}"
)
_LETTER: Final = re.compile(r"(股|债|权益|固收|现|金|货)\D*?([一二三四五六七八九])")
_SHORT_NAME: Final = re.compile(
    r"股(?=[、和与:/]?债)|债(?=[、和与:/](?:现金|黄金|股))|(?<=股)债|(?<=股[、和与:/])债"
)
_LONG_NAMES: Final = {"股": "股票", "债": "债券", "金": "黄金", "现": "现金", "货": "货币基金"}
_DIGITS: Final = dict(zip("一二三四五六七八九", range(1, 10), strict=True))
_TEN: Final = 10


def from_sentences(document: Document, numbers: Sequence[int]) -> Iterator[Proposal]:
    """Yield the plans in the sentences of lines, given by their numbers."""
    for line in map(document.line, numbers):
        if line.kind != "row" and line.end - line.start <= _MAX_LINE:
            yield from run_of_parts(document, line.start, line.end, laid_out=False)
            found = document.quantities(line.start, line.end)
            if len(found) >= MIN_PARTS:
                yield from _sums(document, [q for q in found if q.kind == "money"], line.start, line.end)
                yield from _additions(document, [q for q in found if q.kind == "share"], line.start, line.end)


def ratios(document: Document) -> Iterator[Proposal]:
    """Yield the plans that are ratios of classes: 股债按6比4, 股四债六, stocks and bonds at 60/40."""
    text = document.text
    for match in _RATIO.finditer(text):
        first = _FIRST.search(text, max(0, match.start() - 2), match.start())
        if first is None:
            continue
        shares = [float(_DIGITS.get(each, each)) for each in (first[0], *match.groups()) if each]
        start, last = document.sentence_at(match.start())
        names = _names(text[max(start, first.start() - MAX_NAME) : first.start()])[-len(shares) :]
        if len(names) < len(shares):
            behind = _SENTENCE_MARK.split(text[match.end() : min(last, match.end() + MAX_NAME)])[0]
            names = _names(behind)[: len(shares)]
        if len(names) == len(shares) and sum(shares) > MIN_PARTS and len({*map(classes_in, names)}) > 1:
            weights = [(name, share / sum(shares)) for name, share in zip(names, shares, strict=True)]
            yield from _weighed(document, weights, match)
    for match in _LETTERS.finditer(text):
        found: list[tuple[str, str]] = _LETTER.findall(match[0])
        if sum(_DIGITS[digit] for _, digit in found) == _TEN:
            weights = [(_LONG_NAMES.get(name, name), _DIGITS[digit] / _TEN) for name, digit in found]
            yield from _weighed(document, weights, match)


def _names(text: str) -> list[str]:
    """Return the names of classes in a text, letters that stand for one among them (股、债、现金)."""
    text = _SHORT_NAME.sub(lambda match: _LONG_NAMES[match[0]], text)
    return [text[each.start : each.end] for each in class_finder().find(text)]


def _weighed(
    document: Document, weights: Sequence[tuple[str, float]], match: re.Match[str]
) -> Iterator[Proposal]:
    parts = [_part(name, share, share, match.start(), match.end()) for name, share in weights]
    yield from proposal_of(parts, document, laid_out=False)


def _part(name: str, low: float, high: float, start: int, end: int) -> Holding:
    return holding_of(name, Quantity("share", low, high, start, end, ""), start, end)


# ------------------------------------------------------------------ shares


def run_of_parts(document: Document, start: int, end: int, *, laid_out: bool) -> Iterator[Proposal]:
    """Yield the plan whose parts stand in a span of one line, or its parts one by one."""
    if end - start > _MAX_LINE:
        return
    shares = [
        each
        for each in document.quantities(start, end)
        if each.kind == "share" and 0 < each.high <= WHOLE and not _is_rate(document.text, each.end, end)
    ]
    for group in _runs(document.text, shares):
        parts = list(_parts(document.text, group, start, end))
        if len(parts) >= MIN_PARTS and adds_up(parts) and any(each.classes for each in parts):
            yield from proposal_of(parts, document, laid_out=laid_out)
            return
    if not laid_out:
        yield from _with_remainder(document, shares, start, end)
        yield from _parts_alone(document, shares, start)


def _is_rate(text: str, start: int, end: int) -> bool:
    """Return True if what follows a share makes it a rate of return, a fee or the like."""
    return NO_WEIGHT.match(text[start : min(end, start + MAX_NAME)].lstrip("的 ")) is not None


def _with_remainder(
    document: Document, shares: Sequence[Quantity], start: int, end: int
) -> Iterator[Proposal]:
    """Yield the plan of some shares and a remainder that is named (固收52%,权益36%,其余放货币基金)."""
    rest = _REST.search(document.text, shares[0].end, end) if shares else None
    if rest is None:
        return
    before = [each for each in shares if each.end <= rest.start() <= each.end + 2 * MAX_NAME]
    parts = list(_parts(document.text, before, start, rest.start())) if before else []
    low, high = sum(each.low for each in parts), sum(each.high for each in parts)
    if parts and len(parts) == len(before) and high < WHOLE:
        remainder = _remainder(document, rest, WHOLE - high, WHOLE - low)
        if remainder.classes:
            yield from proposal_of([*parts, remainder], document, laid_out=False)


def _remainder(document: Document, rest: re.Match[str], low: float, high: float) -> Holding:
    """Return the holding of what is left, named by the words behind."""
    _, last = document.sentence_at(rest.start())
    words = document.text[rest.end() : min(last, rest.end() + MAX_NAME)]
    name = words if classes_in(words) or not _CASH_USE.search(words) else f"现金 {words}"
    return _part(name, low, high, rest.start(), rest.end())


def _parts_alone(document: Document, shares: Sequence[Quantity], first: int) -> Iterator[Proposal]:
    """Yield parts of prose whose class stands right in front of their share (活期只留一成)."""
    for share in shares:
        name = _SENTENCE_MARK.split(document.text[max(first, share.start - _NEAR) : share.start])[-1]
        if (
            name.endswith(_CHANGES)
            or NO_WEIGHT.search(name)
            or COMPARED.search(name)
            or NO_PLAN.search(name)
            or NONE_BEHIND.match(document.text, share.end)
        ):
            continue
        if classes_in(name):
            part = holding_of(name, share, share.start - len(name), share.end)
            yield from proposal_of([part], document, laid_out=False)


def _runs(text: str, shares: Sequence[Quantity]) -> Iterator[list[Quantity]]:
    """Yield runs of shares of one sentence that add up to a whole as soon as they do."""
    for position in range(len(shares)):
        run: list[Quantity] = []
        total = 0.0
        for share in shares[position:]:
            if run and (
                share.start - run[-1].end > MAX_NAME or _SENTENCE_BREAK.search(text, run[-1].end, share.start)
            ):
                break
            run.append(share)
            total += share.high * count_of(text[max(0, share.start - _COUNT_REACH) : share.start])
            if len(run) >= MIN_PARTS and abs(total - 1) < TOLERANCE:
                yield run
                return
            if total > WHOLE + WHOLE_SLACK and all(each.low == each.high for each in run):
                break
        if (
            len(run) >= MIN_PARTS
            and sum(each.low for each in run) <= 1 <= sum(each.high for each in run)
            and any(each.low != each.high for each in run)
        ):
            yield run
            return


def _parts(text: str, shares: Sequence[Quantity], first: int, last: int) -> Iterator[Holding]:
    """Yield the parts that a run of shares names, whichever side of its share the names stand on."""
    cuts = [max((match.end() for match in _SEPARATOR.finditer(text, first, shares[0].start)), default=first)]
    for one, other in itertools.pairwise(shares):
        marks = list(_SEPARATOR.finditer(text, one.end, other.start))
        cuts.append(marks[-1].end() if marks else one.end)
    ends = [*cuts[1:], min(last, shares[-1].end + _NAME_BEHIND)]
    for share, start, end in zip(shares, cuts, ends, strict=True):
        before = text[start : share.start]
        if NO_WEIGHT.search(before) or COMPARED.search(before):
            continue
        after = _SEPARATOR.split(text[share.end : end], maxsplit=1)[0]
        name = before + after
        if classes_in(before) or term_finder().find(before):
            name = before
        elif classes_in(after):
            name = after
        yield holding_of(name, share, start, share.end, count=count_of(before))


# ------------------------------------------------------------------ additions


def _additions(document: Document, shares: Sequence[Quantity], start: int, end: int) -> Iterator[Proposal]:
    """Yield holdings that are added to: 黄金已有15%,再加20个百分点 is gold at 35 %."""
    text = document.text
    if len(shares) < MIN_PARTS or _MORE_WORD.search(text, start, end) is None:
        return
    held: list[tuple[Quantity, str]] = []
    for share in shares:
        before = _SENTENCE_MARK.split(text[max(start, share.start - 2 * _NEAR) : share.start])[-1]
        behind = _SENTENCE_MARK.split(text[share.end : min(end, share.end + _NAME_BEHIND)])[0]
        if NO_WEIGHT.search(before):
            continue
        if _MORE.search(before):
            bought = classes_in(behind) or classes_in(before)
            same = [(each, name) for each, name in held if not bought or bought & classes_in(name)]
            if same and share.start - same[-1][0].end <= 2 * MAX_NAME:
                base, name = same[-1]
                count = count_of(before)
                low, high = base.low + count * share.low, base.high + count * share.high
                if high <= WHOLE:
                    part = _part(name, low, high, base.start, share.end)
                    yield from proposal_of([part], document, laid_out=False)
        elif _HELD.search(before) and (name := before if classes_in(before) else behind) and classes_in(name):
            held.append((share, name))


# ------------------------------------------------------------------ sums of money


def _sums(document: Document, sums: Sequence[Quantity], start: int, end: int) -> Iterator[Proposal]:
    """Yield the plan that spreads a sum: 总共50万,45万买基金,其余留活期."""
    text = document.text
    for position, total in enumerate(sums[:-1]):
        before = text[max(start, total.start - _NEAR) : total.start]
        named = _TOTAL_BEFORE.search(before) or _TOTAL_BEHIND.match(text, total.end)
        if total.low <= 0 or named is None or _SPENT.search(before):
            continue
        parts, spent = [], 0.0
        for each in sums[position + 1 :]:
            name, count = (
                _sum_name(text, each, start, end),
                count_of(text[each.start - _COUNT_REACH : each.start]),
            )
            if spent + count * each.high > total.low * (1 + TOLERANCE) or _SPENT.search(name):
                break
            spent += count * each.high
            low, high = count * each.low / total.low, count * each.high / total.low
            cash = "现金 " if not classes_in(name) and _CASH_USE.search(name) else ""
            parts.append(_part(cash + name, low, high, each.start, each.end))
        rest = _REST.search(text, parts[-1].end, end) if parts else None
        left = WHOLE - spent / total.low
        if rest is not None and left > TOLERANCE:
            parts.append(_remainder(document, rest, left, left))
        if parts and adds_up(parts):
            yield from proposal_of(parts, document, laid_out=False, total=total.low)
        return


def _sum_name(text: str, part: Quantity, start: int, end: int) -> str:
    """Return the words of a sum's own clause, of which those behind it count first."""
    behind = _SENTENCE_MARK.split(text[part.end : min(end, part.end + _NAME_BEHIND)])[0]
    before = _SENTENCE_MARK.split(text[max(start, part.start - _NEAR) : part.start])[-1]
    return behind if classes_in(behind) or _CASH_USE.search(behind) else before + behind
