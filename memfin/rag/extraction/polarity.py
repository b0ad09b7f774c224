"""Yes and no: what an answer says to a question that asks for one of them, in Chinese and English."""

import re
from typing import Final

from memfin.rag.extraction.normalize import plain
from memfin.text.clauses import clauses

_LEAD: Final = r"^[\s\"'“”「(\[*_#>-]*(?:(?:答案?|结论|回答|answer)\s?(?:是|为)?\s?[::]?\s?)?"
_YES: Final = re.compile(
    _LEAD + r"(?:(?:是的?|对的?|有的?|会的?|能的?|可以|正确|没错|属实|确实|当然|肯定|的确|有过|承认"
    r"|真)(?=[,。.;!::、\s)\]*\"”]|$)|是的|对的|没错|确实(?!没|未|不)"
    r"|(?:yes|yeah|yep|true|correct|right|indeed|affirmative|no doubt|certainly|of course)\b)",
    re.IGNORECASE,
)
_NO: Final = re.compile(
    _LEAD + r"(?:(?:否|不|不是的?|不对|没有的?|没|不会|不能|不可以|错误?|不属实|未|无|并非|并没有|假|从未"
    r"|不正确|没有过)(?=[,。.;!::、\s)\]*\"”]|$)|不是的|不对"
    r"|(?:no|nope|false|incorrect|negative|never)\b(?!\s(?:doubt|one|matter)))",
    re.IGNORECASE,
)
_DOUBLE: Final = re.compile(
    "不可能没有?|不可能不|不是没有?|并非没有?|不是不|并非不|不得不|不能不|不会不|没有不|无不|不能说没有?|不否认|没有否认"
    "|并未否认|未否认|未必没有?|不无|不可否认|绝非没有?"
    r"|not without|cannot deny|did not deny|didn't deny|never denied|not untrue|not false",
    re.IGNORECASE,
)
_NEUTRAL: Final = re.compile(
    "是否|有没有|是不是|能否|会不会|能不能|不仅|不但|不过|不久|不同|不动产|不少|没错|不错|无论|不管|未来"
    "|非常|除非|是非|无疑|毫无疑问|不到|不足|不止|不只|不等"
    r"|\bnot only\b|\bno doubt\b|\bno\. ?\d|\bwhether or not\b",
    re.IGNORECASE,
)
_NEGATION: Final = re.compile(
    "没有|没|并未|未曾|尚未|从未|未|不是|不曾|不会|不能|不存在|不|无|并非|否认|拒绝|非(?=法院|本人|其)"
    r"|\b(?:not|never|no|none|nobody|neither|without|denied|denies|refused|cannot)\b|n't\b",
    re.IGNORECASE,
)
_OPEN: Final = re.compile(
    r"未必|不一定|(?<!不)可能(?!性)|也许|或许|大概|不好说|说不准|\b(?:maybe|perhaps|possibly|might"
    r"|may or may not|either)\b",
    re.IGNORECASE,
)
_SETTING: Final = re.compile(
    r"^\s*(?:根据|依据|按照|关于|对于|据|从|在|第|page|according|based|in the|as per|per)", re.IGNORECASE
)


def leading_polarity(text: str) -> bool | None:
    """Return what the first word of a `plain` text says when it is a yes or a no, else None."""
    if _YES.match(text):
        return True
    return False if _NO.match(text) else None


def polarity(text: str) -> bool | None:
    """Return whether a text answers yes or no, None when it stays open or says nothing.

    A leading yes or no decides. Otherwise the first clause does that is more than a setting (根据笔录): an
    odd number of negations is a no; 不是没有, 并非不, 不否认 count as two.
    """
    shown = plain(text)
    lead = leading_polarity(shown)
    if lead is not None:
        return lead
    said = next((clause for clause in clauses(shown) if not _SETTING.match(clause)), shown)
    if not said.strip() or _OPEN.search(said):
        return None
    return not is_negated(said)


def is_negated(said: str) -> bool:
    """Say whether a `plain` clause has an odd number of negations."""
    said = _NEUTRAL.sub("", _DOUBLE.sub("", said))
    return len(_NEGATION.findall(said)) % 2 == 1
