"""Constraint texts read: `parse_constraint` gives the predicate, `parse_constraints` all of a list.

The constraint strings of the dataset and their free variants (other numbers, wording, Chinese numerals,
English) that mean the same give equal predicates: 最大回撤<10%, 回撤别超过一成 and ``Max drawdown under
10%`` are one `MaxDrawdown`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from memfin.scoring.constraints.bans import NEGATIVE, Ban, bans
from memfin.scoring.constraints.counted_limits import counted_limit
from memfin.scoring.constraints.figures import figured
from memfin.scoring.constraints.kept import kept
from memfin.scoring.constraints.phrasing import permits, plainly, without_told_reason
from memfin.scoring.constraints.predicates import (
    AllowedUniverse,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    NoConstraint,
    Predicate,
    Preferred,
)
from memfin.scoring.constraints.ratings import lowest_rating
from memfin.scoring.constraints.universes import safe_universe
from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.forms import normalize
from memfin.scoring.text.synonyms import in_usual_words

_NONE: Final = late(
    r"^(?:(?:暂?无|没有|未设定?)(?:任何|明确|特别|特殊|其他|具体)?的?(?:约束|限制|要求|禁忌)(?:条件)?|"
    r"暂?无|暂?没有|none|n/a|nil|"
    r"no (?:explicit |specific |particular |stated )?(?:constraints?|restrictions?|"
    r"limits?)(?: stated)?)[。.]?$"
)
_YEARS: Final = late(r"(?<=\d)( ?)(?:y|yrs?)\b")
_BASIS_POINTS: Final = late(r"(\d+(?:\.\d+)?) ?(?:bps?\b|basis points?|个?基点|个?bp)")
_OVER_HALF: Final = late(r"(?<!超)过半(?![年个天月])")
_ANYTIME: Final = late(
    r"随时[^,;]{0,6}(?:取|用|赎|变现|支取|退)|(?:不|别)[^,;]{0,4}(?:取不出|赎不|锁住|锁死)|流动性要好|"
    r"illiquid|withdraw|any ?time|(?:liquid|accessible|redeemable) at all|\bstay liquid\b|daily liquidity"
)
_CALM_TRADING: Final = late(
    r"低换手|换手率?(?:要)?低|长期持有|只做长期|长线|不(?:想|愿|爱)?(?:天天)?看盘|low[- ]turnover|"
    r"buy[- ]and[- ]hold|"
    r"long[- ]term (?:only|holding)"
)
_CALM_ASSETS: Final = late(r"低波动?|波动[小低]|low[- ]volatility|low[- ]vol\b")
_OWN_MONEY: Final = late(
    r"(?:只用|仅用|只拿|全用|用)[^,;]{0,3}(?:自有资金|自己的钱|自己的资金|闲钱)|own money only|"
    r"only (?:my )?own money"
)
_LISTED: Final = late(r"\blisted\b|上市(?:交易)?的?(?:产品|证券|品种)")
_GOVERNMENT: Final = late(r"国债|政金债|利率债|government bonds?|treasur\w+|gilts?")
_ONLY: Final = late(
    r"仅|非公募[^,;]{0,6}不|(?:以外|之外)的?[^,;]{0,4}(?:不|别)|只(?!基金|股)|全部为|限于|局限|"
    r"\bonly\b|exclusively|solely|nothing but|or nothing|(?:\bif|unless) (?:it|they)(?:'s| is|"
    r" are)? (?:not )?|\bexcept\b|全部是|只要"
)
_PUBLIC_FUNDS: Final = late(
    r"公募|mutual funds?|public(?:ly[- ](?:offered|sold))?(?:,? publicly sold)? funds?|公开(?:募集|发行)|"
    r"funds anyone can buy|publicly sold|fund products?|\bfunds? only|only (?:buy |"
    r"use )?funds?|(?:买|投|考虑|配置?|限于?)基金|基金产品|普通人[^,;]{0,6}申购|retail funds?"
)
_CONFINED: Final = late(
    r"必须(?:是|为)|限(?:定)?(?:为|于)?公募|全(?:部)?(?:是|为)|100%为|均为|范围(?:为|是|:)|除了公募|"
    r"公募(?:基金)?(?:产品)?(?:以外|之外)|非公募|"
    r"普通人|唯一|不是公募|构建|(?:品种|标的|范围|类型|工具)(?:仅限于|为|是|:)|才考虑|\b(?:only building|"
    r"permitted|100%|that is not|stick to|just|limit(?:ed)?|confined|nothing else|must be|provided|"
    r"other than|anything but|restricted|all (?:money|"
    r"recommendations|holdings|investments|purchases)|want regular)\b"
)
_DOMESTIC: Final = late(
    r"(?:仅|只)[^,;]{0,4}(?:a股|境内|国内|内地|人民币|本币)|(?:a股|境内|国内)(?:资产|市场)?(?:以外|为限)|"
    r"domestic\b[^,;]{0,16}\bonly|only domestic|"
    r"(?:home|"
    r"local) markets? only|\b(?:only|just|solely|confined|limited|restricted|stick to|"
    r"stay)\b[^,;]{0,30}\b(?:onshore|domestic|"
    r"mainland|home (?:country|market)|the country i live in)\b|\b(?:onshore|domestic|mainland(?: china)?|"
    r"home (?:country|"
    r"market))\b[^,;]{0,20}\bonly\b|国内就好|(?:留|放)在国内|(?:须|必须|全部|都)[^,;]{0,6}(?:在|"
    r"投资于)?(?:境内|国内)|"
    r"within the (?:home|domestic)|(?:keep|stay)[^,;]{0,12} at home\b|domestically (?:issued|traded)"
)
_INDEX_FUNDS: Final = late(
    r"指数(?:类|型)?(?:基金|产品)|被动(?:基金|产品|型|指数)|\b(?:index|passive|tracker)s? (?:funds?|"
    r"products?|etfs?|investing)"
)
_ACTIVE_FUNDS: Final = late(
    r"主动(?:型|管理|权益|偏股)?(?:类|的)?(?:基金|产品)?|\bactive(?:ly)?[- ](?:managed|funds?|management)"
)
_CHEAP: Final = late(
    r"(?:低|便宜).{0,2}(?:费|成本)|(?:费|成本).{0,5}(?:低|便宜|优)|low[- ](?:fee|cost)|cheap(?:er|"
    r"est)?[^;]{0,20}funds?|funds?[^;]{0,30}cheap|"
    r"lowest fee|fees? (?:low|first)|\b(?:low(?:er|est)?|small(?:er|est)?|reduced|minimi[sz]e|"
    r"minimal)\b[^;]{0,40}\b(?:fees?|costs?|"
    r"charges?|expenses?|expense ratios?)\b|costs less|low(?:er)?-(?:charge|fee|cost|priced)|"
    r"\b(?:fees?|charges?)\b[^;]{0,24}\b(?:low|little|inexpensive)\b|\blow(?:est)? ter\b|\b(?:charge|"
    r"cost) little\b|\binexpensive\b|save me money on|"
    r"收费少|(?:省|少)[^,;]{0,3}费|费用高[^,;]{0,8}往后"
)
_FIRST: Final = late(
    r"优先|先[买选]|\b(?:prefer\w*|priorit\w+|first|precedence|favou?rs?|when|if|unless|over comparable|"
    r"takes? precedence)\b"
)
"""What makes a word on fees a wish even where dear funds are turned down."""
_PREFER: Final = late(
    r"^(?:更)?(?:偏好|偏爱|优先(?:考虑|选择)?|喜欢|倾向于?|希望|prefers?|favou?rs?|likes?)[:： ]*"
)
_MOST_PARTS: Final = 12
"""Constraints of one text that are read one by one."""
_PARTS: Final = late(
    r"[;。!]|[.,](?!\d)|(?:,? and |,? but |且|并且?|同时)(?=(?:no|max|at most|at least|only|keep|never|"
    r"do not|don't|under|below|[不别最至])"
    r"(?![a-z]))"
)
_QUARTERLY: Final = late(r"季度?.{0,6}业绩|业绩.{0,6}季|按季|每季|quarterly")


def parse_constraint(text: str) -> Predicate | None:
    """Return the canonical predicate of a constraint, or None when it is none that can be checked.

    A text that rules something out which the vocabulary does not know becomes a `ForbiddenAsset` with
    its own words as the term, so that it can still be compared and found literally. Of a text that rules
    out several things it is the first.
    """
    return next(iter(parse_constraints(text)), None)


@lru_cache(maxsize=4096)
@kept
def parse_constraints(text: str) -> tuple[Predicate, ...]:
    """Return the predicates of a constraint: several where it rules out a list (不碰军工和烟酒).

    A text of several constraints (不用杠杆,回撤控制在15%以内) has the predicates of them all. Where the whole
    is not understood, the parts that are count.
    """
    norm = in_usual_words(" ".join(normalize(text).split()))
    whole = _read(norm)
    parts = [part.strip() for part in _PARTS.split(without_told_reason(norm), _MOST_PARTS)]
    read = [found for part in parts if part and part != norm and (found := _understood(_read(part)))]
    if len(read) > 1 or (read and not _understood(whole)):
        return tuple(dict.fromkeys(predicate for found in read for predicate in found))
    return whole


def unread_constraints(texts: Iterable[str]) -> list[str]:
    """Return the constraints, each once, that are none the detectors understand: nothing can break them."""
    return list(dict.fromkeys(text for text in texts if text.strip() and not parse_constraints(text)))


def _understood(found: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    """Return the predicates if none is only a wish or a thing in the text's own words."""
    known = load_vocabulary().term
    free = any(
        isinstance(each, Preferred) or (isinstance(each, ForbiddenAsset) and known(each.term) is None)
        for each in found
    )
    return () if free else found


def _read(norm: str) -> tuple[Predicate, ...]:
    norm = plainly(norm)
    norm = _YEARS.sub(" years", _OVER_HALF.sub("超过50%", norm))
    norm = _BASIS_POINTS.sub(lambda match: f"{float(match[1]) / 100:g}%", norm)
    if not norm or permits(norm):
        return ()
    if _NONE.match(norm):
        return (NoConstraint(),)
    if _DOMESTIC.search(norm):
        return (ForbiddenAsset("overseas_market"),)
    stated = counted_limit(norm) or figured(norm) or _quality(norm)
    if stated is not None:
        return (stated,)
    if ruled_out := _ruled_out(norm):
        return ruled_out
    wish = _wish(norm)
    return () if wish is None else (wish,)


def _quality(norm: str) -> Predicate | None:  # noqa: C901, PLR0911 - one return a kind
    """Read constraints on fees, ratings, trading and the universe; they forbid by naming what is allowed."""
    negative = NEGATIVE.search(norm) is not None
    only = _ONLY.search(norm) is not None
    if _CHEAP.search(norm) and (not negative or _FIRST.search(norm)):
        return LowFee()
    if (rating := lowest_rating(norm, only=only, negative=negative)) is not None:
        return rating
    if _INDEX_FUNDS.search(norm) and only:
        return AllowedUniverse("index_funds")
    if _ACTIVE_FUNDS.search(norm) and negative:
        return ForbiddenAsset("active_funds")
    if _PUBLIC_FUNDS.search(norm) and (only or _CONFINED.search(norm)):
        return AllowedUniverse("public_funds")
    if only and not negative and (universe := safe_universe(norm)) is not None:
        return universe
    if _GOVERNMENT.search(norm) and only and not negative:
        return ForbiddenAsset("credit_bonds")
    if _LISTED.search(norm) and only:
        return ForbiddenAsset("unlisted_equity")
    if _OWN_MONEY.search(norm):
        return ForbiddenPractice("leverage")
    if _CALM_ASSETS.search(norm) and only:
        return ForbiddenPractice("high_volatility")
    if _CALM_TRADING.search(norm):
        return ForbiddenPractice("short_term_trading")
    return ForbiddenAsset("lock_up_products") if _ANYTIME.search(norm) else None


def _ruled_out(norm: str) -> tuple[Ban, ...]:
    return tuple(bans(norm)) if NEGATIVE.search(norm) or norm.startswith("涨多") else ()


def _wish(norm: str) -> Predicate | None:
    if _QUARTERLY.search(norm):
        return Preferred("quarterly_performance")
    if _PUBLIC_FUNDS.search(norm) and _ONLY.search(norm):
        return AllowedUniverse("public_funds")
    match = _PREFER.match(norm)
    return Preferred(norm[match.end() :].strip()) if match and norm[match.end() :].strip() else None
