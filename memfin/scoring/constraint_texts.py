"""Constraint texts read: `parse_constraint` gives the predicate, `parse_constraints` all of a list.

The constraint strings of the dataset and their free variants (other numbers, wording, Chinese numerals,
English) that mean the same give equal predicates: 最大回撤<10%, 回撤别超过一成 and ``Max drawdown under
10%`` are one `MaxDrawdown`.
"""

from functools import lru_cache
from typing import Final, Literal

from memfin.scoring.bans import NEGATIVE, Ban, bans
from memfin.scoring.cap_classes import CAP_CLASSES, capped_class
from memfin.scoring.constraint_phrasing import plainly
from memfin.scoring.counted_limits import counted_limit
from memfin.scoring.forms import normalize
from memfin.scoring.kept import kept
from memfin.scoring.patterns import late
from memfin.scoring.predicates import (
    AllowedUniverse,
    AssetClassCap,
    AssetClassFloor,
    CashFloor,
    ForbiddenAsset,
    ForbiddenPractice,
    LowFee,
    MaxDrawdown,
    MaxDuration,
    MaxFee,
    MaxLockUp,
    MaxPremium,
    MinHolding,
    MinRating,
    NoConstraint,
    Predicate,
    Preferred,
    Rating,
    SingleAssetCap,
)
from memfin.scoring.quantities import Quantity, bound, quantities
from memfin.scoring.synonyms import in_usual_words

_NONE: Final = late(
    r"^(?:(?:暂?无|没有|未设定?)(?:任何|明确|特别|特殊|其他|具体)?的?(?:约束|限制|要求|禁忌)(?:条件)?|"
    r"暂?无|暂?没有|none|n/a|nil|"
    r"no (?:explicit |specific |particular |stated )?(?:constraints?|restrictions?|"
    r"limits?)(?: stated)?)[。.]?$"
)
_YEARS: Final = late(r"(?<=\d)( ?)(?:y|yrs?)\b")
_BASIS_POINTS: Final = late(r"(\d+(?:\.\d+)?) ?(?:bps?\b|basis points?|个?基点|个?bp)")
_OVER_HALF: Final = late(r"(?<!超)过半(?![年个天月])")
_DRAWDOWN: Final = late(
    r"回撤|亏损|亏|浮亏|损失|跌幅|跌|止损|drawdown|draw-down|\bloss(?:es)?\b|\blos(?:e|ing)\b|downside|"
    r"缩水|回落|下跌|赔|折损|\bdip\b|\bfall\b|\bdrop\b|\bdown\b|\bdd\b|(?:净值|账户|组合|年化?)波动|\bdecline\b"
)
_DURATION: Final = late(
    r"久期|\bduration\b|债券?期限|剩余期限|\bmaturit(?:y|ies)\b|内的?[^,;]{0,3}债|以[上内]的?[^,;]{0,4}债|"
    r"\bmaturing\b|\bbonds? (?:of|under|over|beyond|past|within|up to|shorter|longer|no longer|no more|"
    r"at most|max\w*|with)\b"
)
_BARE_DURATION: Final = late(r"(?:久期|\bduration\b)[^\d%]{0,12}(\d+(?:\.\d+)?)$")
_SHORT_ONLY: Final = late(
    r"(?:只|仅)[^,;]{0,4}(?:短债|短久期)|短债为[主限]|\b(?:only short|short)[- ](?:duration|dated|"
    r"term) bonds?(?: only)?$"
)
_NO_LONG: Final = late(
    r"(?:不|别|勿|拒绝|回避)[^,;]{0,5}(?:长债|长久期|超长|长端|长期债)|\bno (?:long|long-(?:dated|"
    r"duration|term)) (?:bonds?|duration)\b"
)
_SHORT_YEARS: Final = 3.0
_LONG_YEARS: Final = 5.0
_HOLDING: Final = late(
    r"持有|长线|长持|放(?:满|够|至少)|拿(?:住|满|够|(?=[\d一二两三四五六七八九十半]))|就拿|放满|持仓(?:时间|"
    r"期)|\bhold(?:ing)?\b"
)
_CASH: Final = late(
    r"现金|备用金|应急|活期|(?<!大额)存款(?![^,;]{0,3}期)|流动资金|流动性|生活费|开支|开销|支出|花销|活钱|"
    r"周转|零用|\bcash\b|"
    r"emergency|\bliquid|accessible|expenses|living costs|不能动|不能投|随时(?:可|能)[取用]|常备|"
    r"\bin (?:the |my )?(?:bank|savings|checking)\b|"
    r"(?:账上|卡里|账户里|手[里头上])(?![^,;]{0,8}[股债金仓])|"
    r"\bspending\b|rainy[- ]day|\breserves?\b"
)
_SPENDING: Final = late(
    r"生活费|房贷|月供|工资|(?<!大额)(?:开支|开销|支出|花销|用度)|expenses|spending|living costs|"
    r"emergency (?:fund|reserve)|备用金|应急金"
)
_LOCK: Final = late(
    r"封闭|锁定|锁仓|锁住|锁死|定开|[不别][^,;]{0,4}持有期|持有期[^,;]{0,3}(?:不超|不长|别超|不要超|"
    r"别长)|最长(?!持有)|再久|\block(?:ed|s|ing)?\b|lock-?(?:up|in)|\btied up\b|closed-end|redeem|"
    r"(?:can't|cannot|can not) be (?:sold|cashed)|(?:要|能|可以?|须)[^,;]{0,3}(?:取出|赎回|变现|拿回|到账)|"
    r"要用|用钱"
)
_ANYTIME: Final = late(
    r"随时[^,;]{0,6}(?:取|用|赎|变现|支取|退)|(?:不|别)[^,;]{0,4}(?:取不出|赎不|锁住|锁死)|流动性要好|"
    r"illiquid|withdraw|any ?time|(?:liquid|accessible|redeemable) at all|\bstay liquid\b|daily liquidity"
)
_LOCK_LIMIT: Final = late(
    r"内(?:要?能|可以?|须|要用(?!的))|超过|长于|高于|不过|以上|以内|以下|最长|最多|至多|顶多|over|"
    r"above|longer|more than|"
    r"at most|beyond|up to|"
    r"maximum|max\b|exceed|within|under"
)
_TERM: Final = late(
    r"存期|期限|\bterms?\b|\bnotice\b|到账|\bneed (?:the |my |this )?(?:money|cash|funds)\b|"
    r"\b(?:money|cash|funds?) [^,;]{0,16}(?:available|accessible|back|needed|required|due)\b|\baccess\b"
)
_LONGEST: Final = late(
    r"\b(?:need|needed|required|due|back) (?:[a-z]+ ){0,3}in\b|最长|不(?:能|要|可|得)?(?:超过?|长于)|"
    r"maximum|no longer|within|\bmax\b"
)
_PREMIUM: Final = late(r"保费|年交|年缴|\bpremiums?\b")
_EQUITY_HOLDING: Final = late(
    r"(?:单[一个只]?|任[一何]只?|每[一只个]?)(?:的)?(?:权益|股票[类型])|\b(?:single|any one|each) equity\b"
)
_SINGLE: Final = late(
    r"单一(?!行业|板块|市场|赛道)|单只|单个(?!行业|板块|赛道)|单支|单项|任何一项|每只|每个|任一|任何一[只类种]|"
    r"单(?=基金)|"
    r"一只|一支|单品种|单票|单产品|单标的|一个(?:产品|品种|标的|篮子|基金)|同一[只个家]|集中度|single|"
    r"any one|"
    r"per (?:fund|asset|holding|name|issuer|stock|product)|(?:any|each) (?:issuer|name|fund|stock|"
    r"holding|product)|"
    r"\bno (?:fund|stock|holding|asset|product)\b|\bnothing (?:above|over|bigger|larger|more than)|each|"
    r"one (?:fund|asset|holding|position)|\bposition\b"
)
_FUND: Final = late(r"基金|\bfunds?\b")
_FLOOR: Final = late(
    r"至少|起码|最少|(?:不|别)(?:得|能|要|可)?(?:低于|少于|小于|跌破)|保底|打底|\bat least\b|no less than|"
    r"\b(?:never|not|don't|do not)(?: \w+)? (?:below|under|less)\b|"
    r"\bminimum\b|\bfloor\b|≥"
)
_FEE: Final = late(
    r"费率|[管托赎申认服年]\w{0,3}费|费用|手续费|成本|\bfees?\b|expense ratios?|\bcosts?\b|\bcharges?\b|"
    r"\bter\b|\bocf\b|\bcharging\b"
)
_BETWEEN: Final = late(r"\bbetween\b.*\band\b")
_A_MONTH: Final = late(r"每?个?月[^,;]{0,6}$|monthly[^,;]{0,12}$|^ ?(?:a|per|each|every) month|^/月")
_SET_ASIDE: Final = late(r"[预要先][^,;]{0,6}留|留(?:出|下|足|够)|\b(?:set aside|earmark\w*)\b")
_NO_LOSS: Final = late(
    r"(?:不接受|不能|不允许|不想|不可以|不愿|承受不了|接受不了|不得)[^,;]{0,6}(?:亏|本金损失|损失本金)|"
    r"本金(?:不能|不可以|不得|不容)|"
    r"(?:必须|要求?|需要?|只(?:要|买|做))[^,;]{0,3}保本|^保本|capital (?:must be )?(?:preserv|protect)\w*|"
    r"\b(?:no|can't take any|cannot take any|zero) (?:capital |principal )?loss(?:es)?\b"
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
_RATING: Final = late(
    r"(?<![a-z])(aaa|aa\+|aa-|aa|a\+|a-|bbb[+-]?|a(?=级|-rated| or (?:better|above|higher))|"
    r"(?<=below )a$)(?![a-z])"
)
_BETTER: Final = late(
    r"以上|不(?:得|能|要)?低于|至少|及更高|起步|或更高|or (?:better|above|higher)|at least|minimum|"
    r"and (?:above|up)"
)
_WORSE: Final = late(r"以下|低于|below|under|worse|lower than")
_GRADE: Final = late(r"investment[- ]grade|投资级")
_ONLY: Final = late(
    r"仅|非公募[^,;]{0,6}不|(?:以外|之外)的?[^,;]{0,4}(?:不|别)|只(?!基金|股)|全部为|限于|局限|"
    r"\bonly\b|exclusively|solely|nothing but"
)
_PUBLIC_FUNDS: Final = late(
    r"公募|mutual funds?|public(?:ly offered)? funds?|fund products?|\bfunds? only|only (?:buy |"
    r"use )?funds?|(?:买|投|考虑|配置?|限于?)基金|基金产品"
)
_DOMESTIC: Final = late(
    r"(?:仅|只)[^,;]{0,4}(?:a股|境内|国内|内地|人民币|本币)|(?:a股|境内|国内)(?:资产|市场)?(?:以外|为限)|"
    r"domestic\b[^,;]{0,16}\bonly|only domestic|"
    r"(?:home|"
    r"local) markets? only"
)
_INDEX_FUNDS: Final = late(
    r"指数(?:类|型)?(?:基金|产品)|被动(?:基金|产品|型|指数)|\b(?:index|passive|tracker)s? (?:funds?|"
    r"products?|etfs?|investing)"
)
_ACTIVE_FUNDS: Final = late(
    r"主动(?:型|管理|权益|偏股)?(?:类|的)?(?:基金|产品)?|\bactive(?:ly)?[- ](?:managed|funds?|management)"
)
_TOP_RATING: Final = late(r"(?<!a)aaa(?!a)")
_NEXT_RATING: Final = late(r"(?<!a)aa\+|高等级|高评级|高信用等级|优质信用|high[- ](?:grade|rated|quality)")
_LOW_RATING: Final = late(r"低评级|低等级|垃圾|下沉|low[- ](?:rated|grade)|junk|high[- ]yield")
_MAIN: Final = late(r"为主|主要|优先|大部分|mainly|mostly|primarily|predominantly")
_CHEAP: Final = late(
    r"(?:低|便宜).{0,2}(?:费|成本)|(?:费|成本).{0,5}(?:低|便宜|优)|low[- ](?:fee|cost)|cheap|"
    r"lowest fee|fees? (?:low|first)"
)
_PREFER: Final = late(
    r"^(?:更)?(?:偏好|偏爱|优先(?:考虑|选择)?|喜欢|倾向于?|希望|prefers?|favou?rs?|likes?)[:： ]*"
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
    """Return the predicates of a constraint: several where it rules out a list (不碰军工和烟酒)."""
    norm = in_usual_words(" ".join(normalize(text).split()))
    norm = plainly(norm)
    norm = _YEARS.sub(" years", _OVER_HALF.sub("超过50%", norm))
    norm = _BASIS_POINTS.sub(lambda match: f"{float(match[1]) / 100:g}%", norm)
    if not norm:
        return ()
    if _NONE.match(norm):
        return (NoConstraint(),)
    if _DOMESTIC.search(norm):
        return (ForbiddenAsset("overseas_market"),)
    stated = counted_limit(norm) or _numeric(norm) or _quality(norm)
    if stated is not None:
        return (stated,)
    if ruled_out := _ruled_out(norm):
        return ruled_out
    wish = _wish(norm)
    return () if wish is None else (wish,)


def _first(found: list[Quantity], kind: str) -> Quantity | None:
    return next((quantity for quantity in found if quantity.kind == kind), None)


def _round(value: float) -> float:
    return round(value, 6)


def _numeric(norm: str) -> Predicate | None:  # noqa: C901, PLR0911, PLR0912 - one return a kind
    found = quantities(norm)
    share, years, money = _first(found, "share"), _first(found, "duration"), _first(found, "money")
    if share is not None and _DRAWDOWN.search(norm):
        return MaxDrawdown(_round(share.high))
    if years is not None and _DURATION.search(norm):
        return MaxDuration(_round(years.high))
    if years is None and share is None and (limit := _bare_duration(norm)) is not None:
        return MaxDuration(limit)
    if years is not None and _LOCK.search(norm):
        limited = _LOCK_LIMIT.search(norm) is not None
        return MaxLockUp(_round(years.high)) if limited else ForbiddenAsset("lock_up_products")
    if (
        years is not None
        and _TERM.search(norm)
        and (bound(norm, years) == "at_most" or _LONGEST.search(norm))
    ):
        return MaxLockUp(_round(years.high))
    spending = share is None and _CASH.search(norm) and _SPENDING.search(norm)
    if years is not None and spending:
        return _months_of_spending(norm, years, money)
    if years is not None and _HOLDING.search(norm):
        return MinHolding(_round(years.low))
    if money is not None and _PREMIUM.search(norm):
        return MaxPremium(_round(money.high))
    if share is not None and _FEE.search(norm) and not _CASH.search(norm):
        return MaxFee(_round(share.high))
    if _CASH.search(norm) and (share is not None or money is not None):
        capped = share is not None and bound(norm, share) == "at_most" and not _FLOOR.search(norm)
        return AssetClassCap("cash", _round(share.high)) if share and capped else _cash_floor(share, money)
    if share is None:
        return _cash_floor(None, money) if money is not None and _SET_ASIDE.search(norm) else _no_loss(norm)
    if _SINGLE.search(norm):
        of_equity = _EQUITY_HOLDING.search(norm) is not None
        scope: Literal["asset", "fund", "equity"] = "fund" if _FUND.search(norm) else "asset"
        return SingleAssetCap(_round(share.high), "equity" if of_equity else scope)
    if _BETWEEN.search(norm) is not None:
        share = [each for each in found if each.kind == "share"][-1]
    floor = bound(norm, share) == "at_least" or _FLOOR.search(norm) is not None
    for name, pattern in CAP_CLASSES:
        if pattern.search(norm):
            if floor:
                return AssetClassFloor(name, _round(share.low))
            return AssetClassCap(capped_class(name, norm), _round(share.high))
    return None


def _bare_duration(norm: str) -> float | None:
    """Return the years of a limit on duration that gives a bare number or none (只买短债, 久期低于3)."""
    bare = _BARE_DURATION.search(norm)
    if bare is not None:
        return _round(float(bare.group(1)))
    if _SHORT_ONLY.search(norm):
        return _SHORT_YEARS
    return _LONG_YEARS if _NO_LONG.search(norm) else None


def _no_loss(norm: str) -> Predicate | None:
    return MaxDrawdown(0.0) if _NO_LOSS.search(norm) else None


def _months_of_spending(norm: str, months: Quantity, money: Quantity | None) -> CashFloor:
    """Return the floor in months, and in money where the text says what a month or all of them take."""
    count = _round(months.low * 12)
    if money is None:
        return CashFloor(months=count)
    monthly = _A_MONTH.search(norm[: money.start]) or _A_MONTH.search(norm[money.end :])
    return CashFloor(months=count, amount=_round(money.low * (count if monthly else 1)))


def _cash_floor(share: Quantity | None, money: Quantity | None) -> CashFloor:
    if share is not None:
        return CashFloor(share=_round(share.low))
    return CashFloor(amount=_round(money.low) if money is not None else None)


def _quality(norm: str) -> Predicate | None:  # noqa: C901, PLR0911 - one return a kind
    """Read constraints on fees, ratings, trading and the universe; they forbid by naming what is allowed."""
    negative = NEGATIVE.search(norm) is not None
    only = _ONLY.search(norm) is not None
    if _CHEAP.search(norm) and not negative:
        return LowFee()
    if (rating := _rating(norm, only=only, negative=negative)) is not None:
        return rating
    if _INDEX_FUNDS.search(norm) and only:
        return AllowedUniverse("index_funds")
    if _ACTIVE_FUNDS.search(norm) and negative:
        return ForbiddenAsset("active_funds")
    if _PUBLIC_FUNDS.search(norm) and only:
        return AllowedUniverse("public_funds")
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


def _rating(norm: str, *, only: bool, negative: bool) -> MinRating | None:
    """Read the lowest rating allowed, off a rating itself or off words such as 高等级."""
    named = _RATING.search(norm)
    if named is not None and (_BETTER.search(norm) or (_WORSE.search(norm) and negative)):
        return MinRating(_grade(named.group()))
    if _GRADE.search(norm) and (negative or only):
        return MinRating("BBB")
    if _LOW_RATING.search(norm):
        return None
    scope: Literal["all", "main"] = "main" if _MAIN.search(norm) and not only else "all"
    if not (only or scope == "main" or "以上" in norm):
        return None
    if _NEXT_RATING.search(norm):
        return MinRating("AA+", scope)
    return MinRating("AAA", scope) if _TOP_RATING.search(norm) else None


def _grade(rating: str) -> Rating:
    """Return the step of the ladder that a rating is on; AA- and A- count as AA and A."""
    steps: dict[str, Rating] = {"aaa": "AAA", "aa+": "AA+", "aa": "AA", "a": "A", "bbb": "BBB"}
    return steps.get(rating) or steps[rating.rstrip("+-")]


def _ruled_out(norm: str) -> tuple[Ban, ...]:
    return tuple(bans(norm)) if NEGATIVE.search(norm) or norm.startswith("涨多") else ()


def _wish(norm: str) -> Predicate | None:
    if _QUARTERLY.search(norm):
        return Preferred("quarterly_performance")
    if _PUBLIC_FUNDS.search(norm) and _ONLY.search(norm):
        return AllowedUniverse("public_funds")
    match = _PREFER.match(norm)
    return Preferred(norm[match.end() :].strip()) if match and norm[match.end() :].strip() else None
