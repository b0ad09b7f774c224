"""Money that is held today and money that is to be added, as shares of the whole.

您总共100万, 股票已经持有25万, 建议再加10万 holds 25 % and adds 10 points. Such amounts are shares only when
the reply names the whole, something held and something added to it.
"""

from typing import Final

from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.weights.amounts import is_whole

HELD: Final = "held"
ADDED: Final = "added"
"""Units of the shares found here, which tell their part."""
_ADDS: Final = late(
    r"再(?:买入?|加仓?|补仓?|追加|投入?|投|配|增持|放)|追加|加仓|增持|"
    r"\b(?:add|another|a further|further|buy|move|put|invest)\b"
)
_HOLDS: Final = late(
    r"持有|已(?:经)?(?:有|买|投|配)|其中|占了?|现有|手上|里[有面]|(?:基金|股票|etf|债券|它)有$|"
    r"\b(?:already|hold|own|have)\b"
)
_IS_IN: Final = late(r"(?:元|块)? ?(?:is|are|sits?) (?:already |now |currently )?in ")
_HEAD: Final = 16
_MARK: Final = compile_pattern(r"[万元$£€]|\d,\d{3}")
_CHEAP: Final = late(r"趁[^,。]{0,3}跌|下跌时|跌了就|跌下来")
_FLOW: Final = late(r"[每/]|利息|收益|收入|工资|费|亏|赚|涨|跌|a (?:month|year)|per |fee|earn|los[est]|gain")


def held_and_added(text: str) -> list[Quantity]:
    """Return the amounts held and to be added as fractions of the whole; none where one is missing."""
    if _MARK.search(text) is None or _ADDS.search(text) is None:
        return []
    amounts = [amount for amount in quantities(text) if amount.kind == "money" and amount.low == amount.high]
    whole = next((amount for amount in amounts if is_whole(text, amount)), None)
    if whole is None:
        return []
    held: list[Quantity] = []
    added: list[Quantity] = []
    for amount in amounts:
        if amount is whole or amount.low >= whole.low:
            continue
        clause = max(text.rfind(mark, 0, amount.start) for mark in ",。;!?\n") + 1
        head = text[max(clause, amount.start - _HEAD) : amount.start]
        if _FLOW.search(_CHEAP.sub("", head)) or _FLOW.match(text, amount.end):
            continue
        share = amount._replace(kind="share", low=amount.low / whole.low, high=amount.low / whole.low)
        if _ADDS.search(head):
            added.append(share._replace(unit=ADDED))
        elif _HOLDS.search(head) or _IS_IN.match(text, amount.end):
            held.append(share._replace(unit=HELD))
    return [*held, *added] if held and added else []


_FAR: Final = 90
_TAKES: Final = late(
    r"(?<!可以)(?<!建议)(?<!不妨)(?<!应该)(?<!最多)(?<![让能])占(?:(?:到|了|着|据|掉|去)(?:你的?)?|"
    r"(?:你的?)?(?=家庭|总|全部|整个|账户|组合))"
    r"(?:家庭|总|全部|整个|账户|组合|投资)*(?:资产|仓位|资金|组合|账户|市值|积蓄)?的?(?:约|近|将近)?$"
)
_PLANNED: Final = late(r"建议|方案|配置|这样|不妨|推荐")
_CUT: Final = late(
    r"(?:(?!不(?!妨)|别)[^。;!?\n]){0,40}?(?:减(?!少了)|卖(?!出了)|降(?!息)|压(?!力)|砍|赎(?=[回掉出])|分散|"
    r"处理|换出|调低)"
    r"[^。;!?\n不]{0,10}?(?:\d|[一二三四五六七八九两]成|一半|[三四五]分之|掉|到|至|些|点|下来)|"
    r"[^。;!?\n]{0,16}。(?:(?!不(?!妨)|别)[^。;!?\n]){0,14}?(?:减|卖|降(?!息)|压(?!力)|砍|赎(?=[回掉出])|"
    r"分散)[^。;!?\n不]{0,10}?"
    r"(?:\d|[一二三四五六七八九两]成|一半|[三四五]分之|掉|到|至|些|点|下来)"
)
"""What is to be made less must be held."""
_SHORT: Final = late(
    r"[^,。;!?\n]{0,4},?[^,。;!?\n]{0,3}(?:低于|不到|不足|没到|差)[^,。;!?\n]{0,8}(?:底线|下限|要求|约定|"
    r"的线)"
)
"""What is called too little must be held as well."""


def cut_later(norm: str, share: Quantity, head: str) -> bool:
    """Say whether a holding that takes a share is to be cut: 股票占到48%,可以每季减6个点."""
    if _PLANNED.search(head[-24:]) is not None:
        return False
    return _TAKES.search(head[-24:]) is not None and (
        _CUT.match(norm, share.end, share.end + _FAR) is not None or _SHORT.match(norm, share.end) is not None
    )
