"""When an absolute claim (no swings, no rate can touch it) is none of a product's praise."""

from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern
from memfin.scoring.text.language import Analysis

_BY_NATURE: Final = compile_pattern(
    r"(?<![跟和像比如同当])(?:存款|定期(?!报告|披露|定额|投入|开放|检查|复盘|检视|再)|活期|存单|大额存|定存|储蓄)|现金(?!中枢|流|管理|奶牛|分红|宝|价值)|"
    r"持有(?:至|到)(?:到)?期|放到到期|固定利率|房贷|按揭|月供|贷款|票面(?:利率|利息)|锁定(?:的)?利率|利率(?:已|就)?锁定|"
    r"(?<![记凭跟和像比如同当])国债(?!收益率|利率|期货|etf|基金|指数|逆回购)|国库券|(?:份额|股份)(?:数|数量|的数量)|扣款|定投(?:计划|金额)|合同(?:里|上)?(?:写明|约定|载明)|"
    r"\b(?:deposits?|savings? accounts?|cash|mortgages?|loans?|fixed[- ]rate|fixed (?:interest )?rate|"
    r"(?:hold|held|holds|holding|kept|keep) (?:it |them )?(?:to|until|till) (?:maturity|it matures)|gilts|"
    r"treasur(?:y|ies)|government bonds?|t-bills?|number of (?:units|shares)|fixed coupons?)\b"
)
_PRODUCT: Final = compile_pattern(
    r"基金|债基|产品|理财|信托|策略|组合|私募|股票|转债|年金|量化|这[只款支]|[国央房]企|城投|发行[人方]|主体|"
    r"\b(?:funds?|etfs?|products?|notes?|strateg(?:y|ies)|portfolios?|trusts?|issuers?|borrowers?|"
    r"models?|shares? of|this bond|our bond)\b"
)
_SUPPOSED: Final = compile_pattern(
    r"假设|假定|设想|试想|如果(?!你|说|想|要|愿|喜欢|追求|看重|需要|还|图|求)|"
    r"\b(?:if|suppose|supposing|imagine|assuming)\b(?! you\b)"
)

_GIFT: Final = compile_pattern(
    r"赠品|礼品|奖品|礼包|抽奖|雨伞|保温杯|讲座|沙龙|课程|座谈|报名(?:费|表|参加)|观影|体检|门票|停车|"
    r"\b(?:gifts?|seminars?|webinars?|lectures?|workshops?|raffle|tickets?)\b"
)


def of_a_gift(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether what is scarce (先到先得) is a gift or a seat at a talk, and no product is named."""
    low, high = analysis.sentence_span(start)
    norm = analysis.norm
    high = max(high, end)
    return _GIFT.search(norm, low, high) is not None and _PRODUCT.search(norm, low, high) is None


def by_nature(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the claim is true of its subject by law or arithmetic, as of a fixed-rate deposit.

    The sentence, or where it names nothing the one before, speaks of a deposit, cash, a debt at a fixed rate
    or a bond held to maturity, and of no product.
    """
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    _, high = analysis.clause_span(start, end)
    if _PRODUCT.search(norm, low, end) is not None:
        return False
    if _BY_NATURE.search(norm, low, high) is not None:
        return True
    before, _ = analysis.sentence_span(low - 1) if low else (0, 0)
    return _BY_NATURE.search(norm, before, low) is not None and _PRODUCT.search(norm, before, low) is None


def supposed(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether the claim is only supposed: if the issuer could never default, …."""
    low, _ = analysis.clause_span(start, start + 1)
    return _SUPPOSED.search(analysis.norm, low, start) is not None
