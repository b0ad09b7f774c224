"""Losses told in money against the principal or the peak: a stop line at 20万 of 200万, no sale before 50万.

Spans count in ``Analysis.norm``.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.scoring.advice.advised import advised
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.attribution.told import described
from memfin.scoring.limits.borne_losses import FORGIVEN
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.amounts import is_whole

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_HALF: Final = 0.5
_UNITS: Final = ("万", "元", "$", "¥", "£", "€", "yuan", "dollar")
_SIGNS: Final = (
    "到",
    "至",
    "亏",
    "损",
    "跌",
    "撤",
    "缩水",
    "离场",
    "清仓",
    "平仓",
    "底线",
    "stop",
    "exit",
    " to ",
    "los",
    " of ",
    "fall",
    "fell",
    "below",
    "drawdown",
)
_WHOLE: Final = late(
    r"(?:本金|投入|投的?|投进|投了|总?资金|资产|账户|市值|组合|持仓)(?!亏|跌|掉|低|缩|回|"
    r"少)(?:[是为有里共一约按总计的现在最高曾到过:在]|"
    r"达到?|峰值|高点|顶点|以|这|您|你|历史)*$|"
    r"(?:[冲涨]到过?|最高(?:曾?到过?|时|点|达到?)?|峰值|高点|顶点|新高)(?:是|为|曾|到过?|在|达到?|有|约|:)*$|"
    r"\b(?:account|portfolio|principal|balance|invest(?:ed|ing)?|putting in|put in|start(?:ed|ing)? with|"
    r"worth|"
    r"peak(?:ed)?|high|with)\b(?: (?:of|is|was|at|holds?|held|stands at|once|has|reached|about|around|a|"
    r"as high as))* "
    r"?[$¥£€]?$"
)
_WHOLE_BEHIND: Final = late(
    r"(?:元|块)?(?:的)?(?:这笔|那笔)?(?:本金|资金|进场|入场|的?账户|投进|投入)| (?:yuan |"
    r"dollars )?(?:invested|in the account|"
    r"to invest|account|portfolio)\b"
)
_NO_WHOLE: Final = late(r"(?:亏|跌|止损|离场|损失|收益|赚|每月|年薪|月薪|利息)[^,。;!?\n]{0,6}$")
_LOSS_WORD: Final = late(
    r"亏|跌|损|撤|掉|缩水|低于|赔|安全线|碰到|回吐|离场|清仓|平仓|保底|底线|回落|少到|\b(?:loss(?:es)?|"
    r"los(?:e|t|ing)|stop|"
    r"exit|falls?|fell|"
    r"fallen|below|drop\w*|down|slip\w*|sink\w*|shrink\w*|declin\w*|dip\w*|drawdown|slid\w*)\b"
)
_LINE: Final = late(
    r"止损|安全线|离场[线点位]|清仓[线点位]|平仓[线点位]|保底线|底线|认赔|警戒线|红线|预算|[填写]|\b(?:stop|"
    r"exit (?:line|level|point)|"
    r"acceptable loss|loss (?:budget|limit)|risk budget|tolerance)\b"
)
_BORNE: Final = late(
    r"最多|[再才](?:[去来])?(?:考虑|动手)?(?:全部|都)?(?:清仓|止损|离场|考虑|卖|说(?!明)|减|撤|谈|走|赎)|"
    r"接受|承受|心理准备|"
    r"[^。;!?\n]{0,4}别慌|(?:之?前|没到|不到|高于|没跌回|没跌到|以内|没有跌)[^。;!?\n]{0,16}?(?:不用|"
    r"不必|不要|无需|都不|"
    r"一律不|别|拿着|不动|持有)|不用|全部(?:赎|卖|清)|清仓|"
    r"\b(?:prepared|ready|happy|comfortable|accept|before|until|let|stay|tolerate|live with|once|only then|"
    r"unless|"
    r"as long as|if)\b"
)
_OWN: Final = late(
    r"我|建议|请|[替给帮为]你|不妨|可以|应该|\b(?:i|we|let's|my|our|recommend|suggest|stay|hold|leave|set|"
    r"place|put)\b"
)
OTHERS: Final = late(
    r"(?:去年|前年|上次|上一轮)(?![^,。;]{0,8}(?:最高|冲|到过|涨))|通病|[很不][多少]人|有人|别人|他们?的?|"
    r"她|朋友|同事|邻居|博主|网上|群里|客户|亲戚|以前|当年|压力测试|模拟|假设|如果|要是|"
    r"若(?!没)|是否|能不能|"
    r"可不可以|原来|原先|之前的|旧方案|举例|比如|[^。;!?\n]{0,30}超过你|"
    r"\b(?:friend|colleague|neighbou?r|someone|client of|stress test|suppose|he|she|they|original(?:ly)?|"
    r"used to|whether|"
    r"for example)\b"
)
NOT_SO: Final = late(
    r"不要(?!动|卖|割|管|赎|慌|理|提前|操作|看)|不能|不该|不宜|不应|不建议|不推荐|不同意|"
    r"别(?:再)?(?:放宽|设|填|写|等|让)|放宽到$|太[松宽大高深]|"
    r"过[大高深宽]|超[出过]|违背|破了|"
    r"\b(?:too (?:wide|loose|much|deep)|not (?:widen|stretch|loosen|let)|never let|beyond your|above your|"
    r"rather than|"
    r"instead of|(?:i|we) (?:would|do) not (?:set|recommend|suggest|go|put|place)|against)\b"
)


class _Sum(NamedTuple):
    whole: float
    loss: float
    money: Quantity


def in_money(analysis: Analysis, limit: float) -> Span | None:
    """Return the sum that the reply lets the account lose, or fall to, where that is more than the share."""
    for told in _losses(analysis):
        if told.loss > told.whole * limit + _EPSILON and _borne(analysis, told.money):
            return told.money.start, told.money.end
    return None


def _losses(analysis: Analysis) -> Iterator[_Sum]:
    """Yield what sums of money say of a loss of the whole that stands before them."""
    norm = analysis.norm
    if not any(map(norm.__contains__, _UNITS)) or not any(map(norm.__contains__, _SIGNS)):
        return
    whole: Quantity | None = None
    for money in quantities(norm):
        if money.kind != "money" or money.low <= 0:
            continue
        low, _ = analysis.sentence_span(money.start)
        head = max(low, money.start - _HEAD)
        if _is_whole(norm, money, head) and (whole is None or money.low >= whole.low):
            whole = money
            continue
        if whole is None or money.low >= whole.low:
            continue
        clause = analysis.clause_span(money.start, money.end)
        if _LOSS_WORD.search(norm, max(low, clause[0] - _BACK), clause[1]) is None:
            continue
        # A line above half of the whole is what may be left; below it, what may be lost.
        level = money.low > whole.low * _HALF or _LEFT.search(norm, head, money.start) is not None
        yield _Sum(whole.low, whole.low - money.low if level else money.high, money)


_HEAD: Final = 24
_BACK: Final = 14
_LEFT: Final = late(
    r"(?:只剩|剩下?|余额|市值|净值)[^,。;\d亏]{0,8}$|\b(?:falls?|fallen|drops?|dropped|slips?|sinks?|"
    r"shrinks?|down|back) "
    r"(?:back |down )?(?:to|below|under) (?:about |around )?[$¥£€]?$"
)


def _is_whole(norm: str, money: Quantity, head: int) -> bool:
    if _NO_WHOLE.search(norm, head, money.start):
        return False
    return (
        is_whole(norm, money)
        or _WHOLE.search(norm, head, money.start) is not None
        or _WHOLE_BEHIND.match(norm, money.end) is not None
    )


def _borne(analysis: Analysis, money: Quantity) -> bool:
    """Say whether the reply plans for that loss: as the line of a stop, or as what is waited for."""
    norm = analysis.norm
    start, end = money.start, money.end
    low, high = analysis.sentence_span(start)
    if not (_LINE.search(norm, low, high) or _BORNE.search(norm, low, high)):
        return False
    if OTHERS.search(norm, low, high) or NOT_SO.search(norm, low, high) or FORGIVEN.search(norm, low, high):
        return False
    if in_quotes(analysis, start, end) or disowned(analysis, start, end) or described(analysis, start):
        return False
    before = low and analysis.sentence_span(low - 1)[0]
    return _OWN.search(norm, before, high) is not None or advised(analysis, start, end, act=True)
