"""What a constraint rules out: the vocabulary's term that it names, or the thing in its own words."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, Literal

from memfin.scoring.constraints.predicates import ForbiddenAsset, ForbiddenPractice
from memfin.scoring.constraints.vocabulary import Term, load_vocabulary
from memfin.scoring.numbers.quantities import quantities
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.forms import normalize
from memfin.scoring.text.synonyms import in_usual_words

Ban = ForbiddenPractice | ForbiddenAsset

NEGATIVE: Final = late(
    r"不(?!低于|少于|动产|限)|别(?![的人处致])|勿|禁|避|拒|没|非(?!银)|零(?!售|钱)|无(?!风险)|戒|远离|排除|"
    r"除外|剔除|免谈|拉黑|谢绝|"
    r"\b(?:no|not|never|avoid|without|none|nothing|refus\w*|zero|forbid\w*|ban(?:s|ned)?|exclud\w*)\b|"
    r"n't\b|stay away|keep out|steer clear|off[- ]limits|off the table|a no-go"
)
_DEALING: Final = (
    r"(?:再|要|想|愿意?|打算|考虑|接受|参与|参加|投资|投向|投(?!资|机)|买入|购买|买|碰|做|炒|玩|沾|配置|"
    r"配(?!资)|持有|使用|用|"
    r"加(?!密)|涉及|涉足|推荐|推|给我|给|让我|进行|搞)"
)
_TAKING: Final = (
    r"(?:再|要|想|考虑|接受|参与|参加|投资|投|买|碰|做|炒|玩|沾|配置?|持有|涉及|推荐?|给我|选|开|追)"
)
_ANY: Final = r"(?:任何|一切|所有|全部|各种|什么|跟|和|与)?"
_ADVERBS: Final = (
    r"(?:我|就|都|也|请|全程|一律|全部|坚决|绝对?|千万|一概|完全|暂时?|一只|一个|半点|目前|现在)"
)
_THING_BEHIND: Final = late(
    rf"{_ADVERBS}*(?:(?:不|别(?!的)|勿|拒绝|避免|禁止?|杜绝){_DEALING}+|拒绝|回避|避免|避开|远离|排除|剔除|"
    rf"禁止?|杜绝|谢绝|戒|不(?=[^会能得可要懂信听]))"
    rf"{_ANY}(?!太|过于|这么|那么|得|于)(?P<thing>[^,;。!?]+)"
)
_THING_IN_FRONT: Final = late(
    rf"(?:带有?|属于|跟|和|与)?(?P<thing>[^,;。!?]+?)(?:相关|有关|沾边|之类|一类|类|那种|这种)?的?{_ADVERBS}*"
    rf"(?:(?:不|别|勿){_TAKING}+|不行|免谈|除外|排除|剔除|拉黑|没兴趣|回避|远离)(?:它|了|的|啊|吧)?$"
)
_ENGLISH_BEHIND: Final = late(
    r"\b(?:no|never|avoid(?:ing)?|without|exclud(?:e|es|ing)|not|nothing in|stay away from|keep out of|"
    r"steer clear of|zero|don't|do not|refuse)\b"
    r"(?: (?:want|buy(?:ing)?|invest(?:ing)?|in|into|use|using|touch(?:ing)?|hold(?:ing)?|own(?:ing)?|"
    r"trad(?:e|ing)|"
    r"like|accept|go|put|my|money|any|to|with|of|the|a|single|more))*(?! (?:more|less|fewer|later|above|"
    r"over|under)\b)"
    r" (?P<thing>[^,;.:]+)"
)
_ENGLISH_IN_FRONT: Final = late(
    r"(?P<thing>[^,;.:]+?) (?:is|are|stays?|must be|should be)? ?(?:off[- ]limits|off the table|"
    r"out of the question|"
    r"exclud\w+|forbidden|banned|not allowed|not wanted|taboo|a no-go|out$)"
)
_WRAPPING: Final = late(
    r"^(?:any|all|the|new|direct|pure) |(?: (?:please|at all|for me|exposure|bets?|names?|plays?|positions?|"
    r"whatsoever|ever))+$|^(?:的|类)|(?:系的?(?:债券?|股票|基金|产品)?|的|类|等|方面|产品|资产|标的|板块|"
    r"领域|行业|相关|的东西)+$"
)
_LIST: Final = late(r"、|/|(?<=[\u4e00-\u9fff])[和与及或]+(?=[\u4e00-\u9fff])|,? (?:and|or|nor) |, ")
_SHORTEST: Final = 2
_MOST_PARTS: Final = 40
"""Characters of a part of a list at least, and parts of a list at most."""

_BARE: Final = late(
    r"参与|投资|购买|使用|配置|持有|买入|\b(?:any|invest(?:ing)? in|buy(?:ing)?|hold(?:ing)?)\b|[\s,.;:。]"
)


@cache
def _term_names() -> tuple[tuple[str, str, Literal["practice", "asset"]], ...]:
    """Return (name, id, kind) of all terms, longest names first, so that 港股美股 beats 港股."""
    names: list[tuple[str, str, Literal["practice", "asset"]]] = [
        (name, term.id, term.kind)
        for term in load_vocabulary().terms
        if not term.exact
        for name in (*term.names, *term.words)
    ]
    # What constraints call a term goes before what replies call it: 期货 names derivatives, not leverage.
    own = {(name, term.id) for term in load_vocabulary().terms for name in term.names}
    return tuple(sorted(names, key=lambda entry: (-len(entry[0]), (entry[0], entry[1]) not in own)))


@cache
def _descriptions() -> tuple[tuple[Term, re.Pattern[str]], ...]:
    """Return every term that constraints describe, with what describes it as a whole word."""
    return tuple(
        (term, re.compile(r"(?<![a-z])(?:" + "|".join(term.described) + r")(?![a-z])"))
        for term in load_vocabulary().terms
        if term.described
    )


def find_term(norm: str) -> Ban | None:
    """Return the ban of the vocabulary's term that a normalized text names or describes, or None.

    The longest name or description counts: 港股美股 beats 港股, ``low-rated corporate bonds`` beats
    ``corporate bonds``.
    """
    compact = norm.replace(" ", "") if not norm.isascii() else norm
    longest, found = 0, None
    for term, pattern in _descriptions():
        for match in pattern.finditer(norm):
            if len(match[0].strip()) > longest:
                longest, found = len(match[0].strip()), _ban(term)
    for name, term_id, kind in _term_names():
        if len(name) <= longest:
            break
        position = compact.find(name)
        if position < 0 or not _whole_word(compact, position, name):
            continue
        return ForbiddenPractice(term_id) if kind == "practice" else ForbiddenAsset(term_id)
    return found


def _whole_word(text: str, position: int, name: str) -> bool:
    """Latin words match whole only: ``gold`` is not in ``golden``."""
    if not name[0].isascii():
        return True
    before = text[position - 1 : position]
    after = text[position + len(name) : position + len(name) + 1]
    starts = not (before.isascii() and before.isalpha() and name[0].isalpha())
    ends = not (after.isascii() and after.isalpha() and name[-1].isalpha())
    return starts and ends


def _ban(term: Term) -> Ban:
    return ForbiddenPractice(term.id) if term.kind == "practice" else ForbiddenAsset(term.id)


def _exactly(text: str) -> Ban | None:
    """Return the ban of the term that a text names and nothing besides."""
    for term in load_vocabulary().terms:
        if text in ((*term.names, *term.exact_names) if term.exact else term.exact_names):
            return _ban(term)
    return None


def thing(norm: str) -> str:
    """Return what a normalized text rules out, in its own words; "" where they cannot be told."""
    patterns = (_ENGLISH_BEHIND, _ENGLISH_IN_FRONT) if norm.isascii() else (_THING_BEHIND, _THING_IN_FRONT)
    for clause in re.split(r"[,;。!?]", norm) if not norm.isascii() else (norm,):
        stripped = clause.strip()
        if NEGATIVE.search(stripped) is None:
            continue
        behind = patterns[0].match(stripped) if not norm.isascii() else patterns[0].search(stripped)
        found = behind or patterns[1].match(stripped)
        if found is not None:
            return _unwrapped(found["thing"].strip())
    return ""


def _unwrapped(text: str) -> str:
    while (shorter := _WRAPPING.sub("", text).strip()) != text and shorter:
        text = shorter
    return text


def forbidden(text: str) -> Ban | None:
    """Return the ban of the thing a text names, whether or not the text itself negates it."""
    norm = in_usual_words(" ".join(normalize(text).split()))
    named = load_vocabulary().term(norm)
    if named is not None:
        return _ban(named)
    known = find_term(norm)
    if known is not None:
        return known
    own_words = thing(norm)
    if not own_words and NEGATIVE.search(norm) is None:
        own_words = _BARE.sub("", norm) if not norm.isascii() else " ".join(_BARE.sub(" ", norm).split())
    if not own_words or quantities(own_words):
        return None
    return _exactly(own_words) or ForbiddenAsset(own_words)


_LONGEST_NOUN: Final = 6


def _nouns(whole: Ban | None, parts: list[str]) -> bool:
    """Say whether the parts of a list are short words that the vocabulary does not know as one term."""
    return (
        isinstance(whole, ForbiddenAsset)
        and load_vocabulary().term(whole.term) is None
        and all(len(part) <= _LONGEST_NOUN and not part.isascii() for part in parts)
    )


def bans(norm: str) -> Iterator[Ban]:
    """Yield what a normalized text rules out, each part of a list by itself (不碰军工和烟酒)."""
    whole = forbidden(norm)
    parts = [_unwrapped(part.strip()) for part in _LIST.split(thing(norm), _MOST_PARTS)]
    parts = [part for part in parts if len(part) >= _SHORTEST]
    known = [find_term(part) or _exactly(part) for part in parts]
    if len(known) > 1 and (all(known) or _nouns(whole, parts)):
        yield from dict.fromkeys(
            each or ForbiddenAsset(part) for each, part in zip(known, parts, strict=True)
        )
    elif whole is not None:
        yield whole
