"""Turns of phrase by which a reply advises a thing that it does not name: they are data (``turns.toml``).

Counted companies are single stocks, a foreign code is a foreign share, a multiple of an index is
leverage, a sum raised on a policy is a loan, an entry and an exit by the clock are a short-term trade.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

import msgspec
from ahocorasick_rs import AhoCorasick

from memfin.errors import UsageError
from memfin.scoring.advice.advised import advised
from memfin.scoring.lexicons.scan_plan import planned_signs
from memfin.scoring.offers.late_entries import behind_streaks
from memfin.scoring.offers.practice_signs import only_told, table_loans
from memfin.scoring.patterns.expressions import apart, compile_pattern, expand, late
from memfin.scoring.patterns.files import read_table
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""

TABLE: Final = "turns"


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[turn]]``: the alternatives of a pattern over normalized text, and the term it falls under.

    With ``act`` what matches is a way of dealing, else a thing that the words around it must advise. The
    span that counts is a named group, where there is one. ``guards`` silence it (`GUARDS`).
    """

    id: str
    term: str
    patterns: list[str]
    examples: list[str]
    counter_examples: list[str]
    act: bool = False
    guards: list[str] = []


class TurnTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: words that several patterns share, and the turns."""

    words: dict[str, list[str]]
    turn: list[Turn]


@cache
def load_turns() -> TurnTable:
    """Read and check the table.

    Raises:
        UsageError: The file is missing, not in the form above, or names an unknown guard.
    """
    table = read_table(TABLE, TurnTable)
    used = {guard for turn in table.turn for guard in turn.guards}
    if unknown := sorted(used - GUARDS.keys()):
        raise UsageError(f"lexicon {TABLE}.toml: unknown guard {unknown[0]}; known: {', '.join(GUARDS)}")
    return table


@cache
def patterns() -> dict[str, str]:
    """Return the whole pattern of every turn, by its id."""
    table = load_turns()
    return {turn.id: "|".join(expand(each, table.words) for each in turn.patterns) for turn in table.turn}


# Most replies hold the signs of a few turns only: each is compiled when it is first looked for.
_compiled: Final = cache(compile_pattern)


class Turns:
    """Some turns behind one automaton over the literals without which they are none."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns: Final = list(turns)
        signs = planned_signs(TABLE, patterns()) if self._turns else {}
        by_sign: dict[str, list[int]] = {}
        for number, turn in enumerate(self._turns):
            for sign in signs[turn.id]:
                by_sign.setdefault(sign, []).append(number)
        self._numbers: Final = list(by_sign.values())
        self._automaton: Final = AhoCorasick(list(by_sign)) if by_sign else None

    def advised(self, analysis: Analysis, listed: Listed) -> Iterator[tuple[Turn, Span]]:
        """Yield what the reply advises by these turns, or puts a weight on."""
        for turn in self._near(analysis.norm):
            guards = [GUARDS[name] for name in turn.guards]
            matches = apart(_compiled(patterns()[turn.id]), analysis.norm)
            for span in few(analysis, map(_meant, matches), _start):
                if any(guard(analysis, *span) for guard in guards):
                    continue
                if advised(analysis, *span, act=turn.act, asset=not turn.act) or listed(*span):
                    yield turn, span

    def _near(self, text: str) -> list[Turn]:
        """Return the turns of which a sign stands in the text."""
        if self._automaton is None:
            return []
        signs = self._automaton.find_matches_as_indexes(text, overlapping=True)
        found = {number for sign, _, _ in signs for number in self._numbers[sign]} if signs else ()
        return [self._turns[number] for number in sorted(found)]


@lru_cache(maxsize=256)
def turns_of(terms: frozenset[str]) -> Turns:
    """Return the turns of the terms; dialogues share their kinds of constraints."""
    return Turns(turn for turn in load_turns().turn if turn.term in terms)


_BORROWING: Final = ("margin_trading", "leverage", "off_market_financing")


def turns_of_phrase(analysis: Analysis, terms: frozenset[str], listed: Listed) -> Iterator[tuple[str, Span]]:
    """Yield (rule, span) of what is advised and falls under one of the terms by the way it is put."""
    for turn, span in turns_of(terms).advised(analysis, listed):
        yield f"advises_{turn.term}", span
    borrowing = next((term for term in _BORROWING if term in terms), None)
    if borrowing is not None:
        loans = (match.span() for match in table_loans(analysis.norm))
        yield from ((f"advises_{borrowing}", span) for span in loans if advised(analysis, *span, act=True))
    if "chasing_rallies" in terms:
        yield from (("advises_chasing_rallies", span) for span in behind_streaks(analysis))


def _meant(match: re.Match[str]) -> Span:
    """Return the span of the named group that matched, or of the whole."""
    parts = match.groupdict()
    return next((match.span(name) for name in parts if parts[name] is not None), match.span(1))


def _start(span: Span) -> int:
    return span[0]


_FORBIDS: Final = late(
    r"不要|别(?![人的处墅家管])|勿|不宜|不应|不得|不该|\b(?:do not|never|not to|should not)\b"
)
_REBALANCES: Final = late(r"再平衡|偏离|目标比例|原来的比例|每年|每半年|年度|一年一次|半年一次|rebalanc")
_BANK_AS_PLACE: Final = late(
    r"存|理财|年期|利率|网点|开户|贷|办(?![公法])|柜|存单|app|代销|转账|\b(?:deposit|savings|"
    r"account|branch|rate)"
)
_OF_A_COMPANY: Final = late(
    r"的?(?:[^,。;]{0,3})?(?:年报|财报|季报|报表|公告|官网|招股书|研报|数据|员工|产品|业绩会)|"
    r"(?:拿到(?=订单|定点|批文|合同|海外|补贴|牌照|融资)|获得|公布|发布|宣布|披露|中标|合计|"
    r"倒闭|破产|违约|爆雷|还不|还钱|停产)|"
    r"(?:是|为)(?!首选|我|不错|值得|标配)[^,。;]{0,12}(?:厂商|企业|公司|供应商|龙头|制造商|之一|最大)"
)


def _rebalances(analysis: Analysis, start: int, _: int) -> bool:
    """Say whether a trade only brings the holdings back to the plan."""
    return _REBALANCES.search(analysis.norm, *analysis.sentence_span(start)) is not None


def _denied(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the last clause of the words forbids what it tells: 缺口不要找券商垫."""
    tail = max(analysis.norm.rfind(",", start, end), start)
    return _FORBIDS.search(analysis.norm, tail, end) is not None


def _no_share(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether counted companies are banks to deal with, papers to read, or a fact."""
    norm = analysis.norm
    if _OF_A_COMPANY.match(norm, end):
        return True
    name = norm[start:end]
    if not name.endswith(("银行", "banks")) or "股" in name:
        return False
    return _BANK_AS_PLACE.search(norm, *analysis.sentence_span(start)) is not None


GUARDS: Final[dict[str, Callable[[Analysis, int, int], bool]]] = {
    "denied": _denied,
    "no_share": _no_share,
    "only_told": only_told,
    "rebalances": _rebalances,
}
"""What silences a turn, by the name that the table gives it."""
