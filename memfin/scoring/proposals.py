"""Proposals: the parts of an allocation that a reply proposes.

`memfin.scoring.allocation` reads them off tables and lists, `memfin.scoring.prose_plans` off sentences.
Histories, market figures, stress tests and models that are expressly not for this client are no proposals.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from memfin.scoring.vocabulary import class_finder, load_vocabulary, term_finder
from memfin.text.document import Document
from memfin.text.quantities import Quantity

WHOLE: Final = 1.0
WHOLE_SLACK: Final = 0.035
TOLERANCE: Final = 0.011
"""Rounding that is forgiven where parts should add up exactly."""
MIN_PARTS: Final = 2
MAX_NAME: Final = 60
"""Characters of the longest name of a part."""
_SMALLEST: Final = 0.045
"""Share of the smallest part that is read outside a plan that adds up."""

NO_WEIGHT: Final = re.compile(
    r"涨|跌|收益|年化|回撤|波动|费|利率(?!债)|利息|票息|概率|胜率|同比|环比|增长|增速|分位|估值|亏|损失|股息|折价|溢价|通胀|税|贡献|偏离|超过|触发|阈值|"
    r"换手|毛利|净利|负债|营收|市占|市场份额|按揭|首付|贷款|止盈|止损|达到|评分|相关|"
    r"return|yield|fee|expense|loss|drawdown|volatil|rate|growth|inflation|tax|gain|fell|rose|drop|fall|cost|"
    r"interest|percentile|drift|deviat|correlation|premium|discount"
)
"""Words beside a share that is no weight: a rate of return, a fee, a loss."""
NO_PLAN: Final = re.compile(
    r"历史|回测|压力|情景|情形|假设|跌幅|涨幅|前十大|重仓股|行业分布|指数构成|基金构成|成分股|现状|^(?:现在|当前|目前|now|current)$|营收|负债|"
    r"通用|并非针对|不适用|网友|季报|合同约定|招募说明书|原来[:,]|现状|不是给你|不是为你|教科书|不推荐|不建议|不适合|反面|错误|调整前|当前持仓|贡献|测算|国家队|社保|全市场|别人|"
    r"(?:目前|现有|现在|原来|之前|已有)的?(?:配置|持仓|组合|比例|资产|权益|股票|仓位)|基金持仓|你的持仓|"
    r"history|backtest|stress|scenario|assum|not for you|generic|textbook|today's|before|"
    r"current(?:ly)? (?:hold|portfolio|mix)|"
    r"sector weight|benchmark|index consists|top ten|top 10|someone|the fund holds|not recommend|not suit"
)
"""Words about figures that propose nothing to this client."""
_NO_PLAN_BEHIND: Final = re.compile(
    r"不适合你|不适用|只是对照|仅供对照|的人在|亏了|亏损了?\d|跌了|lost \d|returned|would break|not for you"
)
_AROUND: Final = 160
"""Characters in front of a plan and behind it in which words can tell that it is none."""
NONE_BEHIND: Final = re.compile(r"也?(?:没有|不[要能配买放]|别)")
"""Words behind a share that deny it (加密货币一成也没有)."""
COMPARED: Final = re.compile(r"[<>≤≥=]\s*$")
BULLET: Final = re.compile(r"^[\W\d_]*(?:[a-e一二三四五六七八九十][.)、])?\W*")
_COUNTED: Final = re.compile(
    r"([两二三四五六七八九2-9]|two|three|four|five) ?[只个支份样]?.{0,12}(?:各|每|each)"
)
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("2 两 二 two", "3 三 three", "4 四 four", "5 五 five", "6 六", "7 七", "8 八", "9 九"), 2
    )
    for word in words.split()
}
_SINGLE: Final = re.compile(
    r"黄金|金条|比特币|^[甲乙丙丁戊a-e]$|\bgold\b|bitcoin|沪深300|中证[0-9a]+|上证50|创业板|科创50|标普500|纳斯达克|纳指|恒生|红利低波|黄金etf|基金[甲乙丙丁a-e]|[甲乙丙丁戊]基金|(?<![0-9])[0-9]{6}(?![0-9])|一只|单只|某只|"
    r"fund [a-z]\b|\b(?:one|single) |(?<![a-z])etf(?![a-z])|tracker|s&p 500|nasdaq|msci|index fund|"
    r"total (?:us|market|bond|stock)"
)
_SEVERAL: Final = re.compile(
    r"[/+、和与及]|等|若干|几只|多只|两只|三只|四只|五只|分散|组合|\b(?:and|several|funds|etfs|two|three)\b|类|如"
)


class Holding(NamedTuple):
    """One part of a proposal at half-open offsets of the document's text.

    ``low`` and ``high`` are fractions of the whole, equal unless the reply gives a range. ``classes``
    are asset classes with the wider ones they belong to, ``terms`` ids of the vocabulary. ``single``
    tells one fund or security from a class or a group of them.
    """

    name: str
    low: float
    high: float
    classes: frozenset[str]
    terms: frozenset[str]
    single: bool
    start: int
    end: int

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2


class Proposal(NamedTuple):
    """The holdings of one plan.

    ``whole`` tells that they add up to everything, ``laid_out`` that they stand in a list or table.
    ``total`` is the sum of money that is spread, where the reply names it.
    """

    holdings: tuple[Holding, ...]
    whole: bool
    laid_out: bool
    start: int
    end: int
    total: float | None = None


@lru_cache(maxsize=1024)
def classes_in(text: str) -> frozenset[str]:
    """Return the asset classes named first in a text, with the wider classes they belong to."""
    mentions = class_finder().find(text)
    if not mentions:
        return frozenset()
    # 可转债基金 is a bond, 红利低波指数基金 equity: the first class counts, with others of the same family.
    first = _family(mentions[0].ids[0])
    same = (each.ids[0] for each in mentions if _family(each.ids[0])[-1] == first[-1])
    return frozenset(name for each in same for name in _family(each))


@cache
def _family(name: str) -> tuple[str, ...]:
    parents = {entry.id: entry.within for entry in load_vocabulary().classes}
    chain = [name]
    while (parent := parents.get(chain[-1])) is not None:
        chain.append(parent)
    return tuple(chain)


def holding_of(
    name: str, share: Quantity, start: int, end: int, *, rest: str = "", count: int = 1
) -> Holding:
    """Return the holding of a name with its share; ``rest`` tells the class where the name does not."""
    words = BULLET.sub("", name).strip()[:MAX_NAME]
    classes = classes_in(words) or classes_in(rest)
    terms = {each for mention in term_finder().find(words + " " + rest[:MAX_NAME]) for each in mention.ids}
    single = count == 1 and _SINGLE.search(words) is not None and _SEVERAL.search(words) is None
    return Holding(
        words, share.low * count, share.high * count, classes, frozenset(terms), single, start, end
    )


def adds_up(holdings: Sequence[Holding]) -> bool:
    """Return True if holdings make a whole, or may within their ranges."""
    low, high = sum(each.low for each in holdings), sum(each.high for each in holdings)
    return low <= WHOLE + WHOLE_SLACK and high >= WHOLE - WHOLE_SLACK


def proposal_of(
    holdings: Iterable[Holding], document: Document, *, laid_out: bool = True, total: float | None = None
) -> Iterator[Proposal]:
    """Yield the proposal that holdings make, unless the words around say that it is none."""
    parts = tuple(holdings)
    if len(parts) < MIN_PARTS or not adds_up(parts):
        # Parts of a plan count when their own names say what they are; a few percent are more often a rate.
        parts = tuple(each for each in parts if each.high >= _SMALLEST and classes_in(each.name))
    if not parts:
        return
    start, end = min(each.start for each in parts), max(each.end for each in parts)
    if is_no_plan(document, start, parts[0].end):
        return
    whole = len(parts) >= MIN_PARTS and adds_up(parts)
    if whole or sum(each.low for each in parts) <= WHOLE + WHOLE_SLACK:
        yield Proposal(parts, whole, laid_out, start, end, total)


def is_no_plan(document: Document, start: int, end: int) -> bool:
    """Return True if the words up to the first part, or those above it, are about no plan for this client."""
    first, _ = document.sentence_at(start)
    line = document.line_at(start)
    if line.kind == "row":  # its cells are sentences of their own
        first = line.start
    if NO_PLAN.search(document.text, max(first, start - _AROUND), end):
        return True
    if _NO_PLAN_BEHIND.search(document.text, end, min(document.sentence_at(end)[1], end + _AROUND)):
        return True
    return any(NO_PLAN.search(lead) for lead in itertools.islice(document.leads(start), 2))


def count_of(name: str) -> int:
    """Return how many parts of one size a name stands for (三只基金各10%)."""
    match = _COUNTED.search(name)
    return _COUNTS.get(match[1], 1) if match else 1
