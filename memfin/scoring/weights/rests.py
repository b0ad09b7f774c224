"""Remainders as weights: the rest goes into cash, 其余全放现金.

All offsets count in ``Analysis.norm``.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from memfin.scoring.patterns.expressions import apart, compile_pattern
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.parts import is_part
from memfin.scoring.weights.weight import Label, Weight

_REST: Final = compile_pattern(
    r"(?:剩下|剩余|其余|零头|留下|剩(?=的)|最后(?:才)?是(?=现金|活期|货币|存款)|其[他它](?=的?(?:都|全|全部|部分|资金|钱|放|买|给|配|留|"
    r"存|做|用|归|一律|换|转|拿|投|交)))(?:的)?(?:资金|部分|钱|一块|那块|这块|份额)?(?:我想|我会|可以|"
    r"就)?(?:全部?|都|全部)?(?:的)?"
    r"(?:放|配|买|投|留|做|换|存|给)?|\b(?:rest|remainder|everything else|"
    r"(?<=the )balance)\b(?: goes)?(?: in| into| on| to)?"
)
_DECIDED: Final = frozenset({"target", "reduced", "total"})


_GAP: Final = 160
_WHOLE: Final = 1.0


def names_rest(norm: str) -> bool:
    """Say whether the reply may say what becomes of the rest."""
    return _REST_SIGN.search(norm) is not None


_REST_SIGN: Final = compile_pattern(
    r"剩|其余|剩下|零头|留下|最后|其[他它]|rest |remain|the balance|thing else"
)


def remainders(
    analysis: Analysis, found: Sequence[Weight], words: Sequence[Label], starts: Sequence[int]
) -> list[Weight]:
    """Return the weights of the remainders that go into one class."""
    norm = analysis.norm
    result: list[Weight] = []
    if not found or not names_rest(norm):
        return result
    for match in apart(_REST, norm):
        start, end = match.span(1)
        _, high = analysis.clause_span(start, end)
        if any(start <= weight.start < high for weight in found):
            continue
        inside = words[bisect_left(starts, end) : bisect_left(starts, high)]
        earlier = [weight for weight in found if weight.end <= start and weight.role in _DECIDED]
        if not inside or not earlier or start - earlier[-1].end > _GAP:
            continue
        group = [weight for weight in earlier if weight.group == earlier[-1].group]
        rest = _WHOLE - sum(weight.low * weight.holdings for weight in group)
        if (
            0 < rest < _WHOLE
            and not is_part(analysis, group)
            and len({label.asset_class for label in inside}) == 1
        ):
            text = norm[start:high]
            result.append(
                Weight(
                    inside[0].asset_class,
                    rest,
                    rest,
                    start,
                    high,
                    text,
                    "target",
                    group[0].group,
                    each=False,
                )
            )
    return result
