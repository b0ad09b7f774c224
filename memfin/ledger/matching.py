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
from memfin.rag.extraction.answers import leading_polarity, polarity, recognize_abstention
from memfin.rag.extraction.facts import PartialDate, find_dates, find_facts, ordering_masked
from memfin.rag.extraction.normalize import plain
from memfin.text.bm25 import terms
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks
from memfin.text.normalize import normalize
from memfin.text.quantities import QuantityKind, quantities

_TOLERANCE: Final = 0.002
"""Relative difference up to which two quantities are equal; it is that of rounding, 36 months are 3 years."""

_MEASURES: Final[dict[AnswerKind, QuantityKind]] = {
    "percent": "share",
    "amount": "money",
    "duration": "duration",
}
_CLAUSE_MARKS: Final = f"{CLAUSE_MARKS}:"
_CLAUSE: Final = re.compile(f"([^{_CLAUSE_MARKS}]+)(?:([,;:])|[{_CLAUSE_MARKS}]*)")
_CONTRAST: Final = re.compile(r"但是?|不过|而是|\bbut\b")
_SENTENCE_MARKS: Final = SENTENCE_MARKS.replace(";", "")

_FULL_STOP: Final = re.compile(r"\.(?=\s|$)")
_SCRIPTS: Final = re.compile(r"(?<=[a-z]{3})(?=[一-鿿])|(?<=[一-鿿])(?=[a-z]{3})")
"""Places where Latin words touch Chinese ones, which hides their ends."""

_BY: Final = re.compile(r"\bby (?=\d{4})")
"""A word with which the year of a date would be read alone."""

_MONTH_FIRST: Final = re.compile(r"(?<![\d/.-])(0[1-9]|1[0-2])/((?:19|20)\d\d)(?![\d/])")
_DOTTED_MONTH: Final = re.compile(r"(?<![\d.])((?:19|20)\d\d)\.(?=(?:0?[1-9]|1[0-2])(?![\d.%]))")

_BOUND: Final = re.compile(
    r"(?:不|没有?|别)(?:能|要|可以?|得|会|应|应该)?(?:再)?(?:超过?|高于|低于|少于|突破|大于|小于)"
    r"|有没有|说过?(?:不要|不碰|不买|别买)"
)
_BOUND_EN: Final = re.compile(
    r"\byou (?:said|told me) (?:no|not|never)\b"
    r"|\b(?:not|never|no) (?:be )?(?:to )?(?:only|just|more than|less than|exceed|over|above|below|under)"
    r"|\b(?:not|never|cannot|can't|don't|won't)(?: [\w']+){1,5} (?:more than|over|beyond|below|under)\b"
)
"""Negated words that make a bound, a question or what the client has said, and no denial."""


def _patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, texts))


_DENIED: Final = _patterns(
    r"(?:不是|并非|而非|不再|没[有说提定设]|从未|不用|不要|别再?|不按|不能按|不会按|不等于|不采[用信纳]|不相信"
    r"|拒绝|忽略|无视|取消)[^,。;]{0,8}$",
    r"\b(?:not|never|isn't|wasn't|aren't|don't|no longer|rather than|instead of|ignor(?:e|ed|ing)|disregard"
    r"(?:ed|ing)?|reject(?:ed|ing)?|won't|cannot|can't|cancelled|withdrew)\b(?:\s+[\w']+){0,5}\W*$",
)
_FORMER: Final = _patterns(
    r"(?:之前|以前|原来|原先|原本|曾经|过去|先前|此前|最初|起初|早先|旧)"
    r"(?![^,。;]*(?:说|提|告诉|讲|告知))[^,。;]{0,12}$",
    r"\b(?:previous(?:ly)?|former(?:ly)?|used to|original(?:ly)?|initially|old|no longer|earlier)\b"
    r"(?![^,.;]*\b(?:told|said|mention(?:ed)?|stated)\b)[^,.;]*$",
    r"\b(?:up|down|away|changed|moved|renamed|raised|lowered|switched|went)(?: it| them)? from\W*$",
)
_DENIED_AFTER: Final = _patterns(
    r"^[^,。;!?\n]{0,16}?(?:(?:,?已经?|后来|现在)(?:都|也|被)?(?:取消|作废|撤[回销]|失效|过期|删除|去掉|移除)"
    r"|(?:取消|作废|去掉|删)了|不再|作废|不对|有误|不适用|不可信|不算数|不作数|不在[内列]|以前在"
    r"|是(?:上一|之前|以前|原来|旧))",
    r"^[^,。;!?\n]{0,16}?(?:no longer|(?:has|have) been (?:withdrawn|cancell?ed|revoked|removed|replaced)"
    r"|(?:is|was) (?:wrong|outdated|expired|withdrawn|cancell?ed|revoked|replaced|not))",
    r"^[^,。;!?\n]{0,40}?\b(?:no longer appl|back then|last year|do(?:es)?n't (?:count|apply|go by))",
)
_CHANGED_AFTER: Final = _patterns(
    r"^[^,。!?\n]{0,24}?变(?:为|成|到|至)",
    r"^[^。!?\n]{0,24}?(?:(?:[改换调降升涨]|调整|更新|修改|推迟|提前|延长|缩短)(?:为|成|到|至)"
    r"|(?:现在|如今|目前)(?:是|为|改|不在)|后来(?:是|改|让)|→|->)",
    r"^[^。!?\n]{0,24}?\b(?:(?:changed|updated|moved|revised|lowered|raised|cut) (?:it )?to|is now"
    r"|now (?:it )?is|now it's|but (?:now|later|since \w+ (?:you|it))|later changed|replaced (?:by|with))\b",
)
_FROM_TO: Final = re.compile(
    r"(?:\bfrom\b|从|由)\s*([^,。;!?\n]{1,20}?)(?=\s*(?:\bto\b|[到至成]|[改变换调]为|推迟|提前|延长|缩短))"
)

_FIGURE: Final = "(?:数字|金额|日期|期限|利率|上限|清单|名单)"
_TELL: Final = "(?:told|tell|mention(?:ed)?|shared?|given?|provided?|said|say|stated?)"
_KEEP: Final = "(?:have|hold|keep|store|know|remember|recall)"
_UNTOLD: Final = _patterns(
    r"(?:没有?|未曾?|从未|从没)(?:有|曾)?(?:跟我|向我|和我)?(?:告诉|告知|提供|说|提|透露|讲|分享)",
    r"[你我][^,。;]{0,6}(?:没有?|未)(?:有|曾)?(?:定过|设[定过]|列[出明]|填|选[定过]|排除|[谈聊]到)",
    r"(?:没有|无|查不到|找不到|未保[存留]|不掌握)[^,。;!?]{0,8}(?:记录|信息|资料)",
    rf"(?:没有|不再有|查不到)(?:你的|可用的|具体的?|任何|这[样个类]的?|一[份个])*(?:{_FIGURE}|选择)",
    r"[按照应据]你?的?(?:要求|请求|吩咐)[^。!?]{0,10}(?:删|清除|忘|移除|不再保[存留])",
    r"已经?(?:把[^。,]{0,12})?(?:删除|清除|移除|忘[记掉])|你让我[^。,]{0,6}(?:删|清|忘)[掉除]?",
    r"不(?:太)?(?:知道|清楚|记得|了解)|记不[得清]|无从得知|不再保[存留]|这一[^,。;]{0,6}(?:空白|空着)",
    r"(?:能|方便)(?:告诉我|说一下)",
    r"(?:别人|他人|其[他它]客户|另一位)[^。!?]{0,12}(?:保密|隐私|不能|不便)",
    rf"\b(?:ha(?:ve|s|d)n't|didn't|never|not)(?: (?:yet|ever|been|actually))? ?{_TELL}\b",
    r"\byou[^.,。;!?]{0,9}(?:n't|\bnot|\bnever|\byet to) (?:named?|set|ruled?|listed?|chosen)\b",
    rf"\b(?:do(?:es)?(?:n't| not)|no longer) (?:currently |actually )?{_KEEP}\b",
    r"\b(?:wouldn't know|no idea|(?:is|are) confidential|not sure (?:what|when|which|how|whether|if))\b",
    r"\bno (?:record|information|note|memory) (?:of|on|about)\b|\bmissing from (?:your|my)\b",
    r"\b(?:no|nothing)\b[^.,。;!?]{0,24}\b(?:in|on) (?:(?:your|my) )?(?:files?|notes|records?|profile)\b",
    r"\bthere(?:'s| is| are) no\b[^.,。;!?]{0,24}\b(?:any ?more|to (?:give|tell))\b",
    r"\b(?:can't|cannot) (?:recall|remember|tell|answer|share|disclose)\b",
    r"\b(?:could|can|would) you (?:please )?(?:tell|remind) me\b|\bnot come up\b|\bnever come up\b",
    r"\b(?:deleted|removed|erased|forgotten|forgot)\b[^.!?]{0,40}\b(?:request|asked|requested)",
    r"\b(?:request|asked|requested)\b[^.!?]{0,40}\b(?:deleted|removed|erased|forgotten|forgot)\b",
)
_SAID_INSTEAD: Final = re.compile(
    r"(?<!要)(?:[说提记定选]|排除|告诉我)的是|\bwhat you (?:told|said|gave)\b[^.,。;]{0,12}\b(?:is|was)\b"
    r"|\bthe \w+ (?:i have|you (?:gave|told|said))\b[^.,。;]{0,12}\b(?:is|was)\b"
)
"""Words that give the right value after a denial, which is then no abstention."""

_ACKNOWLEDGED: Final = re.compile(
    r"^\s*(?:(?:all right|ok(?:ay)?|sure|well|good question|thanks|sorry)\b|好的?|明白|收到|抱歉)[,。;!\s]*"
)
_SHORT: Final = re.compile(
    r"\s*(?:you (?:do|did|are|were|have|had|can|may)(?:n't)?\b|not (?:any ?more|yet|at all)\b"
    r"|[一-鿿]{1,3}(?=[,。;!:]|$))"
)
"""Beginnings that answer without a word of the question: 要的, you do, not yet."""

_SHORTEST_WORD: Final = 4
_NEGATIONS: Final = frozenset("不没未无")


def gives(text: str, value: str, kind: AnswerKind, aliases: Sequence[str] = (), question: str = "") -> bool:
    """Return True if a text goes by a value; one that it denies or calls a former one does not count."""
    if kind == "yes_no":
        wanted = _yes(value)
        return _answered(text, question) is wanted is not None and not abstains(text, question)
    shown = _shown(text)
    for wanted_words in (value, *aliases):
        read = shown if _is_range(wanted_words, kind) else _changes_blanked(shown)
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
    shown = _shown(text)
    if _SAID_INSTEAD.search(shown):
        return False
    return _has(_UNTOLD, shown) or recognize_abstention(text, question).abstains


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


def _answered(text: str, question: str) -> bool | None:
    """Return the yes or no of a text, None where it begins with neither and is off the question."""
    shown = _ACKNOWLEDGED.sub("", _shown(text))
    kept = (
        match[0]
        for match in _CLAUSE.finditer(shown)
        if not _has(_FORMER, match[1]) and not (match[2] and _has(_CHANGED_AFTER, shown[match.end() :]))
    )
    read = "".join(kept)
    if not question or leading_polarity(plain(read)) is not None or _SHORT.match(read):
        return polarity(read, question)
    return polarity(read, question) if _topics(read) & _topics(_shown(question)) else None


def _topics(text: str) -> set[str]:
    return {term for term in terms(text) if not term.isascii() or len(term) >= _SHORTEST_WORD}


def _is_range(value: str, kind: AnswerKind) -> bool:
    return kind in _MEASURES and any(each.low != each.high for each in quantities(value))


def _changes_blanked(text: str) -> str:
    """Return a text without the first value of a change from one to another, which reads as a range."""
    return _FROM_TO.sub(lambda match: "\0" * len(match[0]), text)


def _places(text: str, value: str, kind: AnswerKind) -> Iterator[tuple[int, int]]:
    """Yield the places of a value in a shown text; a value that is not of its kind is read as words."""
    wanted = [found for found, _, _ in _values(_shown(value), kind)]
    if not wanted:
        guarded = kind == "yes_no" and value[:1] not in _NEGATIONS
        for start, end in _words(text, value):
            if not (guarded and start and text[start - 1] in _NEGATIONS):
                yield start, end
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
        iso = _DOTTED_MONTH.sub(r"\1-", _MONTH_FIRST.sub(r"\2-\1", _BY.sub("\0\0\0", text)))
        for date in find_dates(iso):
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
    begin, _ = between_marks(text, start, end, _CLAUSE_MARKS)
    _, stop = between_marks(text, start, end, _SENTENCE_MARKS)
    before, rest = _BOUND_EN.sub("", _BOUND.sub("", _CONTRAST.split(text[begin:start])[-1])), text[end:stop]
    return (
        _has(_DENIED, before)
        or _has(_FORMER, before)
        or _has(_DENIED_AFTER, rest)
        or _has(_CHANGED_AFTER, rest)
    )


def _has(patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
    return any(pattern.search(text) for pattern in patterns)
