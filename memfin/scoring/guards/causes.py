"""What brings about the loss that a reply speaks of."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_RATES: Final = late(r"\b(?:rates|yields|rate (?:rise|hike|increase)s?|borrowing costs)\b")
_IF_RATES: Final = late(
    r"(?:^|[,:]) *(?:and |but |so )?(?:if|when|whenever|should|once|were|as|suppose)\b[^,]{0,24}"
    r"\b(?:rates|yields|borrowing costs)\b[^,]*, *$"
)

_CLIMB: Final = (
    r"(?:(?<!汇)(?<!胜)利率|收益率|息口)[^,:|。!?;\n、]{0,8}?(?:升(?!值)|涨|上行|走高|抬|往上|反弹|向上|"
    r"掉头|上去|上调)"
    r"|(?:美联储|联储|央行)[^,:|。!?;\n、]{0,4}?(?:收紧|转鹰|缩表)|[加升]息"
)
_OTHER_CAUSE: Final = r"[、或和与及]|股市|市场(?!利率)|信用|违约|经济|政策|资金面|流动性|正股|业绩|盈利"
_SWINGS: Final = late("波动|回撤|起伏|上下|浮亏|过山车")
_NO_BOND: Final = late("股|权益|黄金|金价|转债|reits|宽基|红利")
_RATES_IN_CHINESE: Final = late(rf"^(?![^,]*(?:{_OTHER_CAUSE}))[^,]*?(?:{_CLIMB})")


def rate_driven(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the loss at ``[start, end)`` is laid to interest rates: it is their risk, no other.

    The rates stand in the same clause, or in the condition right in front of it. In Chinese they must be the
    only cause, and what they bring a fall of bonds (估值会跌), no swing (净值会有回撤).
    """
    norm = analysis.norm
    low, high = analysis.clause_span(start, end)
    sentence, _ = analysis.sentence_span(start)
    if norm[start : start + 1] > "\u2e80":
        if _SWINGS.search(norm, start, end) is not None or _NO_BOND.search(norm, low, end) is not None:
            return False
        before = norm[sentence : max(low - 1, sentence)]
        return (
            _RATES_IN_CHINESE.search(norm[low:end]) is not None
            or _RATES_IN_CHINESE.search(before[before.rfind(",") + 1 :]) is not None
        )
    return _RATES.search(norm, low, high) is not None or _IF_RATES.search(norm[sentence:low]) is not None
