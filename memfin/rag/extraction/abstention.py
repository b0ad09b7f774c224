"""Recognizes answers that decline to answer, in Chinese and English (RAG benchmark schema, conflict_gap).

A sign of not knowing is looked for sentence by sentence. What only looks like one is set aside first:
double negations (没有忘记, 不是没有说明, not unknown), questions (是否不清楚), conditions. An answer that
starts with yes, one that guesses after declining, one that mentions a gap beside the point, and one that
tells of a conflict and quotes somebody who does not know are answers.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.rag.extraction.names import quotations
from memfin.rag.extraction.normalize import fold, plain
from memfin.rag.extraction.polarity import leading_polarity
from memfin.text.clauses import sentences

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
