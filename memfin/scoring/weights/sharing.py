"""How many holdings a weight is shared by: 三只ETF各25%, gold and bonds 20% each, 四成平分给两只债基.

All offsets count in ``Analysis.norm``.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.weight import Label

EACH: Final = compile_pattern(r"各(?!类|种|自|位|家|大)|每只|每个|每支|分别|each\b|apiece\b")
_SEVERAL: Final = late(
    r"([两二三四五六七八九十2-9])(?:只|个(?![月交百点])|支|款|家|样)|(two|three|four|five|six|seven|eight) "
)


def _count(text: str) -> int:
    """Return how many holdings a label speaks of: 三只ETF各25%, each of three funds."""
    match = _SEVERAL.search(text)
    if match is None:
        return 1
    return count_of(match.group(1) or match.group(2)) or 1


_ITEM_BREAK: Final = late(r"、|和|与|及|(?<=[a-z\d]), (?:and )?| and ")
_ITEMS_BEGIN: Final = late(r"[:;|(—]|,(?! )|\. |(?:里面?|买|配|放|投)(?=[^、]{2,})")
_EACH_AT_END: Final = late(r"(?:这)?(?:[两二三四五六]者)?(?:各|分别|each).*$")
_LONGEST_ITEM: Final = 24


def holders(
    analysis: Analysis,
    share: Quantity,
    stretch: tuple[int, int, int],
    found: Sequence[Label],
    starts: Sequence[int],
) -> tuple[int, int]:
    """Return how many holdings have a share each, and where their names begin."""
    norm = analysis.norm
    low, topic, high = stretch
    sentence, _ = analysis.sentence_span(share.start)
    count = _count(norm[topic:high])
    if count > 1:
        return count, topic
    count = _count(norm[sentence:low])
    if count > 1:
        return count, topic
    first = sentence
    for match in _ITEMS_BEGIN.finditer(norm, sentence, share.start):
        first = match.end()
    names = _ITEM_BREAK.split(_EACH_AT_END.sub("", norm[first : share.start]).rstrip(" ,、:约大概"))
    if len(names) > 1 and all(0 < len(name.strip()) <= _LONGEST_ITEM for name in names):
        return len(names), first
    own = found[bisect_left(starts, low) : bisect_left(starts, share.start)]
    return (len(own) or 1 if len({label.asset_class for label in own}) == 1 else 1), topic


_REPEATED: Final = late(
    r"每(?:个?月|周|季度?|次)[^,;。!?\n]{0,6}$|\b(?:a|per|each|every) (?:month|quarter|week)\b"
)
_TIMES: Final = late(
    rf"(?:加|投|补|买|连续|坚持)满?(?P<span>半年|一年)|"
    rf"(?:连续|连着|连?[买补加投提升]|分|持续|坚持|共)满?(?P<count>{NUMERAL})(?:个月|次|个季度|周|季|期)|"
    r"\bfor (?P<english>two|three|four|five|six|\d{1,2}) (?:months|quarters|weeks)\b"
)


_MONTHS: Final = {"半年": 6, "一年": 12}


def times(analysis: Analysis, start: int, end: int) -> int:
    """Return how often a purchase is repeated: 每月再补5%,连续三个月."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if not (_REPEATED.search(norm, max(low, start - 12), start) or _REPEATED.match(norm, end + 1)):
        return 1
    match = _TIMES.search(norm, end, high)
    if match is None:
        return 1
    if match["span"] is not None:
        return _MONTHS[match["span"]] if "月" in norm[low:start] else 1
    return count_of(match["count"] or match["english"]) or 1


HALF_EACH: Final = late(r"各(?:占|放|买|配|给)?$")
_DIVIDED: Final = late(
    r"平分|均分|等分|平均|平摊|对半|各(?:占)?(?:一半|半)|\b(?:split|divided?) (?:it )?(?:equally|evenly|"
    r"between|among)|"
    r"\bhalf each|\bequally\b|\bevenly\b"
)


_OF_THE_REST: Final = late(
    r"\band (?:split|divide|spread|distribute|share)\b[^.;]{0,12}\b(?:rest|remainder|balance|other)\b|"
    r"其余|剩下|剩余"
)


def divided_among(analysis: Analysis, share: Quantity) -> int:
    """Return among how many holdings a share is divided: 四成平分给两只债基."""
    _, high = analysis.clause_span(share.start, share.end)
    other = _OF_THE_REST.search(analysis.norm, share.end, high)
    if other is not None:
        high = other.start()
    if _DIVIDED.search(analysis.norm, share.end, high) is None:
        return 1
    return _count(analysis.norm[share.end : high])
