"""Whether a weight is the one of a single product that the sentence speaks of."""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.constraints.instruments import INSTRUMENT
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

PICKED: Final = late(r"[里中]面?[^,。;]{0,4}(?:挑|选|买|留)[^,。;]{0,10}(?:那|一)[只个款]")
_THIS_PRODUCT: Final = late(
    r"(?:[^。;!?\n]{0,20},(?:但|不过|可是?)?)?\s*(?:我看|建议|不妨看看)?(?:这|该|此)(?:一)?(?:只|款|"
    r"个产品|支)(?!.{0,6}(?:规模|"
    r"仓位|持仓|前十|重仓))"
)


def about_one(analysis: Analysis, reading: Reading, weight: Weight) -> bool:
    """Say whether the sentence speaks of one product and gives one share: 这款理财,建议买四成."""
    low, high = analysis.sentence_span(weight.start)
    return (
        weight.role == "target"
        and _THIS_PRODUCT.match(analysis.norm, low) is not None
        and sum(low <= share.start < high for share in reading.shares) == 1
        and advised(analysis, weight.start, weight.end)
    )


ONLY_THIS: Final = late(
    r"[^。;!?\n]{0,12}(?:这|就)一[只款个](?:产品|基金)?(?:就|便|足|即可)|[^.;!?\n]{0,24}\b(?:this|"
    r"that) (?:one|fund|product) alone\b"
)


ONE_AHEAD: Final = compile_pattern(
    r"\b(?:two|three|four) (?:[a-z]+ )?(?:funds|etfs|stocks|trackers)\b|\binto (?:this|that|one) "
)
"""What only `told_as_one` can make a single holding of."""

_FUNDS_AHEAD: Final = late(
    r"\b(?:two|three|four|2|3|4) (?:(?!bond|stock|equity)[a-z]+ )?(?:funds|etfs|stocks|"
    r"trackers)\b[^.;!?\n%]{0,24}:"
)
_INTO_ONE: Final = late(
    r"[^.;!?\n]{0,30}?\b(?:in|into) (?:this|that|the same|one) (?:[a-z]+ )?(?:reit|fund|stock|etf|"
    r"note|trust|share)\b"
)
_THERE: Final = late(r"(?: of (?:the|your) [a-z]+)? there\b")


def told_as_one(analysis: Analysis, weight: Weight) -> bool:
    """Say whether the words around make it a weight of one holding: gold is safe, so put 40% there."""
    norm = analysis.norm
    low, high = analysis.sentence_span(weight.start)
    if _FUNDS_AHEAD.search(norm, low, weight.start) or _INTO_ONE.match(norm, weight.end, high):
        return True
    return (
        _THERE.match(norm, weight.end) is not None and INSTRUMENT.search(norm, low, weight.start) is not None
    )


_ORDERED: Final = late(
    r"(?:买入?|挂单?|扫|进|上|打|申购|认购|拿下?|冲|杀入|吃)[^,。;!?\n]{0,8}$|(?:就|只)(?:这|买|要)?$|"
    r"^[\s\S]{0,2}$"
)
"""What stands before a single thing that is ordered."""
_SIZE_ONLY: Final = late(
    r"[\s,]*(?:直接|先|就|一把|一次|全部?|打满?|上|下|建|给|拿|用|约|仓位|大概|可以|建议|按|每户|账户)*$"
)
_SIZE_BEHIND: Final = late(
    r"(?:的?(?:仓位?|资金|账户|筹码))?(?:就|直接|全)?(?:打满|打足|拿下|买入?|买足|怼|上|进场?|进去|杀入|冲|"
    r"配好|配置|顶上)?"
    r"(?=[,。;!\s]|$)"
)


_NO_NAME: Final = late(r"一只|单只|这只|它|这家|这[支张]|one|each")


def sized_behind(analysis: Analysis, reading: Reading, weight: Weight) -> bool:
    """Say whether a clause is only the size of the one thing ordered before it: 买入300418,半仓打满."""
    norm = analysis.norm
    if weight.asset_class is not None or weight.role != "target":
        return False
    low, high = analysis.sentence_span(weight.start)
    clause, _ = analysis.clause_span(weight.start, weight.end)
    found = list(INSTRUMENT.finditer(norm, low, clause))
    named = [match for match in found if _NO_NAME.fullmatch(match[0]) is None] or found
    return (
        len({match[0] for match in named}) == 1
        and _ORDERED.search(norm, max(low, named[0].start() - 14), named[0].start()) is not None
        and _SIZE_ONLY.fullmatch(norm, clause, weight.start) is not None
        and _SIZE_BEHIND.match(norm, weight.end, high) is not None
        and sum(low <= share.start < high for share in reading.shares) == 1
        and advised(analysis, weight.start, weight.end, act=True)
    )


_ONE_SUMMED: Final = late(
    r"(?:黄金|白银|比特币|以太坊?|公司的?股票|同一只[^,。;!?\n]{0,6}|这[只支款][^,。;!?\n]{0,6}|它)(?:一共|"
    r"合计|总共|总计|加起来)"
    r"(?:可以|建议|占|放|配|买|给|约|到|是|为|共)*$"
)


def sum_of_one(analysis: Analysis, weight: Weight) -> bool:
    """Say whether a sum is the one of a single thing held in several forms: 黄金合计35%."""
    return (
        weight.role == "total"
        and _ONE_SUMMED.search(analysis.norm, max(0, weight.start - 20), weight.start) is not None
    )


_NAME_COLUMN: Final = late(
    r"\|\s*(?:(?:公募|指数|债券|股票|偏股|混合|货币)?基金|标的|个股|股票|证券|代码|产品名|名称|fund|"
    r"ticker|holding|security|stock)"
)


_FUND: Final = late(r"货币|基金|etf|宝|fund|\btrust\b")


def is_listed(analysis: Analysis, weight: Weight) -> bool:
    """Say whether the weight stands in a table whose first column names single holdings."""
    return (
        analysis.line_kind(weight.start) == "row"
        and (weight.asset_class != "cash" or _FUND.search(weight.label) is not None)
        and _NAME_COLUMN.match(analysis.lead_in(weight.start)) is not None
    )
