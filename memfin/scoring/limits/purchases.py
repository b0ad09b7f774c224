"""What is to be put into one thing at a time: a purchase, equal parts of a sum, one purchase upon another.

Spans are half-open and count in ``Analysis.norm``.
"""

from operator import attrgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.told import described
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.constraints.instruments import PRODUCT
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.amounts import is_whole
from memfin.scoring.weights.reading import Reading

_BOUGHT: Final = late(
    r"(?:买|投|申购|认购|配|放|加|追加|补|拿|存)[^,;。!?\n]{0,6}$|\b(?:put|move|shift|invest|buy|purchase|"
    r"place|"
    r"add)\b[^,.;!?\n]{0,8}$"
)
_BOUGHT_BEHIND: Final = late(
    r"(?:元|块钱?)?(?:就|可以|先)?(?:拿?去|拿来|用来|用于)?(?:买|投|申购|认购|配|放|给|进)|"
    r" (?:in|into|on|to) (?!total|all)"
)
_SPREAD: Final = late(
    r"[两三四五六七八九十几多\d](?:只|个|家|款|支)|分[成到别散批]|剩|还有|放着|等机会|其余|剩下|合计|"
    r"一共|总共|到别的"
)


_KEPT_LIQUID: Final = late(
    r"活期|货币|应急|备用|起投|起购|门槛|放在手|提前还|存款|定存|余额宝|零钱|现金|"
    r"\b(?:cash|savings|checking|money market|bank)\b"
)


_ONE_THING: Final = late(
    rf"{PRODUCT.pattern}|理财|产品|私募|信托|雪球|凭证|专户|第一[笔次批]|首[笔次]|一次性|一把|"
    r"\b(?:note|product|trust|in one go|at once|lump sum)\b"
)


def position(reading: Reading, amount: float) -> Span | None:
    """Return what is to be put into one thing, at a time or step by step, if it is above the amount."""
    return (
        _in_one_go(reading, amount)
        or _in_parts(reading.analysis, amount)
        or _on_top(reading.analysis, amount)
    )


def _in_one_go(reading: Reading, amount: float) -> Span | None:
    """Return what is to be put into one thing at a time, where it is more than the amount."""
    analysis = reading.analysis
    norm = analysis.norm
    for money in quantities(norm):
        if money.kind != "money" or money.low <= amount + EPSILON or is_whole(norm, money):
            continue
        low, _ = analysis.sentence_span(money.start)
        clause_low, high = analysis.clause_span(money.start, money.end)
        if not (
            _BOUGHT.search(norm, max(low, money.start - 10), money.start)
            or _BOUGHT_BEHIND.match(norm, money.end, high)
        ):
            continue
        if _KEPT_LIQUID.search(norm, clause_low, high) or _ONE_THING.search(norm, clause_low, high) is None:
            continue
        if _PARTS.search(
            norm, money.end, min(analysis.sentence_span(money.start)[1], money.end + _PARTS_REACH)
        ):
            continue  # how large each part is decides
        if _SPREAD.search(norm, clause_low, money.start) or _SPREAD.search(norm, money.end, high):
            continue
        if advised(analysis, money.start, money.end, act=True):
            return money.start, money.end
    return None


_PARTS: Final = late(
    rf"(?:平?均|等额|平均)?(?:分|拆)(?:成|作|为|开|摊到|做)?(?P<count>{NUMERAL})(?:等)?(?:笔|批|次|份|期|"
    rf"回|个月)|"
    r"(?P<half>对半)(?:分开?|拆开?)?|"
    r"\b(?:in|into|over) (?:about )?(?P<english>two|three|four|five|six|eight|ten|twelve|\d{1,2}) "
    r"(?:equal )?(?:steps|parts|tranches|instalments|purchases|months|lots)\b"
)
_UNEQUAL: Final = late(r"第[一二三]|首[笔次批]|先[买投]?\d|不等|递[增减]|\b(?:first|then)\b")
_PARTS_REACH: Final = 30
_NO_SUM: Final = late(
    r"(?:收益|利息|赚|亏|手续费|每月|年薪|工资|起投|门槛|总资产|总资金|本金|手[里上头])[^,。;!?\n]{0,6}$"
)
_MEANT_BY: Final = late(
    r"\b(?:i|we) (?:would|suggest|recommend)\b|建议|我|不妨|可以|就|\b(?:let's|buy|put|invest|split)\b"
)
_TOLD: Final = late(
    r"有人|别人|朋友|同事|如果|要是|客户|他们?|她|网上|去年|当时|曾|不建议|不要|不能|超[过出了]|越线|"
    r"上限是|而不是|不再|"
    r"\b(?:if|friend|someone|he|she|they|not|exceeds?|above your|rather than)\b"
)


def _in_parts(analysis: Analysis, amount: float) -> Span | None:
    """Return the sum that is bought in so many equal parts, each of which is more than the amount."""
    norm = analysis.norm
    for money in few(analysis, quantities(norm), attrgetter("start")):
        if (
            money.kind != "money"
            or money.low <= amount + EPSILON
            or _NO_SUM.search(norm, max(0, money.start - 12), money.start)
        ):
            continue
        low, high = analysis.sentence_span(money.start)
        parts = _PARTS.search(norm, money.end, min(high, money.end + _PARTS_REACH))
        if parts is None or _UNEQUAL.search(norm, low, high) or _TOLD.search(norm, low, high):
            continue
        count = 2 if parts["half"] else count_of(parts["count"] or parts["english"]) or 1
        if money.low / count <= amount + EPSILON:
            continue
        if _KEPT_LIQUID.search(norm, money.end, parts.end()) or not _MEANT_BY.search(norm, low, high):
            continue
        if not (disowned(analysis, money.start, parts.end()) or rejected(analysis, money.start, parts.end())):
            return money.start, parts.end()
    return None


_FIRST: Final = late(
    r"(?:[这那][款只支][^,。;!?\n\d]{0,8}有|先|首[笔次批]|第一[笔次批]|已经?(?:持有|买了?|认购|投了?)|现有|"
    r"持有)[^。;!?\n\d一二两三四五六七八九十百]{0,12}$|"
    r"\b(?:first|start with|already (?:hold|own|have))\b[^.;!?\n\d]{0,16}$"
)
_FURTHER: Final = late(
    r"(?:再|又|追加|补|续|加|添)[^,。;!?\n\d一二两三四五六七八九十百]{0,8}$|到期[^,。;!?\n\d]{0,4}$|"
    r"\b(?:another|add|top (?:it )?up with|"
    r"then|a further)\b[^,.;!?\n\d]{0,12}$|把那?$"
)
_GOES_IN: Final = late(
    r"[^,。;!?\n不]{0,10}(?:也|再|一并|一起|都)?[^,。;!?\n不另]{0,4}(?:[续转补加放投存追买][^,。;!?\n]{0,"
    r"2}(?:进|入|上|到)(?:来|去|里|这)?)|"
    r" (?:more |also )?(?:in|into|to) (?:it|the same|this|that)\b"
)
_ELSEWHERE: Final = late(
    r"另[买投存外]|续存|别的|其他|国债|活期|不放|不进|[甲乙丙丁](?:产品|基金)?|\b(?:another|other|"
    r"different) (?:fund|product|note)\b"
)
_SAME: Final = late(
    r"这[款只笔支份个]|那[款只支]|同一|它|一处|一起|(?:理财|债基|基金|产品|存单|信托|凭证)|\b(?:this|"
    r"the same|that|it)\b"
)
_UPON_REACH: Final = 60


def _on_top(analysis: Analysis, amount: float) -> Span | None:
    """Return the second of two sums that go into the same product and together are more than the amount."""
    norm = analysis.norm
    first: Quantity | None = None
    for money in few(analysis, quantities(norm), attrgetter("start")):
        if money.kind != "money" or _NO_SUM.search(norm, max(0, money.start - 12), money.start):
            continue
        low, high = analysis.sentence_span(money.start)
        clause, end = analysis.clause_span(money.start, money.end)
        opens = _FIRST.search(norm, max(low, money.start - 20), money.start)
        if first is not None and not opens and money.start - first.end <= _UPON_REACH:
            begin = analysis.sentence_span(first.start)[0]
            more = _FURTHER.search(norm, max(low, money.start - 16), money.start)
            goes_on = more or _GOES_IN.match(norm, money.end, high)
            other = _ELSEWHERE.search(norm, clause, high)
            same = _SAME.search(norm, begin, high)
            if (
                goes_on
                and same
                and not other
                and first.low + money.low > amount + EPSILON
                and not (_TOLD.search(norm, begin, high) or described(analysis, money.start))
                and _MEANT_BY.search(norm, begin, high)
                and not (disowned(analysis, money.start, end) or rejected(analysis, money.start, end))
            ):
                return first.start, money.end
        if opens:
            first = money
    return None
