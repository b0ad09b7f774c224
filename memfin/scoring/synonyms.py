"""Words of one meaning and one length: replies and constraints are read as if they used the commonest.

Patterns need to know that word alone. Lexicon patterns are put into the same words when they are written out
(`memfin.scoring.patterns.expand`), so that an entry may name any of them. Only words that are the same
in every sentence belong here: 走低 is no 下跌, because rates do the first and losses the second.
"""

import re
from typing import Final

_SAME: Final = (
    # markets
    ("震荡", "波动"),
    ("摆动", "波动"),
    ("下挫", "下跌"),
    ("攀升", "上升"),
    ("暴雷", "爆雷"),
    # money and promises
    ("本钱", "本金"),
    ("折本", "亏本"),
    ("蚀本", "亏本"),
    ("赔本", "亏本"),
    ("许诺", "承诺"),
    ("打保票", "打包票"),
    # whose, as what, how much
    ("你个人的", "你自己的"),
    ("你本人的", "你自己的"),
    ("参照", "参考"),
    ("大于", "高于"),
)
_INVESTOR: Final = re.compile("投资人(?![士生群民])")
_MORE_THAN: Final = re.compile("(?<![最至])(?<!差不)多于")


def in_common_words(text: str) -> str:
    """Return the text with its words in their commonest form, of the same length, so that offsets stay."""
    for word, common in _SAME:
        text = text.replace(word, common)
    if "投资人" in text:
        text = _INVESTOR.sub("投资者", text)
    if "多于" in text:
        text = _MORE_THAN.sub("高于", text)
    return text
