"""Values, yes or no, and abstention in the text of an answer (spec section 9)."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, Generic, NamedTuple, TypeVar

from memfin.rag.extraction.dates import FoundRange, PartialDate, find_ranges
from memfin.rag.extraction.facts import (
    UNIT_ASKED,
    Fact,
    canonical_unit,
    dates_of,
    facts_in,
    find_facts,
    ordering_masked,
    quotations,
)
from memfin.rag.extraction.normalize import fold, plain
from memfin.text.clauses import CLAUSE_MARKS, SENTENCE_MARKS, between_marks, clauses, sentences
from memfin.text.numbers import NUMERALS

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


_TELL: Final = (
    "提及|提到|提供|说明|说清|记载|记录|写明|写到|写清|明确|涉及|交代|交待|披露|载明|给出|描述|包含|包括"
    "|列明|列出|指出|指明|显示|回答|"
    "体现|反映|注明|阐述|细说|详述|透露|谈到|谈及|讲到|讲明|说过|说|讲|提"
)
_FIND: Final = "找到|查到|检索到|发现|得出|得到|获取|获得|掌握|看到|见到|搜到"
_JUDGE: Final = (
    "确定|确认|判断|判定|回答|得知|知晓|知道|获知|提供|给出|说明|查明|查清|推断|推定|核实"
    "|作答|解答|答复|答|认定|得出|看出|告知|断定|还原|查证"
)
_ANY: Final = (
    "任何|相关|有关|具体|足够|充分|明确|直接|进一步|更多|可靠|详细|确切|对应|可供参考|这方面|该|此|的"
)
_CHINESE: Final = (
    rf"(?:无法|难以|不能|不可能|没法|没办法|无从|未能|不便|无力)(?:够)?(?:据此|由此|从中|直接|准确|具体"
    rf"|完全|再|进一步|从[^,。;]{{0,16}})?(?:进行)?(?:{_JUDGE}|{_FIND})"
    rf"|(?:尚未|并未|未曾|从未|均未|都未|没有|没|并没有|未)(?:被|具体|明确|详细|直接|进一步|再|任何地方"
    rf"|清楚|专门|确切)*(?:{_TELL}|{_FIND})(?!忘)"
    rf"|(?:没有|无|缺乏|缺少|查无|并无|未有|没)(?:{_ANY})*(?:(?:与|关于|有关)[^,。;]{{1,24}}?)?(?:{_ANY})*"
    r"(?:信息|记载|记录|说明|内容|资料|材料|依据|描述|答案|线索|证据|细节|陈述|交代|数据|结论|明细)"
    r"|(?:信息|证据|资料|材料|依据|记录|内容)(?:尚|并|还)?(?:不足|不够|有限|缺失|不全|不充分)"
    r"|不(?:太|是很|大)?(?:清楚|知道|知情|详|了解|晓得|明确|得而知)|不明(?=[,。;!]|$)|(?<!分)不清(?!楚|偿"
    r"|理|洗|除)|说不清|讲不清|不好说"
    r"|记不(?:清|得|起|住|太清)|不记得|想不起|回忆不起|没印象|没有印象|(?:都|全|已经?|也|全都|均"
    r"|早)忘(?:记|掉|光)?了?(?![带记拿交关])"
    r"|忘(?:记|掉)?了(?=[,。;!?:)\]”\"』」'’]|$)|忘记(?=[,。;!]|$)|忘(?:记|了)+(?:具体|是|请|给谁|什么|哪"
    r"|多少|何时|怎么|如何|当时|细节|花在|用在)"
    r"|(?:尚|仍|还)(?:不明|未知|存疑|待查|无定论)|未知(?=[,。;!]|$)|(?:不予|拒绝|恕不|无可)(?:回答|作答"
    r"|奉告|提供|置评)|查不(?:到|出|清)|找不到|看不出|推不出|得不出|无据可查|无从(?:查考|考证|得知|谈起)"
    r"|没有答案|无解"
    r"|(?:笔录|文件|文档|材料|文中|资料|全文|原文|记录|书证)(?:里面?|中|内|上)?(?:并|都|均|也)?(?:没有|没(?!有)|未|无)(?![忘不否疑])"
    r"|(?:均|都|也|并)?(?:无|没有)(?:法|办法)(?=[,。;!]|$)"
)
_ENGLISH: Final = (
    r"\b(?:can ?not|can't|could not|couldn't|unable to|not able to|impossible to|not possible to|hard to"
    r"|cannot be|can't be|could not be)\s(?:be\s|reliably\s|possibly\s|really\s|definitively\s)*"
    r"(?:determin|answer|tell|say|find|found|confirm|provid|establish|verif|know|identif|specif|infer"
    r"|conclud|recall|remember|help|locat|give|state|ascertain|deduc)\w*"
    r"|\b(?:does|do|did|has|have|is|are|was|were)(?:\s?n['o]t| not)\s(?:explicitly\s|clearly\s"
    r"|specifically\s|any\s|been\s|even\s|actually\s|further\s)*"
    r"(?:say|state|mention|specif|contain|provid|indicat|record|give|given|includ|disclos|reveal|address"
    r"|describ|explain|tell|know|known|remember|recall|clear|available|list|detail|cover|identif|found"
    r"|find|answer|document)\w*"
    r"|\b(?:not|never)\s(?:explicitly\s|clearly\s|specifically\s|been\s)*(?:mentioned|stated|specified"
    r"|recorded|provided|disclosed|known|available|clear|given|indicated|addressed|described|documented"
    r"|answerable|found|said|explained|listed)\b"
    r"|\b(?:there (?:is|are|was)|contains?|provides?|gives?|has|have|with|found|find)\s(?:no|not enough"
    r"|insufficient)\s(?:\w+\s){0,3}(?:information|mention|record|details?|evidence|indication|answer"
    r"|data|statement|reference|basis)"
    r"|\bno\s(?:\w+\s){0,2}(?:information|mention|record|details?|indication|answer|data|reference|basis)\b"
    r"|\b(?:not enough|insufficient|lacks?|lacking)\s(?:\w+\s){0,2}(?:information|evidence|details?|data"
    r"|context|basis)"
    r"|\b(?:unknown|unclear|undisclosed|unspecified|unanswerable)\b|\b(?:forgot|forgotten)\b(?!\sto\b)"
    r"|\bno idea\b|\b(?:decline|refuse)s?\sto\s(?:answer|say|provide|speculate)|\bwon't speculate\b"
)
_ENGLISH_LACK: Final = (
    r"\b(?:document|record|text|transcript|file|source|context|passage)s?\s"
    r"(?:does not|doesn't|do not|don't|did not|has no|have no|contains? no|gives? no|lacks?)\b"
)
_SIGN: Final = re.compile(rf"(?P<chinese>{_CHINESE})|(?P<english>{_ENGLISH}|{_ENGLISH_LACK})", re.IGNORECASE)
# Each sign has one of these in it, and to look for them costs a tenth of what the signs cost.
_HINT: Final = re.compile(
    r"[无难不没未缺查限忘拒恕]|n['o]t|\bno\b|un|insuff|lack|forg|declin|refus|hard|imposs|never",
    re.IGNORECASE,
)
_BARE: Final = frozenset(
    (
        "na",
        "n a",
        "none",
        "null",
        "无",
        "未知",
        "不详",
        "无答案",
        "拒答",
        "unknown",
        "idk",
        "i dont know",
        "没有答案",
        "unanswerable",
    )
)

_NEGATED: Final = re.compile(
    r"(?:不是|并非|绝非|不能|不该|不可能|不会|不曾|未曾|从未|从来没有?|并没有?|没有|并未|未必|没|未"
    r"|谈不上|算不上|说不上|怎么?(?:可能|会|能)|岂|哪里?(?:会|能)|不再|非|绝不|决不|并不|毫不|否认|不存在|不至于)"
    r"(?:说|是|真的|完全|曾|曾经|会|他|她|其|自己|称|觉得|认为)*$"
)
_NEGATED_ENGLISH: Final = re.compile(
    r"(?:\bnot|n't|\bnever|\bhardly|\bno longer|\bisn't|\bfar from|\bdenie[sd](?:\s\w+){0,2}|\bwithout"
    r"|\bnothing(?:\sis)?)\s(?:really\s|ever\s|been\s|at all\s|exactly\s|yet\s|have\s|be\s)*$",
    re.IGNORECASE,
)
_QUESTIONED: Final = re.compile(
    r"(?:是否|有没|是不是|会不会|能否|可否|究竟|有否|whether(?:\s\w+){0,4}\s)$", re.IGNORECASE
)
_CONDITION: Final = re.compile(
    r"(?:如果|若|假如|倘若|要是|除非|即使|万一|\b(?:if|unless|should|in case)\b)[^,。;]{0,24}$", re.IGNORECASE
)
_ASKED: Final = re.compile("[?]|[吗么]$")
_CONTRAST: Final = re.compile(
    r"(?:,|^|(?<=[。.;]))\s*(?:但是?|不过|然而|可是|只是|而是|\b(?:but|however|yet|nevertheless)\b)"
    r"|(?<![不非])但(?!凡|愿)",
    re.IGNORECASE,
)
_GUESS: Final = re.compile(
    r"可能(?!性|是?因为|由于|是由于|需要?|存在|另有)|大概|也许|或许|推测|估计|猜测|应该?(?:是|为|在|用|系)|想必|多半|很可能|一般来说|通常|据推算"
    r"|合理推断"
    r"|\b(?:probably|likely|perhaps|maybe|might|presumably|i guess|i think|my guess|i assume|i estimate"
    r"|typically)\b",
    re.IGNORECASE,
)
_GUESS_BESIDE: Final = re.compile(rf",[^,。;]{{0,4}}(?:{_GUESS.pattern})", re.IGNORECASE)
"""A guess in the sentence that declines: 无法确定,可能是…"""
_COMMON: Final = re.compile("具体|详细|说明|请|是否|文件|文档|笔录|记载|提及|提到")
_CONFLICT: Final = re.compile(
    r"不一致|不符|矛盾|说法不同|两种说法|前后|更正|改口|对不上|出入|\b(?:inconsisten|contradict|conflict)",
    re.IGNORECASE,
)
"""Words that tell of two statements: the answer to a question about a conflict."""
_MANY: Final = 4
"""Sentences without a sign that a text may have before one aside no longer makes it an abstention."""
_REACH: Final = 14


class Abstention(NamedTuple):
    """Whether a text declines to answer, and the words that say so; ``reason`` names why it does not."""

    abstains: bool
    sign: str | None = None
    reason: str | None = None


def signs_of_not_knowing(text: str) -> list[re.Match[str]]:
    """Return the signs of not knowing in a `plain` text that nothing before them turns around."""
    if _HINT.search(text) is None:
        return []
    return [match for match in _SIGN.finditer(text) if not _is_guarded(text, match)]


def _is_guarded(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - _REACH) : match.start()]
    after = text[match.end() : match.end() + 2]
    if _ASKED.search(after[:1]) or after.startswith(("吗", "么")):
        return True
    if match["chinese"] is None:
        long_before = text[max(0, match.start() - 3 * _REACH) : match.start()]
        return bool(
            _NEGATED_ENGLISH.search(long_before)
            or _QUESTIONED.search(long_before)
            or _CONDITION.search(long_before)
        )
    if match.group().startswith(("没有", "没")) and before.endswith("有"):
        return True  # 有没有
    return bool(_NEGATED.search(before) or _QUESTIONED.search(before) or _CONDITION.search(before))


def segments_of(text: str) -> list[str]:
    """Return the sentences of a `plain` text, divided before but, however, 但, 不过 as well."""
    found: list[str] = []
    for sentence in sentences(text):
        starts = [match.start() for match in _CONTRAST.finditer(sentence) if match.start()]
        found.extend(sentence[a:b] for a, b in zip([0, *starts], [*starts, len(sentence)], strict=True))
    return [segment for segment in found if fold(segment)]


def _shared(segment: str, question: frozenset[str]) -> int:
    return len(question.intersection(_bigrams(segment)))


def _bigrams(text: str) -> frozenset[str]:
    folded = fold(_COMMON.sub("", text))
    pairs = (folded[place : place + 2] for place in range(len(folded) - 1))
    return frozenset(pair for pair in pairs if pair.isalpha())


def recognize_abstention(text: str, question: str = "") -> Abstention:  # noqa: PLR0911 - one a reason
    """Say whether an answer declines to answer the question.

    A sign of not knowing in the first sentence decides, unless a guess follows it. In a later sentence it
    decides when that sentence is nearer to the question than the first one is, by the pairs of characters
    they share, or as near when the answer does not begin with yes or no.
    """
    shown = plain(text)
    folded = fold(shown)
    if not folded:
        return Abstention(abstains=False, reason="empty")
    if folded in _BARE:
        return Abstention(abstains=True, sign=shown.strip())
    if not _SIGN.search(shown):
        return Abstention(abstains=False, reason="no_sign")
    unquoted = "".join(_outside_quotes(shown))
    if _CONFLICT.search(unquoted) and not signs_of_not_knowing(unquoted):
        return Abstention(abstains=False, reason="tells_a_conflict")
    parts = segments_of(shown)
    signs = [next(iter(signs_of_not_knowing(part)), None) for part in parts]
    told = [place for place, sign in enumerate(signs) if sign is not None]
    if not told:
        return Abstention(abstains=False, reason="double_negation_or_question")
    place = told[0]
    sign = signs[place]
    if place:
        place, sign = _nearest(parts, signs, question)
        if sign is None:
            return Abstention(abstains=False, reason="beside_the_point")
    elif leading_polarity(parts[0]) is True:
        return Abstention(abstains=False, reason="answers_yes")
    beside = sign is not None and _GUESS_BESIDE.search(parts[place], sign.end())
    if beside or any(
        signs[later] is None and _GUESS.search(parts[later]) for later in range(place + 1, len(parts))
    ):
        return Abstention(abstains=False, reason="guesses")
    return Abstention(abstains=True, sign=None if sign is None else sign.group())


def _outside_quotes(text: str) -> Iterator[str]:
    done = 0
    for quoted in quotations(text):
        if quoted.start >= done:
            yield text[done : quoted.start]
            done = quoted.end
    yield text[done:]


def _nearest(
    parts: list[str], signs: list[re.Match[str] | None], question: str
) -> tuple[int, re.Match[str] | None]:
    """Return the place and the sign of a later sentence that answers the question, if one does."""
    asked = _bigrams(plain(question))
    silent = [_shared(part, asked) for part, sign in zip(parts, signs, strict=True) if sign is None]
    if len(silent) > _MANY:
        return 0, None
    floor = max(silent) + (leading_polarity(parts[0]) is not None)
    best = max(
        (place for place, sign in enumerate(signs) if sign is not None),
        key=lambda place: (_shared(parts[place], asked), -place),
    )
    return (best, signs[best]) if _shared(parts[best], asked) >= floor else (0, None)


ValueT = TypeVar("ValueT")

_DENIED: Final = re.compile(
    r"(?:不是|并非|而非|而不是|不等于|不到|不足|不止|不只|超过|多于|少于|高于|低于|没有|并没有|未|非)(?:达到?|满)?$"
    r"|\b(?:not|never|rather than|instead of|isn't|wasn't|(?:more|less|fewer) than)\s(?:the\s|in\s|on\s)?$",
    re.IGNORECASE,
)
_NOT_DONE: Final = re.compile(
    r"(?:没有?|未曾?|不曾)(?:给|收|付|支付|退|转|借|还|归还|拿|花|用|取|赔|收到|拿到)(?:了|过)?$"
)
_UNDONE: Final = re.compile(r"没|未|不|\bnot\b|n't\b|\bun\w", re.IGNORECASE)
"""A question about what was not done, which 没有还12万元 answers."""
_INEXACT: Final = re.compile(
    rf"(?<![{NUMERALS}\d])(?<![{NUMERALS}\d][.,，])[{NUMERALS}\d][{NUMERALS}\d.,，]*+\s?"
    r"(?:[多几]|余(?![额款下部])|来(?=[百千万亿元块个人名位次天年]))[百千万亿]*"
)
"""A figure that is not the whole of what is meant: 十几, 20多万, 100余."""
_DENIED_AFTER: Final = re.compile(
    r"(?:的说法)?(?:是|为)?(?:不对|错误|不正确|有误|不实|是错的)|\?\s?(?:no|不)\b", re.IGNORECASE
)
_NAMED: Final = re.compile(
    r"(?:总共|共计|合计|一共|总计|总额|总数|总金额|累计|合共|总和|总量|共有?|答案|最终|结论"
    r"|\btotal(?:l?ing|led)?\b|\bin (?:all|total)\b|\baltogether\b|\banswer\b|\bsum\b)"
    r"[^。;!?\n\d]{0,10}$",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"其中|包括|包含|分别|分为|\bof which\b|\bincluding\b|\bnamely\b|\bconsisting of\b", re.IGNORECASE
)
_EITHER: Final = re.compile(
    r"\s*(?:[、,/~-]|或者?|还是|到|至|or|to|and|和|及|与)\s*(?:者|是|可能是|约)?\s*", re.IGNORECASE
)
_BEFORE: Final = 24
_FEWEST_PARTS: Final = 2
_MOST: Final = 100
"""Candidates among which one is looked for; an answer with more lists figures and gives none."""


class Chosen(NamedTuple, Generic[ValueT]):
    """A value, or None with the reason why there is none; ``candidates`` are all that were considered."""

    value: ValueT | None
    reason: str
    candidates: tuple[ValueT, ...] = ()


class Told:
    """An answer's text taken apart once, for every field that is asked of it."""

    def __init__(self, text: str, question: str = "") -> None:
        self.text = ordering_masked(_INEXACT.sub("\0", text))
        self.question = question
        self._known: dict[tuple[int, int], bool] = {}

    @cached_property
    def facts(self) -> list[Fact]:
        """The facts of the answer that it does not deny."""
        return [fact for fact in facts_in(self.text, names=False, indefinite=True) if not self.denies(fact)]

    @cached_property
    def asked(self) -> list[Fact]:
        """The facts of the question."""
        return find_facts(self.question, names=False) if self.question else []

    @cached_property
    def unit(self) -> str | None:
        """The unit that the question asks a count of (几次, how many times), canonical; None for none."""
        match = UNIT_ASKED.search(ordering_masked(self.question))
        return None if match is None else canonical_unit(match["unit"] or match["noun"] or "")

    def denies(self, fact: Fact) -> bool:
        """Say whether the answer denies a fact, or says of it that nothing is known."""
        before = self.text[max(0, fact.start - _BEFORE) : fact.start]
        undone = _NOT_DONE.search(before) and not _UNDONE.search(self.question)
        if undone or _DENIED.search(before) or _DENIED_AFTER.match(self.text, fact.end):
            return True
        span = between_marks(self.text, fact.start, fact.end, CLAUSE_MARKS)
        if span not in self._known:
            self._known[span] = bool(signs_of_not_knowing(self.text[span[0] : span[1]]))
        return self._known[span]


def _single(facts: Sequence[Fact]) -> bool:
    return len({fact.value for fact in facts}) == 1


def _named(told: Told, facts: Sequence[Fact], every: Sequence[Fact]) -> list[Fact]:
    """Return the candidates that the words before them name as total or as the answer."""
    return [
        fact
        for fact in facts
        if _NAMED.search(told.text[max(0, fact.start - _BEFORE) : fact.start])
        and not any(
            other.value != fact.value
            and other.start >= fact.end
            and _EITHER.fullmatch(told.text[fact.end : other.start])
            for other in every
        )
    ]


def _not_asked(told: Told, facts: Sequence[Fact]) -> list[Fact]:
    asked = {fact.value for fact in told.asked}
    return [fact for fact in facts if fact.value not in asked]


def _not_parts(told: Told, facts: Sequence[Fact]) -> list[Fact]:
    kept = []
    for fact in facts:
        start, _ = between_marks(told.text, fact.start, fact.end, SENTENCE_MARKS)
        if not _PART.search(told.text[start : fact.start]):
            kept.append(fact)
    return kept


def _sums(_: Told, facts: Sequence[Fact]) -> list[Fact]:
    """Return the one amount that the others add up to."""
    values = [_value(fact) for fact in facts]
    for place, fact in enumerate(facts):
        rest = values[:place] + values[place + 1 :]
        if len(rest) >= _FEWEST_PARTS and math.isclose(sum(rest), values[place], rel_tol=1e-9):
            return [fact]
    return []


def _value(fact: Fact) -> float:
    return fact.value if isinstance(fact.value, float) else math.nan


_Narrowing = Callable[[Told, Sequence[Fact]], list[Fact]]


def _choose(told: Told, facts: Sequence[Fact], narrowings: Iterable[_Narrowing]) -> Fact | str:
    """Return the one fact that is meant, or the reason why there is none."""
    if not facts:
        return "none_found"
    if _single(facts):
        return facts[0]
    if len(facts) > _MOST:
        return "several_candidates"
    for narrow in narrowings:
        kept = narrow(told, facts)
        if kept and _single(kept):
            return kept[0]
    return "several_candidates"


def _numeric(told: Told, facts: Sequence[Fact], *, sums: bool) -> Chosen[float]:
    def named(told: Told, kept: Sequence[Fact]) -> list[Fact]:
        return _named(told, kept, facts)

    narrowings: list[_Narrowing] = [named, _not_asked, _not_parts]
    if sums:
        narrowings.append(_sums)
    chosen = _choose(told, facts, narrowings)
    values = tuple(dict.fromkeys(_value(fact) for fact in facts))
    if isinstance(chosen, str):
        return Chosen(None, chosen, values)
    return Chosen(_value(chosen), "extracted", values)


def amounts(told: Told) -> list[Fact]:
    """Return the sums of money that an answer gives; bare numbers when it names no unit of money."""
    money = [fact for fact in told.facts if fact.kind in ("amount", "number")]
    kept: list[Fact] = []
    for fact in reversed(money):
        beside = bool(kept) and _EITHER.fullmatch(told.text[fact.end : kept[-1].start]) is not None
        if fact.kind == "amount" or beside:  # 42000或43000元 are two amounts
            kept.append(fact)
    return kept[::-1] or money


def choose_amount(told: Told) -> Chosen[float]:
    """Return the sum of money that an answer gives."""
    return _numeric(told, amounts(told), sums=True)


def choose_breakdown(told: Told) -> Chosen[tuple[float, ...]]:
    """Return the parts that an answer divides a sum into; the sum itself, named or computed, is no part."""
    facts = amounts(told)
    if not facts:
        return Chosen(None, "none_found")
    if len(facts) > _MOST:
        return Chosen(None, "several_candidates")
    outside = _not_parts(told, facts)
    whole = _sums(told, facts) or _named(told, facts, facts) or (outside if len(outside) < len(facts) else [])
    parts = tuple(
        _value(fact) for fact in facts if len(facts) == 1 or fact.value not in [one.value for one in whole]
    )
    return Chosen(parts or None, "extracted" if parts else "none_found")


def counts(told: Told) -> list[Fact]:
    """Return the counts that an answer gives, of the unit that is asked for where it has any."""
    found = [fact for fact in told.facts if fact.kind == "count"]
    if told.unit:
        found = [fact for fact in found if fact.unit == told.unit] or found
    if "第几" not in told.question:
        found = [fact for fact in found if not told.text.startswith("第", fact.start)]
    definite = [fact for fact in found if fact.value != 1 or told.text[fact.start].isdigit()]
    return definite or found or [fact for fact in told.facts if fact.kind == "number"]


def choose_count(told: Told) -> Chosen[float]:
    """Return the number of things that an answer gives."""
    return _numeric(told, counts(told), sums=False)


def dates(told: Told) -> list[PartialDate]:
    """Return the dates that an answer gives, without those that only repeat a part of another one."""
    found = list(dict.fromkeys(found.date for found in dates_of(told.facts)))
    if len(found) > _MOST:
        return found
    return [date for date in found if not any(date != other and date.within(other) for other in found)]


def choose_date(told: Told) -> Chosen[PartialDate]:
    """Return the date that an answer gives."""
    found = dates(told)
    asked = {date.date for date in dates_of(told.asked)}
    kept = found if len(found) == 1 else [date for date in found if date not in asked]
    if len(kept) == 1:
        return Chosen(kept[0], "extracted", tuple(found))
    return Chosen(None, "several_candidates" if kept else "none_found", tuple(found))


def choose_range(told: Told) -> Chosen[FoundRange]:
    """Return the period that an answer gives: the only one in it, or from its first date to its second."""
    found = dates_of(told.facts)
    ranges = {(one.first, one.last): one for one in find_ranges(told.text, found)}
    if len(ranges) == 1:
        return Chosen(next(iter(ranges.values())), "extracted")
    if not ranges and len(found) == _FEWEST_PARTS:
        first, last = (one.date for one in found)
        if last.year is None:
            last = PartialDate(first.year, last.month or first.month, last.day)
        elif first.year is None:
            first = PartialDate(last.year, first.month, first.day)
        return Chosen(FoundRange(first, last, found[0].start, found[1].end), "extracted")
    return Chosen(None, "several_candidates" if found else "none_found")
