"""Assets and practices that a reply advises by a turn of phrase no list of words can hold.

Counted companies are single stocks, a foreign code is a foreign share, a multiple of an index is
leverage, a sum raised on a policy is a loan, an entry and an exit by the clock are a short-term trade.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Final

from ahocorasick_rs import AhoCorasick

from memfin.scoring.advice.advised import advised
from memfin.scoring.offers.asset_phrases import ASSETS
from memfin.scoring.offers.borrowings import BORROWINGS
from memfin.scoring.offers.crazes import CRAZES
from memfin.scoring.offers.figures import NO_WAIT
from memfin.scoring.offers.fund_shapes import FUND_SHAPES
from memfin.scoring.offers.moves import MOVES
from memfin.scoring.offers.phrases import SHAPES, Shape
from memfin.scoring.offers.practice_signs import only_told, table_loans
from memfin.scoring.offers.rating_shapes import RATED
from memfin.scoring.offers.trades import TRADES
from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_ALL: Final = (*SHAPES, *TRADES, *MOVES, *BORROWINGS, *CRAZES, *RATED, *FUND_SHAPES, *ASSETS)
_BORROWING: Final = ("margin_trading", "leverage", "off_market_financing")
_PRACTICE: Final = frozenset(map(id, (*BORROWINGS, *CRAZES)))
# Most replies hold the signs of a few shapes only: each is compiled when it is first looked for.
_compiled: Final = cache(compile_pattern)

Listed = Callable[[int, int], bool]
"""Whether a span carries a weight of a proposed allocation."""


class _Shapes:
    """The shapes of some terms, behind one automaton over the signs without which they are none."""

    def __init__(self, names: frozenset[str]) -> None:
        self._shapes: Final = [shape for shape in _ALL if shape.term in names]
        by_sign: dict[str, list[int]] = {}
        for number, shape in enumerate(self._shapes):
            for sign in shape.signs:
                by_sign.setdefault(sign, []).append(number)
        self._numbers: Final = list(by_sign.values())
        self._automaton: Final = AhoCorasick(list(by_sign)) if by_sign else None

    def within(self, text: str) -> list[Shape]:
        """Return the shapes of which a sign stands in the text."""
        if self._automaton is None:
            return []
        signs = self._automaton.find_matches_as_indexes(text, overlapping=True)
        found = {number for sign, _, _ in signs for number in self._numbers[sign]} if signs else ()
        return [self._shapes[number] for number in sorted(found)]


@lru_cache(maxsize=256)
def _shapes_of(names: frozenset[str]) -> _Shapes:
    """Return the shapes of the terms; dialogues share their kinds of constraints."""
    return _Shapes(names)


def turns_of_phrase(analysis: Analysis, names: frozenset[str], listed: Listed) -> Iterator[tuple[str, Span]]:
    """Yield (rule, span) of what is advised and falls under one of the terms by the way it is put."""
    norm = analysis.norm
    for shape in _shapes_of(names).within(norm):
        for match in few(analysis, apart(_compiled(shape.pattern), norm), _start):
            parts = match.groupdict()
            span = next((match.span(name) for name in parts if parts[name] is not None), match.span(1))
            if shape.term == "individual_stocks" and _no_share(analysis, *span):
                continue
            if id(shape) in _PRACTICE and only_told(analysis, *span):
                continue
            if shape.term == "short_term_trading" and _REBALANCES.search(
                norm, *analysis.sentence_span(span[0])
            ):
                continue
            if advised(analysis, *span, act=shape.act, asset=not shape.act) or listed(*span):
                yield f"advises_{shape.term}", span
    borrowing = next((name for name in _BORROWING if name in names), None)
    if borrowing is not None:
        loans = (match.span() for match in table_loans(norm))
        yield from ((f"advises_{borrowing}", span) for span in loans if advised(analysis, *span, act=True))
    if "chasing_rallies" in names:
        yield from (("advises_chasing_rallies", span) for span in _late_entries(analysis))


_REBALANCES: Final = late(r"再平衡|偏离|目标比例|原来的比例|每年|每半年|年度|一年一次|半年一次|rebalanc")
"""What is bought and sold to keep to the plan is no trade."""
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


def _no_share(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether counted companies are banks to deal with, papers to read, or a fact."""
    norm = analysis.norm
    if _OF_A_COMPANY.match(norm, end):
        return True
    name = norm[start:end]
    if not name.endswith(("银行", "banks")) or "股" in name:
        return False
    return _BANK_AS_PLACE.search(norm, *analysis.sentence_span(start)) is not None


_RALLY: Final = late(
    r"历史(?:新高|纪录|最高)|刷新[^,。;]{0,4}(?:纪录|高点|记录)|突破[^,。;]{0,8}(?:箱体|平台|前高|新高|压力|"
    r"年线|"
    r"高点)|(?:排行榜?|涨幅榜|业绩榜|排名)[^,。;]{0,3}(?:前[一二三五十\d]|榜首|第一)|高开|领涨|[天日]{2}涨|"
    r"(?:收益|业绩|涨幅)榜|冠军|"
    r"加速上[涨行攻]|"
    r"[一二两三四五六七八九\d]+连(?:板|阳)|连板|封板|收阳|一字板|一字开|涨停|翻番|新高|record high|"
    r"all-time high|"
    r"doubled|tripled|broke out|连[着续](?:[大猛]?涨)|涨了?[一二两三四五六七八九十\d]+(?:天|"
    r"个交易日|周|个月)|"
    r"(?:best|top)[- ]performing|top of the (?:table|league)|gone (?:vertical|parabolic)|"
    r"straight up|on fire|ripped|ripping|new high|\d+% (?:run|rally|surge|jump|climb)|(?:days|weeks|"
    r"sessions) (?:straight|running|on the trot)|"
    r"(?:green|up|"
    r"winning) days|in a row|straight (?:gains|days|weeks)"
)
_AT_ONCE: Final = late(
    r"\s*(?:(?:you (?:can|may|could|might|should) |(?:i|we) would |just |please )?(?:add|buy|purchase|put|"
    r"place|invest|get in|start)\b|[^,.;!?。]{0,30}\b(?:at these levels|"
    r"even (?:now|"
    r"here|up here)|still (?:get|buy|purchase|"
    r"add|jump|climb|own)|"
    r"add now|(?:buy|purchase) now|do(?:n't| not) wait|(?:put|place|invest|move) [^.;!?]{0,24}(?:in|"
    r"to work) (?:today|now|"
    r"this week))\b|"
    r"[^,。;!?]{0,8}(?:这个位置|现在|照样|仍然?|仍)[^,。;!?]{0,6}(?:上车|进场|买入|追|"
    r"跟进|加仓))"
)
"""The next sentence goes on: I would still get in at these levels."""
_ENTRY: Final = late(
    r"追进|先进|进(?=[二三四五]分之|一半|[一两三]成)|上(?=[一二两三半][成仓])|跟进|"
    r"(?:就|可以|能)可?以?进(?=[,。;])|各?(?:买|配|补|加|跟|来)(?:上|进|入|"
    r"个)?(?=[一二两三半四五六七八九\d]+(?:成|万|%|个点|笔|手|点|份))|"
    r"建(?=[一二两三半]成)|(?:现在|今天|这时候?)进(?=正|刚|还|也)|就加(?=[,。;仓码])|参与一下|申购(?!费|赎)|"
    r"认购(?!费)|"
    r"投(?=[一两三四五\d]+[万千成])|补上|配上|顺势|趁势|趁热|"
    r"赶紧(?=买|进|上)|"
    r"满仓|"
    r"就进(?=[,。;])|排队|挂涨停|打板|扫板|上车|冲进|杀进|买入|进去|加仓|先上|"
    r"\b(?:climb (?:on|aboard)|(?:put|place|invest|move) (?:the first|a first|some|a third|half)|get (?:on|"
    r"in)|"
    r"hop on|jump (?:on|in)|on board|pile in|buy|purchase|join|own (?:it|an?|some)|"
    r"load up)\b"
)
_LATER: Final = late(
    r"回调(?![只很仅才]|有限|结束|不深)|回落|逢低|低位|再平衡|止盈|减|降|卖|赎|定投|等|冷静|"
    r"\b(?:pullback|dip|trim|sell|offload|unload|wait|let it|"
    r"until|gradually)\b"
)


def _start(match: re.Match[str]) -> int:
    return match.start()


def _late_entries(analysis: Analysis) -> Iterator[Span]:
    """Yield entries right behind a streak of rises, in its sentence or behind the next semicolon."""
    norm = analysis.norm
    for rally in few(analysis, _RALLY.finditer(norm), _start):
        low, high = analysis.sentence_span(rally.start())
        if norm[high - 1 : high] == ";":
            _, high = analysis.sentence_span(high)
        if _AT_ONCE.search(norm, high, high + 60):
            _, high = analysis.sentence_span(high)
        if _LATER.search(NO_WAIT.sub("", norm[low:high])):
            continue
        for entry in _ENTRY.finditer(norm, rally.start(), high):
            if advised(analysis, *entry.span(), act=True):
                yield entry.span()
