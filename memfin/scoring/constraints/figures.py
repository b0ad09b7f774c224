"""Constraints with a figure: losses, durations, shares, sums of money, months, fees."""

from itertools import islice
from typing import Final, Literal

from memfin.scoring.constraints.cap_classes import CAP_CLASSES, capped_class
from memfin.scoring.constraints.limit_words import clause_at, clause_of, limit_of
from memfin.scoring.constraints.predicates import (
    AssetClassCap,
    AssetClassFloor,
    CashFloor,
    ForbiddenAsset,
    MaxDrawdown,
    MaxDuration,
    MaxFee,
    MaxLockUp,
    MaxPremium,
    MaxVolatility,
    MinHolding,
    Predicate,
    SingleAssetCap,
)
from memfin.scoring.numbers.quantities import Quantity, bound, quantities
from memfin.scoring.patterns.expressions import late

_DRAWDOWN: Final = late(
    r"回撤|亏损|亏|浮亏|损失|跌幅|跌|止损|drawdown|draw-down|\bloss(?:es)?\b|\blos(?:e|ing)\b|downside|"
    r"缩水|回落|下跌|赔|折损|\bdip\b|\bfall\b|\bdrop\b|\bdown\b|\bdd\b|(?:净值|账户|组合|年化?)波动|"
    r"\b(?:declines?|mdd|falls?|slides?|sinks?|slips?)\b"
)
_VOLATILITY: Final = late(r"波动率|标准差|\bvolatility\b|\bstandard deviation\b")
_LOSS: Final = late(r"回撤|亏|损|跌|drawdown|loss|lose")
_CASH_SINKS: Final = late(
    r"(?:现金|活钱|权益|股票|债券?)(?:仓位|比例|占比)?[^,;]{0,6}(?:跌破|降到|掉到)|"
    r"\bcash\b[^,;]{0,20}\b(?:falls?|drops?|sinks?|slips?|dips?)\b|"
    r"\b(?:equit\w+|stocks?|bonds?|gold)\b[^,;]{0,20}\b(?:falls?|drops?|sinks?|slips?|dips?|go) (?:below|"
    r"under)\b"
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
    r"期)|\bhold(?:ing)?\b|\b(?:kept|keep|keeps|keeping|held|remains?|stays? put|stay(?:s)? invested|"
    r"investment (?:period|horizon)|stick with|closed? before)\b|(?:之|以)?内[^,;]{0,4}(?:别动|不动|不卖|"
    r"就卖)|持仓周期|投资期限|每笔[^,;]{0,4}放"
)
_SOLD_EARLY: Final = late(
    r"以?内的?(?:短线|买卖|交易)|短于[^,;]{0,6}(?:买卖|交易)|(?:中途|提前)不卖|"
    r"\b(?:no|not|never|nothing|only after|earliest|before)\b[^;]{0,40}\b(?:sell\w*|sold|sales?|exit\w*|"
    r"in and out|(?<!\d )trades?)\b|"
    r"\b(?:sell\w*|sold|sales?|exit\w*|in and out|trades?)\b[^;]{0,40}\b(?:only after|before|first|"
    r"prohibited|(?:under|within)\b[^;]{0,30}\b(?:prohibited|forbidden|not allowed))\b"
)
_CASH: Final = late(
    r"现金|备用金|应急|活期|(?<!大额)存款(?![^,;]{0,3}期)|流动资金|流动性|生活费|开支|开销|支出|花销|活钱|"
    r"周转|零用|\bcash\b|"
    r"emergency|\bliquid|accessible|expenses|living costs|不能动|不能投|随时(?:可|能)[取用]|常备|"
    r"\bin (?:the |my )?(?:bank|savings|checking)\b|"
    r"(?:账上|卡里|账户里|手[里头上])(?![^,;]{0,8}[股债金仓])|"
    r"\bspending\b|rainy[- ]day|ready money|uninvested|on hand|safety net|\breserves?\b"
)
_SPENDING: Final = late(
    r"生活费|房贷|月供|工资|(?<!大额)(?:开支|开销|支出|花销|用度)|expenses|spending|living costs|"
    r"emergency (?:fund|reserve)|备用金|应急金"
)
_LOCK: Final = late(
    r"封闭|锁定|锁仓|锁住|锁死|定开|[不别][^,;]{0,4}持有期|持有期[^,;]{0,3}(?:不超|不长|别超|不要超|"
    r"别长)|最长(?!持有)|再久|\block(?:ed|s|ing)?\b|lock-?(?:up|in)|\btied up\b|closed-end|redeem|"
    r"(?:can't|cannot|can not) be (?:sold|cashed)|(?:要|能|可以?|须)[^,;]{0,3}(?:取出|取回|赎回|变现|拿回|"
    r"到账)|"
    r"要用|用钱"
)
_LOCK_LIMIT: Final = late(
    r"内(?:要?能|可以?|须|要用(?!的))|超过|长于|高于|不过|以上|以内|以下|最长|最多|至多|顶多|over|"
    r"above|longer|more than|"
    r"at most|beyond|up to|"
    r"maximum|max\b|exceed|within|under"
)
_TERM: Final = late(
    r"存期|期限|\bterms?\b|\bnotice\b|到账|\bneed (?:the |my |this )?(?:money|cash|funds)\b|"
    r"\b(?:money|cash|funds?|principal|capital|savings) [^,;]{0,16}(?:available|accessible|back|needed|"
    r"required|due)\b|\baccess\b"
)
_LONGEST: Final = late(
    r"\b(?:need|needed|required|due|back|accessible|available) (?:[a-z]+ ){0,3}in\b|最长|不(?:能|要|可|"
    r"得)?(?:超过?|长于)|"
    r"maximum|no longer|within|\bmax\b"
)
_PREMIUM: Final = late(r"保费|年交|年缴|\bpremiums?\b")
_NO_EQUITY: Final = late(
    r"非权益|权益(?:类|资产)?(?:以外|之外)|\bnon-equit|\bother than (?:equit|stocks|shares)"
)
_EQUITY_HOLDING: Final = late(
    r"(?:单[一个只]?|任[一何]只?|每[一只个]?)(?:的)?(?:权益|股票[类型])|\b(?:single|any one|each) equity\b"
)
_SINGLE: Final = late(
    r"单一(?!行业|板块|市场|赛道)|单只|单个(?!行业|板块|赛道)|单支|单项|任何一项|每只|每个|任一|"
    r"任何一[只类种]|"
    r"单(?=基金)|"
    r"一只|一支|单品种|单票|单产品|单标的|一个(?:产品|品种|标的|篮子|基金)|同一[只个家]|集中度|single|"
    r"any one|"
    r"per (?:fund|asset|holding|name|issuer|stock|product)|(?:any|each) (?:issuer|name|fund|stock|"
    r"holding|product)|"
    r"per[- ]asset|one basket|\ba (?:holding|fund|position|single)\b|individual (?:asset|holding|position|"
    r"fund|investment)|"
    r"one investment|每[种样]|哪[一]?[个只]|一样东西|(?<!类)各(?:类)?资产|每一[项个只]|任何一个|单基|"
    r"the same fund|none (?:exceeds|of them|over|above|more|bigger|larger)|by itself|on its own|"
    r"(?:every|each|per)[- ]fund|largest (?:fund|holding|position)|任何基金|单资产|每[项]资产|一个资产|"
    r"再好的基金|"
    r"\bno (?:fund|stock|holding|asset|product)\b|\bnothing (?:above|over|bigger|larger|more than)|each|"
    r"one (?:fund|asset|holding|position)|(?<!overall )(?<!total )(?<!aggregate )\bposition\b"
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
_MANAGEMENT_FEE: Final = late(
    r"^(?!.*(?:总|综合|合计|加|和|与|、|托管|all|total)).*(?:管理费|"
    r"management fee)"
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


def _first(found: list[Quantity], kind: str) -> Quantity | None:
    return next((quantity for quantity in found if quantity.kind == kind), None)


def _round(value: float) -> float:
    return round(value, 6)


def figured(norm: str) -> Predicate | None:  # noqa: C901, PLR0911, PLR0912 - one return a kind
    """Return the predicate of a plain constraint text that gives a figure; None where it gives none."""
    found = quantities(norm)
    share, years, money = _first(found, "share"), _first(found, "duration"), _first(found, "money")
    if share is not None and _VOLATILITY.search(norm) and not _LOSS.search(norm):
        return MaxVolatility(_round(share.high))
    if share is not None and _DRAWDOWN.search(norm) and not _CASH_SINKS.search(norm):
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
    if years is not None and _SOLD_EARLY.search(norm):
        return MinHolding(_round(years.low))
    if years is not None and _HOLDING.search(norm):
        most = limit_of(norm, years) == "at_most"
        return MaxLockUp(_round(years.high)) if most else MinHolding(_round(years.low))
    if money is not None and _PREMIUM.search(norm):
        return MaxPremium(_round(money.high))
    if share is not None and _FEE.search(norm) and not _CASH.search(norm):
        return MaxFee(_round(share.high), "management" if _MANAGEMENT_FEE.search(norm) else "all")
    if _CASH.search(norm) and (share is not None or money is not None) and not _of_another_class(norm, share):
        share = _beside_cash(norm, [each for each in found if each.kind == "share"])
        if share is not None and _cash_is_left(norm):
            return CashFloor(share=_round(_rest(norm, [each for each in found if each.kind == "share"])))
        capped = share is not None and limit_of(norm, share) == "at_most" and not _FLOOR.search(norm)
        return AssetClassCap("cash", _round(share.high)) if share and capped else _cash_floor(share, money)
    if share is None:
        return _cash_floor(None, money) if money is not None and _SET_ASIDE.search(norm) else _no_loss(norm)
    if _SINGLE.search(norm):
        of_equity = _EQUITY_HOLDING.search(norm) is not None
        scope: Literal["asset", "fund", "equity"] = "fund" if _FUND.search(norm) else "asset"
        return SingleAssetCap(_round(share.high), "equity" if of_equity else scope)
    if _BETWEEN.search(norm) is not None:
        share = [each for each in found if each.kind == "share"][-1]
    direction = limit_of(norm, share)
    floor = direction == "at_least" or (direction == "exact" and _FLOOR.search(norm) is not None)
    if floor and _NO_EQUITY.search(norm):
        return AssetClassCap("equity", _round(1.0 - share.low))
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


_NAMED: Final = 20
"""Shares and words for cash that are compared, at most."""


def _beside_cash(norm: str, shares: list[Quantity]) -> Quantity | None:
    """Return the share that stands nearest to the word for cash."""
    words = [match.span() for match in islice(_CASH.finditer(norm), _NAMED)]
    return min(
        shares[:_NAMED],
        key=lambda share: min(max(low - share.end, share.start - high) for low, high in words),
        default=None,
    )


def _of_another_class(norm: str, share: Quantity | None) -> bool:
    """Say whether the clause of a text's only share names another class and no cash."""
    if share is None or norm.count("%") > 1:
        return False
    clause = clause_of(norm, share)
    return not (_CASH.search(clause) or _REST.search(norm)) and any(
        pattern.search(clause) for _, pattern in CAP_CLASSES
    )


_REST: Final = late(r"其余|剩下的?|剩余|\b(?:the )?(?:rest|remainder|remaining)\b")


_INVESTED: Final = late(r"invest|equit|stocks?\b|shares\b|bonds?\b|funds?\b|投|买|股|债|基金|权益")


def _cash_is_left(norm: str) -> bool:
    """Say whether what is left over is the cash, not what is invested beside it."""
    word = _REST.search(norm)
    if word is None:
        return False
    clause = clause_at(norm, word.start(), word.end())
    return _CASH.search(clause) is not None or _INVESTED.search(clause) is None


def _rest(norm: str, shares: list[Quantity]) -> float:
    """Return the share of what is left over: the one behind the word, or all that no other share takes."""
    word = _REST.search(norm)
    behind = [share for share in shares if word is not None and share.start >= word.end()]
    return behind[0].low if behind else 1.0 - shares[0].high


def _cash_floor(share: Quantity | None, money: Quantity | None) -> CashFloor:
    if share is not None:
        return CashFloor(share=_round(share.low))
    return CashFloor(amount=_round(money.low) if money is not None else None)
