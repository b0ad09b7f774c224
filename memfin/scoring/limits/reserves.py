"""Reserves in money: amounts that are kept or spent, and cash that is not to be kept at all.

Every function returns the half-open span (in ``Analysis.norm``) that breaks the limit, or None.
"""

from operator import attrgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.told import described
from memfin.scoring.limits.caps import EPSILON, NO_CASH, Span
from memfin.scoring.limits.cash_taken import cash_short
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import Reading

CASH_AMOUNT: Final = late(
    r"(?:现金|活期|备用金|应急金?|账上|手头|手里|卡里|存款|cash|buffer|cushion|reserve)[^,。;!?\n]{0,8}$|"
    r"(?:留|保留|剩的?|剩下|"
    r"留出|留下|keep|leave|hold)[^,。;!?\n]{0,6}$|\b(?:keep|leave|hold|park) (?:the |your |"
    r"a )?(?:other |last |"
    r"remaining |final )?$"
)
_INVESTED: Final = late(
    r"(?:投入|投进|拿出|拿|买|投|买入|申购|认购|投资|invest|put|place|move|shift)[^,。;!?\n]{0,6}$"
)
_KEPT: Final = late(r"[留剩][下出着足]?[^,。;!?\n]{0,3}$|\b(?:keep|leave)\b[^,.;!?\n]{0,6}$")
_OWNED: Final = late(
    r"(?:总共|一共|总盘子|总额|合计|盘子|共有|总资产|手里|手上|手头|积蓄|存款|你有|共|全部家当|"
    r"total of|you have|you've got|you own|out of|from (?:the|your)|of (?:the|"
    r"your))[^,。;!?\n]{0,6}$"
)


_DENIED: Final = late(
    r"(?:不是|并非|不要|不能|不该|不可|别|怎么能|不建议|do(?:n't| not) |never |not )[^,。;]{0,4}$"
)


def dropped(analysis: Analysis) -> Span | None:
    """Return where the reply says that no cash need be kept."""
    norm = analysis.norm
    # Plain words are looked for in a twentieth of the time that the patterns take.
    if _NO_WORDS.search(norm) is None or _CASH_WORDS.search(norm) is None:
        return None
    for match in apart(_CASH_WASTED, norm):
        if not disowned(analysis, *match.span(1)):
            return match.span(1)
    for match in apart(_CASH_SPENT, norm):
        if not (
            described(analysis, match.start(1))
            or disowned(analysis, *match.span(1))
            or rejected(analysis, *match.span(1))
        ):
            return match.span(1)
    spans = (match.span(1) for match in apart(_NO_CASH, norm))
    return next((span for span in spans if _drops(analysis, span)), None)


_CASH_WORDS: Final = compile_pattern(
    r"现金|余钱|活钱|备用|应急|流动资金|活期|余额宝|存款|货币|货币基金|钱|cash|emergency|savings|"
    r"buffer|cushion|reserve"
)
_NO_WORDS: Final = compile_pattern(
    r"不用|不必|无需|没必要|别|不需要|用不着|免了|省了|可有可无|全部|现金都|现金全|"
    r"活期都|活期全|存款都|存款全|余钱都|余钱全|活钱都|活钱全|,都|,全|no |zero|without|skip|forget|"
    r"drop the|all |your entire|your whole|every|fully"
)
_CASH_SPENT: Final = compile_pattern(
    r"(?:手头|手里|账上|全部|所有|剩余)的?(?:现金|活期|存款|余钱|活钱)[^,。;!?\n]{0,4}(?:全部?|都|"
    r"全部)[^,。;!?\n]{0,3}[投买换转]|"
    r"\bevery (?:last )?(?:yuan|dollar|cent|penny|pound) (?:in)?to work\b|\b(?:be|being|stay|staying|go|"
    r"going|get|getting) fully invested\b|"
    r"\b(?:all (?:of )?(?:the|your) (?:cash|savings)|your (?:entire|whole) cash \w+) (?:can|may|might|"
    r"could|"
    r"should|"
    r"goes?|into)\b"
)
_NO_CASH: Final = compile_pattern(NO_CASH.pattern)
_CASH_WASTED: Final = compile_pattern(
    r"(?:现金|活期|货币基金|余额宝|存款)[^。;!?\n]{0,8}(?:不划算|没意思|没收益|贬值|跑不赢|太低|闲着|"
    r"浪费|可惜|不值|吃亏)"
    r"[^。;!?\n]{0,10},(?:建议|可以|不如|干脆|索性|还是|那就|就)*(?:都|全部|全部?|"
    r"全部)[^,。;!?\n]{0,4}[换买投转]"
)
"""Cash is called a waste, and all of it put elsewhere."""


def _drops(analysis: Analysis, span: Span) -> bool:
    """Say whether the reply itself says that no cash is needed."""
    start, end = span
    low, high = analysis.sentence_span(start)
    if disowned(analysis, start, end) or _DENIED.search(analysis.norm, low, start):
        return False
    return _STILL_KEPT.search(analysis.norm, end, high) is None and advised(
        analysis, start, end, act=True, limit=True
    )


_STILL_KEPT: Final = late(r"太多|过多|那么多|以外|之外|的(?:说法|想法|做法|观点)|too much|more than|beyond")


def cash_amount(  # noqa: C901, PLR0911, PLR0912 - a ladder of signs
    reading: Reading, amount: float
) -> Span | None:
    """Return the advised cash of less than an amount, or what is spent of the sum so that less is left."""
    analysis = reading.analysis
    norm = analysis.norm
    parts = {part.start for part in reading.amounts}
    for match in _MOST_OF.finditer(norm):
        put, whole = (float(value.replace(",", "")) for value in match.groups())
        if put < whole < put + amount - EPSILON and advised(analysis, *match.span(), act=True):
            return match.span()
    for match in _FROM_CASH.finditer(norm):
        put, whole = float(match["part"]), float(match["whole"])
        if put < whole < put + amount / _WAN - EPSILON and advised(analysis, *match.span(), act=True):
            return match.span()
    owned: float | None = None
    invested = 0.0
    for money in few(analysis, quantities(norm), attrgetter("start")):
        if money.kind != "money" or disowned(analysis, money.start, money.end):
            continue
        low, _ = analysis.sentence_span(money.start)
        head = norm[max(low, money.start - 16) : money.start]
        _, high = analysis.clause_span(money.start, money.end)
        everything = _ALL_OF_IT.match(norm, money.end, high) is not None
        if everything and money.high >= amount - EPSILON and owned in (None, money.low):
            if advised(analysis, money.start, high, act=True):
                return money.start, high
        elif _OWNED.search(head) and not _KEPT.search(head):
            owned, invested = money.low, 0.0
        elif (
            money.low < amount - EPSILON
            and _CUT_TO.search(norm, low, money.start)
            and not rejected(analysis, money.start, money.end)
        ):
            return money.start, money.end
        elif TAKEN_FROM.search(head) is not None:
            continue
        elif CASH_AMOUNT.search(head) or _CASH_BEHIND.match(norm, money.end, high):
            short = money.low < amount - EPSILON
            if short and (money.start in parts or advised(analysis, money.start, money.end)):
                return money.start, money.end
        elif owned is not None and (_INVESTED.search(head) or _INVESTED_BEHIND.match(norm, money.end, high)):
            invested += money.high
            short = owned - invested < amount - EPSILON
            if short and advised(analysis, money.start, money.end, act=True):
                return money.start, money.end
    return cash_short(analysis, amount)


_CUT_TO: Final = late(
    r"(?:现金|活期|备用金|应急金|存款)[^,。;!?\n]{0,6}(?:降|减|压|缩)[低少减]?(?:到|至)[^,。;\d]{0,2}$|"
    r"\b(?:trim|cut|reduce|lower|shrink|bring|run)\b[^.;!?\n]{0,24}\b(?:buffer|cash|reserves?|savings|"
    r"cushion|fund)\b[^.;!?\n\d]{0,8}\bto [$£€]?$"
)
TAKEN_FROM: Final = late(r"[里中][^,。;!?\n\d]{0,4}(?:拿|取|抽|挪|拨|划|匀|动用|用|转|腾)[出掉去走]?$")
"""What is taken out of the cash is none of it."""
_WAN: Final = 10_000
_FROM_CASH: Final = late(
    r"(?:活期|现金|卡里|备用金|"
    r"存款)[^,。;\d]{0,4}(?P<whole>\d+(?:\.\d+)?)万元?[里中][^,。;\d]{0,6}(?P<part>\d+(?:\.\d+)?)万"
)
_MOST_OF: Final = late(
    r"\b(?:invest|put|place|shift|deploy|commit|move)\b \$?£?(\d[\d,]*) of (?:your|the) \$?£?(\d[\d,]*)"
)
_ALL_OF_IT: Final = late(
    r"(?:元|块钱?)?(?:现金|资金|本金|存款|积蓄|首付款?|备用金|应急金)?(?:也|就|可以|建议|不妨|直接|干脆|"
    r"不如)*"
    r"(?:全部?|都|全部|一次性)(?:拿去|用来|用于|拿来|给)?(?:投|买|申购|配|换|进)"
)
_INVESTED_BEHIND: Final = late(
    r"(?:元|块钱?)?(?:就|可以|先|则)?(?:拿?去|拿来|用来|用于|用作)?(?:买|投|申购|认购|配|做|放(?:进|到|入)|"
    r"存(?:三年|五年|两年|定期|大额)|给)(?!备用|应急|现金|活期|货币|货币基金|余额宝)|"
    r" (?:in|into|to|on) (?!cash|savings|checking|the bank)"
)
_CASH_BEHIND: Final = late(
    r"(?:元|块钱?)?(?:的)?(?:就|用来|用于|用作)?(?:现金|活期|备用金|应急|留[着作下在]|做备用|备用|"
    r"随用随取|随取|应付|日常|零花|"
    r"放(?:活期|余额宝|货币|货币基金|银行卡|卡里)| in cash| cash| (?:stays?|remains?|kept|left)? ?in (?:the |"
    r"your |a )?(?:savings|bank|"
    r"cash|checking)| on hand| as (?:a |your )?(?:buffer|cushion|reserve|emergency))"
)
