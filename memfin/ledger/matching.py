"""Typed comparison of a value with free text in Chinese and English.

A value is compared by what it says: 20%, 两成 and twenty percent are one, as are 3年 and 36 months. Words are
compared in normal form, whole where they are Latin. Values that a text denies, or names as former ones, it
does not give.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from memfin.contracts import AnswerKind
from memfin.rag.extraction.answers import polarity, recognize_abstention
from memfin.rag.extraction.facts import PartialDate, find_dates, find_facts, ordering_masked
from memfin.text.normalize import normalize
from memfin.text.quantities import QuantityKind, quantities

_TOLERANCE: Final = 0.002
"""Relative difference up to which two quantities are equal; it is that of rounding, 36 months are 3 years."""

_MEASURES: Final[dict[AnswerKind, QuantityKind]] = {
    "percent": "share",
    "amount": "money",
    "duration": "duration",
}
_CLAUSE_END: Final = re.compile(r"[,。;!?:\n]|\.(?=\s|$)|(?:但是?|不过|而是|\bbut\b)")
_SENTENCE_END: Final = re.compile(r"[。!?\n]|\.(?=\s|$)")

_FULL_STOP: Final = re.compile(r"\.(?=\s|$)")
_SCRIPTS: Final = re.compile(r"(?<=[a-z]{3})(?=[一-鿿])|(?<=[一-鿿])(?=[a-z]{3})")
"""Places where Latin words touch Chinese ones, which hides their ends."""

_BY: Final = re.compile(r"\bby (?=\d{4})")
"""A word with which the year of a date would be read alone."""

_BOUND: Final = re.compile(
    r"(?:不|没有?|别)(?:能|要|可以?|得|会|应|应该)?(?:再)?(?:超过?|高于|低于|少于|突破|大于|小于)"
    r"|有没有|说过?(?:不要|不碰|不买|别买)|\byou (?:said|told me) (?:no|not|never)\b"
    r"|\b(?:not|never|no) (?:be )?(?:to )?(?:only|just|more than|less than|exceed|over|above|below|under)"
    r"|\b(?:not|never|cannot|can't|don't|won't)(?: [\w']+){1,5} (?:more than|over|beyond|below|under)\b"
)
"""Negated words that make a bound, a question or what the client has said, and no denial."""

_DENIED: Final = re.compile(
    r"(?:不是|并非|而非|不再|没有|不用|不要|别再?|不按|不能按|不会按|不等于|不采[用信纳]|不相信|拒绝|忽略|无视|取消)"
    r"[^,。;]{0,8}$"
    r"|\b(?:not|never|isn't|wasn't|aren't|don't|no longer|rather than|instead of|ignor(?:e|ed|ing)|disregard"
    r"(?:ed|ing)?|reject(?:ed|ing)?|won't|cannot|can't|cancelled|withdrew)\b(?:\s+[\w']+){0,5}\W*$"
)
_FORMER: Final = re.compile(
    r"(?:之前|以前|原来|原先|原本|曾经|过去|先前|此前|最初|起初|旧)(?![^,。;]*(?:说|提|告诉|讲|告知))[^,。;]{0,12}$"
    r"|\b(?:previous(?:ly)?|former(?:ly)?|used to|originally|initially|old|no longer|earlier)\b"
    r"(?![^,.;]*\b(?:told|said|mention(?:ed)?|stated)\b)[^,.;]*$"
)
_DENIED_AFTER: Final = re.compile(
    r"^[^,。;!?\n]{0,16}?(?:已经?(?:被)?(?:取消|作废|撤回|撤销|失效|过期|删除)|不再|作废|不对|有误|不适用|不可信"
    r"|no longer|(?:has|have) been (?:withdrawn|cancell?ed|revoked|removed|replaced)"
    r"|(?:is|was) (?:wrong|outdated|expired|withdrawn|cancell?ed|revoked|replaced|not))"
)
_CHANGED_AFTER: Final = re.compile(
    r"^[^,。!?\n]{0,24}?变(?:为|成|到|至)"
    r"|^[^。!?\n]{0,24}?(?:(?:改|换|调整|更新|修改|调|降|升)(?:为|成|到|至)|现在(?:是|为|改)|如今(?:是|为)"
    r"|目前(?:是|为)|后来(?:是|改)|→|->"
    r"|\b(?:(?:changed|updated|moved|revised|lowered|raised|cut) (?:it )?to|is now|now (?:it )?is|now it's"
    r"|but now|replaced (?:by|with))\b)"
)
_FROM_TO: Final = re.compile(r"(?:\bfrom\b|从|由)\s*([^,。;!?\n]{1,20}?)(?=\s*(?:\bto\b|[到至]))")

_UNTOLD: Final = re.compile(
    r"(?:没有?|未曾?|从未|从没)(?:有|曾)?(?:跟我|向我|和我)?(?:告诉|告知|提供|说|提|透露|讲|分享)"
    r"|(?:没有|无|查不到|找不到|未保[存留])(?:你的?|任何|相关的?|这方面的?|这项|该项?|此项?|这个|这条)*(?:记录|信息|资料)"
    r"|[按照应据]你?的?(?:要求|请求|吩咐)[^。!?]{0,10}(?:删|清除|忘|移除|不再保[存留])"
    r"|已经?(?:把[^。,]{0,12})?(?:删除|清除|移除|忘[记掉])"
    r"|不(?:太)?(?:知道|清楚|记得|了解)|记不[得清]|无从得知|不再保[存留]"
    r"|\b(?:haven't|have not|hasn't|never|didn't|did not|not)\b(?: (?:yet|ever|been|actually))? ?"
    r"(?:told|tell|mention(?:ed)?|shared?|given?|provided?|said|say|stated?)\b"
    r"|\b(?:don't|do not|doesn't|does not|no longer) (?:currently |actually )?"
    r"(?:have|hold|keep|store|know|remember|recall)\b"
    r"|\bno (?:record|information|note|memory) (?:of|on|about)\b"
    r"|\b(?:can't|cannot) (?:recall|remember|tell|answer)\b"
    r"|\b(?:deleted|removed|erased|forgotten|forgot)\b[^.!?]{0,40}\b(?:request|asked|requested)"
    r"|\b(?:request|asked|requested)\b[^.!?]{0,40}\b(?:deleted|removed|erased|forgotten|forgot)\b"
)


def gives(text: str, value: str, kind: AnswerKind, aliases: Sequence[str] = (), question: str = "") -> bool:
    """Return True if a text goes by a value; one that it denies or calls a former one does not count."""
    if kind == "yes_no":
        wanted = _yes(value)
        return polarity(text, question) is wanted is not None and not abstains(text, question)
    shown = _shown(text)
    for wanted_words in (value, *aliases):
        read = _changes_blanked(shown) if _is_single(wanted_words, kind) else shown
        for start, end in _places(read, wanted_words, kind):
            if not _is_denied(read, start, end):
                return True
    return False


def mentions(text: str, value: str, kind: AnswerKind, aliases: Sequence[str] = ()) -> bool:
    """Return True if a value occurs in a text, denied or not."""
    shown = _shown(text)
    return any(next(_places(shown, words, kind), None) is not None for words in (value, *aliases))


def abstains(text: str, question: str = "") -> bool:
    """Return True if a text says that it was not told, does not know, or has forgotten on request."""
    return _UNTOLD.search(_shown(text)) is not None or recognize_abstention(text, question).abstains


def names_any(text: str, kind: AnswerKind, question: str = "") -> bool:
    """Return True if a text names any value of a kind of figures that its question does not."""
    asked = {found for found, _, _ in _values(_shown(question), kind)}
    return any(found not in asked for found, _, _ in _values(_shown(text), kind))


@lru_cache(maxsize=256)
def _shown(text: str) -> str:
    ended = _FULL_STOP.sub("。", ordering_masked(normalize(text)))
    return _SCRIPTS.sub(" ", ended)


def _yes(value: str) -> bool | None:
    return {"true": True, "false": False}.get(value.strip().lower(), polarity(value))


def _is_single(value: str, kind: AnswerKind) -> bool:
    measure = _MEASURES.get(kind)
    return measure is not None and all(each.low == each.high for each in quantities(value))


def _changes_blanked(text: str) -> str:
    """Return a text without the first value of a change from one to another, which reads as a range."""
    return _FROM_TO.sub(lambda match: "\0" * len(match[0]), text)


def _places(text: str, value: str, kind: AnswerKind) -> Iterator[tuple[int, int]]:
    """Yield the places of a value in a shown text; a value that is not of its kind is read as words."""
    wanted = [found for found, _, _ in _values(_shown(value), kind)]
    if not wanted:
        yield from _words(text, value)
        return
    for found, start, end in _values(text, kind):
        if _equal(found, wanted[0]):
            yield start, end


@lru_cache(maxsize=256)
def _values(text: str, kind: AnswerKind) -> tuple[tuple[Any, int, int], ...]:
    """Return the values of a kind with their places; a reply is asked for those of many facts."""
    return tuple(_found(text, kind))


def _found(text: str, kind: AnswerKind) -> Iterator[tuple[Any, int, int]]:
    measure = _MEASURES.get(kind)
    if measure is not None:
        for each in quantities(text):
            if each.kind == measure:
                yield (each.low, each.high), each.start, each.end
    if kind == "date":
        for date in find_dates(_BY.sub("\0\0\0", text)):
            yield date.value, date.start, date.end
    elif kind in ("amount", "number"):
        kinds = ("amount",) if kind == "amount" else ("count", "number")
        for fact in find_facts(text, names=False, indefinite=True):
            if fact.kind in kinds:
                yield (fact.value, fact.value), fact.start, fact.end


def _equal(found: Any, wanted: Any) -> bool:
    """Return True if two values are one; a date may lack the year, and may say more than is asked."""
    if isinstance(wanted, PartialDate):
        asked = wanted if found.year is not None or wanted.month is None else wanted._replace(year=None)
        return asked.within(found)
    return all(
        abs(own - its) <= _TOLERANCE * max(abs(own), abs(its)) for own, its in zip(found, wanted, strict=True)
    )


def _words(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Yield the places of words in normal form, whatever punctuation is between them."""
    parts = re.findall(r"[^\W_]+", normalize(value))
    if not parts:
        return
    pattern = r"[\W_]*".join(re.escape(part) for part in parts)
    first = r"(?<![a-z0-9])" if parts[0][0].isascii() else ""
    last = r"(?![a-z0-9])" if parts[-1][-1].isascii() else ""
    for match in re.finditer(f"{first}{pattern}{last}", text):
        yield match.span()


def _is_denied(text: str, start: int, end: int) -> bool:
    """Return True if the words around a place deny it or call it former."""
    begin = max((match.end() for match in _CLAUSE_END.finditer(text, 0, start)), default=0)
    before, after = _BOUND.sub("", text[begin:start]), text[end:]
    stop = _SENTENCE_END.search(after)
    rest = after[: stop.start()] if stop else after
    return any(
        pattern.search(words) is not None
        for pattern, words in (
            (_DENIED, before), (_FORMER, before), (_DENIED_AFTER, rest), (_CHANGED_AFTER, rest),
        )
    )  # fmt: skip
