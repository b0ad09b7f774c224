"""Money that is held today and money that is to be added, as shares of the whole.

您总共100万, 股票已经持有25万, 建议再加10万 holds 25 % and adds 10 points. Such amounts are shares only when
the reply names the whole, something held and something added to it.
"""

from typing import Final

from memfin.scoring.numbers.quantities import Quantity, quantities
from memfin.scoring.patterns.expressions import late
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
_MARK: Final = late(r"[万元$£€]|\d,\d{3}")
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
