"""Constraint predicates: what a client's constraint text means, in one canonical form.

`parse_constraint` turns the constraint strings of the dataset and their free variants (other numbers,
wording, Chinese numerals, English) into frozen, hashable structs. Texts that mean the same compare
equal: 最大回撤<10%, 回撤别超过一成 and ``Max drawdown under 10%`` are one `MaxDrawdown`.

Shares are fractions of one, durations years, amounts units of the client's currency.
"""

import re
from functools import cache, lru_cache
from typing import Final, Literal

import msgspec

from memfin.scoring.forms import normalize
from memfin.scoring.kept import kept
from memfin.scoring.quantities import Quantity, quantities
from memfin.scoring.vocabulary import load_vocabulary

Rating = Literal["AAA", "AA+"]
"""Lowest rating allowed. 高等级 means AA+ and better, as the domestic bond market uses the word."""


class _Base(msgspec.Struct, frozen=True, tag_field="kind", order=True):
    """What all predicates are: tagged, immutable values."""


class ForbiddenPractice(_Base, frozen=True, tag="forbidden_practice"):
    """A way of investing the client rules out (``leverage``, ``chasing_rallies``, ...)."""

    term: str


class ForbiddenAsset(_Base, frozen=True, tag="forbidden_asset"):
    """An asset the client rules out; ``term`` is a vocabulary id, or the text for an unknown asset."""

    term: str


class MaxDrawdown(_Base, frozen=True, tag="max_drawdown"):
    """The portfolio may lose at most this share."""

    limit: float


class SingleAssetCap(_Base, frozen=True, tag="single_asset_cap"):
    """No single holding (``scope`` fund: no single fund) above this share."""

    limit: float
    scope: Literal["asset", "fund"]


class AssetClassCap(_Base, frozen=True, tag="asset_class_cap"):
    """All holdings of the class together at most this share."""

    asset_class: str
    limit: float


class CashFloor(_Base, frozen=True, tag="cash_floor"):
    """Cash of at least this share, of at least this amount, or for this many months of spending."""

    share: float | None = None
    amount: float | None = None
    months: float | None = None


class AllowedUniverse(_Base, frozen=True, tag="allowed_universe"):
    """Nothing outside the universe."""

    universe: Literal["public_funds", "index_funds"]


class MinRating(_Base, frozen=True, tag="min_rating"):
    """Credit bonds of this rating or better; ``scope`` main asks it of the larger part only."""

    rating: Rating
    scope: Literal["all", "main"] = "all"


class MaxDuration(_Base, frozen=True, tag="max_duration"):
    """The bonds' duration in years is at most this."""

    years: float


class MinHolding(_Base, frozen=True, tag="min_holding"):
    """Holdings are kept at least this many years."""

    years: float


class MaxLockUp(_Base, frozen=True, tag="max_lock_up"):
    """Nothing that is locked up for longer than this many years."""

    years: float


class MaxPremium(_Base, frozen=True, tag="max_premium"):
    """Insurance premiums of at most this amount a year."""

    amount: float


class LowFee(_Base, frozen=True, tag="low_fee"):
    """Funds with low fees come first."""


class Preferred(_Base, frozen=True, tag="preferred"):
    """A wish among the constraints; ``term`` is a canonical preference or normalized text."""

    term: str


class NoConstraint(_Base, frozen=True, tag="no_constraint"):
    """The client states that there is no constraint."""


Predicate = (
    ForbiddenPractice
    | ForbiddenAsset
    | MaxDrawdown
    | SingleAssetCap
    | AssetClassCap
    | CashFloor
    | AllowedUniverse
    | MinRating
    | MaxDuration
    | MinHolding
    | MaxLockUp
    | MaxPremium
    | LowFee
    | Preferred
    | NoConstraint
)
"""Every kind of constraint."""

_NONE: Final = re.compile(
    r"^(?:(?:暂?无|没有|未设定?)(?:任何|明确|特别|特殊|其他|具体)?的?(?:约束|限制|要求|禁忌)(?:条件)?|"
    r"无|没有|none|n/a|nil|"
    r"no (?:explicit |specific |particular |stated )?(?:constraints?|restrictions?|"
    r"limits?)(?: stated)?)[。.]?$"
)
_DRAWDOWN: Final = re.compile(
    r"回撤|亏损|亏|浮亏|损失|跌幅|跌|止损|drawdown|draw-down|\bloss(?:es)?\b|\blos(?:e|ing)\b|downside|"
    r"缩水|损失|\bdip\b|\bfall\b|\bdrop\b"
)
_DURATION: Final = re.compile(r"久期|\bduration\b|债券?期限|剩余期限|\bmaturit(?:y|ies)\b")
_HOLDING: Final = re.compile(r"持有|拿住|持仓(?:时间|期)|\bhold(?:ing)?\b")
_CASH: Final = re.compile(
    r"现金|备用金|应急|活期|流动资金|流动性|生活费|开支|开销|支出|花销|活钱|周转|零用|\bcash\b|"
    r"emergency|\bliquid|expenses|"
    r"\bspending\b|rainy[- ]day|\breserves?\b"
)
_SPENDING: Final = re.compile(r"生活费|开支|开销|支出|花销|用度|expenses|spending|living costs")
_LOCK: Final = re.compile(
    r"封闭|锁定|锁仓|锁住|锁死|定开|[不别][^,;]{0,4}持有期|持有期[^,;]{0,3}(?:不超|不长|别超|不要超|"
    r"别长)|\block(?:ed|s|ing)?\b|lock-?(?:up|in)|\btied up\b|closed-end|redeem"
)
_ANYTIME: Final = re.compile(
    r"随时[^,;]{0,6}(?:取|用|赎|变现|支取|退)|(?:不|别)[^,;]{0,4}(?:取不出|赎不|锁住|锁死)|流动性要好|"
    r"illiquid|withdraw|any ?time|(?:liquid|accessible|redeemable) at all|\bstay liquid\b|daily liquidity"
)
_LOCK_LIMIT: Final = re.compile(
    r"超过|长于|大于|多于|不过|以上|以内|之内|以下|最长|最多|至多|顶多|over|above|longer|more than|"
    r"at most|beyond|up to|"
    r"maximum|max\b|exceed|within|under"
)
_PREMIUM: Final = re.compile(r"保费|年交|年缴|\bpremiums?\b")
_SINGLE: Final = re.compile(
    r"单一(?!行业|板块|市场|赛道)|单只|单个|单支|每只|每个|任一|任何一只|一只|single|any one|"
    r"per (?:fund|asset|holding)|"
    r"each|one (?:fund|asset|holding|position)|\bposition\b"
)
_FUND: Final = re.compile(r"基金|\bfunds?\b")
_CAP_CLASSES: Final = (
    ("sector", re.compile(r"行业|板块|赛道|sector|industry")),
    ("overseas", re.compile(r"海外|境外|港股|美股|overseas|foreign|international")),
    ("equity", re.compile(r"权益|股票|偏股|股市|股类|仓位|\bequit(?:y|ies)\b|\bstocks?\b|\bshares\b")),
    ("bond", re.compile(r"债|固收|\bbonds?\b|fixed income")),
    ("gold", re.compile(r"黄金|贵金属|\bgold\b|precious")),
    ("cash", re.compile(r"现金|货币|\bcash\b")),
    ("other", re.compile(r"商品|另类|私募|信托|reits?\b|commodit|alternativ|crypto|加密|比特币")),
)
_NEGATIVE: Final = re.compile(
    r"不(?!低于|少于|动产|限)|别|勿|禁|避|拒|没|非(?!银)|零(?!售|钱)|无(?!风险)|戒|远离|排除|除外|剔除|"
    r"\bno\b|\bnot\b|never|avoid|without|exclud|\bnone\b|don't|stay away|refus|forbid|\bzero\b|\bban"
)
_ONLY: Final = re.compile(r"仅|只(?!基金|股)|全部为|限于|局限|\bonly\b|exclusively|solely|nothing but")
_PUBLIC_FUNDS: Final = re.compile(
    r"公募|mutual funds?|public(?:ly offered)? funds?|fund products?|\bfunds? only|only (?:buy |"
    r"use )?funds?|(?:买|投|考虑|配置?|限于?)基金|基金产品"
)
_DOMESTIC: Final = re.compile(
    r"(?:仅|只)[^,;]{0,4}(?:a股|境内|国内|内地)|domestic\b[^,;]{0,16}\bonly|only domestic|(?:home|"
    r"local) markets? only"
)
_INDEX_FUNDS: Final = re.compile(
    r"指数(?:类|型)?(?:基金|产品)|被动(?:基金|产品|型|指数)|\b(?:index|passive|tracker)s? (?:funds?|"
    r"products?|etfs?|investing)"
)
_ACTIVE_FUNDS: Final = re.compile(
    r"主动(?:型|管理|权益|偏股)?(?:类|的)?(?:基金|产品)?|\bactive(?:ly)?[- ](?:managed|funds?|management)"
)
_TOP_RATING: Final = re.compile(r"(?<!a)aaa(?!a)")
_NEXT_RATING: Final = re.compile(
    r"(?<!a)aa\+|高等级|高评级|高信用等级|优质信用|investment[- ]grade|high[- ](?:grade|rated|quality)"
)
_LOW_RATING: Final = re.compile(r"低评级|低等级|垃圾|下沉|low[- ](?:rated|grade)|junk|high[- ]yield")
_MAIN: Final = re.compile(r"为主|主要|优先|大部分|mainly|mostly|primarily|predominantly")
_CHEAP: Final = re.compile(
    r"(?:低|便宜).{0,2}(?:费|成本)|(?:费|成本).{0,5}(?:低|便宜|优)|low[- ](?:fee|cost)|cheap|"
    r"lowest fee|fees? (?:low|first)"
)
_PREFER: Final = re.compile(
    r"^(?:更)?(?:偏好|偏爱|优先(?:考虑|选择)?|喜欢|倾向于?|希望|prefers?|favou?rs?|likes?)[:： ]*"
)
_QUARTERLY: Final = re.compile(r"季度?.{0,6}业绩|业绩.{0,6}季|按季|每季|quarterly")
_BARE: Final = re.compile(
    r"不再?|别|勿|请|全程|一律|坚决|绝对?|任何|参与|投资|购买|使用|配置|持有|接受|碰|买入?|做|投|炒|"
    r"要|想|考虑|回避|拒绝|避免|避开|远离|"
    r"\b(?:no|not|never|avoid|without|any|do|don't|invest(?:ing)?|in|buy(?:ing)?|exclude|stay|away|"
    r"from|use|hold(?:ing)?)\b|[\s,.;:。]"
)


@lru_cache(maxsize=4096)
@kept
def parse_constraint(text: str) -> Predicate | None:
    """Return the canonical predicate of a constraint, or None when it is none that can be checked.

    A text that rules something out which the vocabulary does not know becomes a `ForbiddenAsset` with
    the bare text as its term, so that it can still be compared and found literally.
    """
    norm = " ".join(normalize(text).split())
    if not norm:
        return None
    if _NONE.match(norm):
        return NoConstraint()
    if _DOMESTIC.search(norm):
        return ForbiddenAsset("overseas_market")
    return _numeric(norm) or _quality(norm) or _forbidden(norm) or _wish(norm)


def _first(found: list[Quantity], kind: str) -> Quantity | None:
    return next((quantity for quantity in found if quantity.kind == kind), None)


def _round(value: float) -> float:
    return round(value, 6)


def _numeric(norm: str) -> Predicate | None:  # noqa: C901, PLR0911 - one return a kind
    found = quantities(norm)
    share, years, money = _first(found, "share"), _first(found, "duration"), _first(found, "money")
    if share is not None and _DRAWDOWN.search(norm):
        return MaxDrawdown(_round(share.high))
    if years is not None and _DURATION.search(norm):
        return MaxDuration(_round(years.high))
    if years is not None and _LOCK.search(norm):
        limited = _LOCK_LIMIT.search(norm) is not None
        return MaxLockUp(_round(years.high)) if limited else ForbiddenAsset("lock_up_products")
    if years is not None and _HOLDING.search(norm):
        return MinHolding(_round(years.low))
    if money is not None and _PREMIUM.search(norm):
        return MaxPremium(_round(money.high))
    if years is not None and share is None and _CASH.search(norm) and _SPENDING.search(norm):
        return CashFloor(months=_round(years.low * 12))
    if _CASH.search(norm) and (share is not None or money is not None):
        return _cash_floor(share, money)
    if share is None:
        return None
    if _SINGLE.search(norm):
        return SingleAssetCap(_round(share.high), "fund" if _FUND.search(norm) else "asset")
    for name, pattern in _CAP_CLASSES:
        if pattern.search(norm):
            return AssetClassCap(name, _round(share.high))
    return None


def _cash_floor(share: Quantity | None, money: Quantity | None) -> CashFloor:
    if share is not None:
        return CashFloor(share=_round(share.low))
    return CashFloor(amount=_round(money.low) if money is not None else None)


def _quality(norm: str) -> Predicate | None:  # noqa: PLR0911 - one return a kind
    """Read constraints on fees, ratings and the universe; they forbid by naming what is allowed."""
    negative = _NEGATIVE.search(norm) is not None
    if _CHEAP.search(norm) and not negative:
        return LowFee()
    if not _LOW_RATING.search(norm):
        scope: Literal["all", "main"] = "main" if _MAIN.search(norm) and not _ONLY.search(norm) else "all"
        if _NEXT_RATING.search(norm) and (_ONLY.search(norm) or scope == "main" or "以上" in norm):
            return MinRating("AA+", scope)
        if _TOP_RATING.search(norm) and (_ONLY.search(norm) or scope == "main" or "以上" in norm):
            return MinRating("AAA", scope)
    if _INDEX_FUNDS.search(norm) and _ONLY.search(norm):
        return AllowedUniverse("index_funds")
    if _ACTIVE_FUNDS.search(norm) and negative:
        return ForbiddenAsset("active_funds")
    if _PUBLIC_FUNDS.search(norm) and _ONLY.search(norm):
        return AllowedUniverse("public_funds")
    return ForbiddenAsset("lock_up_products") if _ANYTIME.search(norm) else None


@cache
def _term_names() -> tuple[tuple[str, str, Literal["practice", "asset"]], ...]:
    """Return (name, id, kind) of all terms, longest names first, so that 港股美股 beats 港股."""
    names: list[tuple[str, str, Literal["practice", "asset"]]] = [
        (name, term.id, term.kind)
        for term in load_vocabulary().terms
        if not term.exact
        for name in (*term.names, *term.words)
    ]
    # What constraints call a term goes before what replies call it: 期货 names derivatives, not leverage.
    own = {(name, term.id) for term in load_vocabulary().terms for name in term.names}
    return tuple(sorted(names, key=lambda entry: (-len(entry[0]), (entry[0], entry[1]) not in own)))


def find_term(norm: str) -> ForbiddenPractice | ForbiddenAsset | None:
    """Return the vocabulary's term that a normalized text names, as the ban of that term, or None."""
    compact = norm.replace(" ", "") if not norm.isascii() else norm
    for name, term, kind in _term_names():
        position = compact.find(name)
        if position < 0 or not _whole_word(compact, position, name):
            continue
        return ForbiddenPractice(term) if kind == "practice" else ForbiddenAsset(term)
    return None


def _whole_word(text: str, position: int, name: str) -> bool:
    """Latin words match whole only: ``gold`` is not in ``golden``."""
    if not name[0].isascii():
        return True
    before = text[position - 1 : position]
    after = text[position + len(name) : position + len(name) + 1]
    starts = not (before.isascii() and before.isalpha() and name[0].isalpha())
    ends = not (after.isascii() and after.isalpha() and name[-1].isalpha())
    return starts and ends


def forbidden(text: str) -> ForbiddenPractice | ForbiddenAsset | None:
    """Return the ban of the thing a text names, whether or not the text itself negates it."""
    norm = " ".join(normalize(text).split())
    named = load_vocabulary().term(norm)
    if named is not None:
        return ForbiddenPractice(named.id) if named.kind == "practice" else ForbiddenAsset(named.id)
    known = find_term(norm)
    if known is not None:
        return known
    bare = _BARE.sub("", norm) if not norm.isascii() else " ".join(_BARE.sub(" ", norm).split())
    for term in load_vocabulary().terms:
        if bare in ((*term.names, *term.exact_names) if term.exact else term.exact_names):
            return ForbiddenPractice(term.id) if term.kind == "practice" else ForbiddenAsset(term.id)
    return ForbiddenAsset(bare) if bare else None


def _forbidden(norm: str) -> Predicate | None:
    return forbidden(norm) if _NEGATIVE.search(norm) or norm.startswith("涨多") else None


def _wish(norm: str) -> Predicate | None:
    if _QUARTERLY.search(norm):
        return Preferred("quarterly_performance")
    if _PUBLIC_FUNDS.search(norm) and _ONLY.search(norm):
        return AllowedUniverse("public_funds")
    match = _PREFER.match(norm)
    return Preferred(norm[match.end() :].strip()) if match and norm[match.end() :].strip() else None
