"""What a reply says without advising it: other people's words, stories, questions, conditions, examples.

The questions are asked about a span of ``Analysis.norm``; `memfin.scoring.advice.advised` asks them first.
"""

from typing import Final

from memfin.scoring.attribution.actions import told_of, urged_on
from memfin.scoring.attribution.bystanders import passed_on
from memfin.scoring.attribution.explained import explained
from memfin.scoring.attribution.voices import attributed
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text import language
from memfin.scoring.text.language import Analysis, conditional

_OWN_VOICE: Final = compile_pattern(
    r"不过|但(?!愿)|然而|我(?:的)?(?:建议|倾向|推荐|觉得|认为|看|会|来)|(?<=[,。])建议|建议你|"
    r"\b(?:but|"
    r"however|still|(?:i|we)(?:'d| would)|(?:i|we) (?:suggest|recommend))\b"
)
QUESTION_END: Final = late(r"(?:\?|吗|呢)[ \"”’')」]*$")
_PROPOSES_IN_QUESTION: Final = compile_pattern(
    r"\bwould it be so\b|建议|推荐|不妨|不如|何不|"
    r"为什么不|干嘛不|要不|\b(?:recommend|suggest|(?:i|we)(?:'d| would)|why not|"
    r"why don't you|"
    r"how about)\b"
)
_WH: Final = compile_pattern(
    r"怎么|如何|(?<!为)什么|为什么(?!不)|哪|多少|\b(?:how(?! about)|what|which|why(?! not| do(?:n't|"
    r" not) you))\b"
)
_ASKS: Final = compile_pattern(
    r"是否|能否|可否|要不要|能不能|会不会|是不是|有没有|"
    r"(?<![的来选荐看说我也仍概许该终])还是(?![要得会应建首])(?!(?<=[,;]还是)[选买用推])"
)

_TITLE: Final = late(
    r"[^,。!?;:]{2,24}(?:基金|混合|股票|债券|债|产品|理财|etf|lof|fof|计划|持有|定开|"
    r"[一二三四五六12345]号|增利|稳进|精选|成长|指数|联接|"
    r"fund|trust|note|portfolio)[a-e]?"
)

_POLITELY: Final = late(
    r"(?:手痒|闲不住|不甘心|嫌[^,。;!?\n]{1,6})的话|"
    r"(?:如果|若)你(?:也|都)?(?:愿意|同意|不介意|不反对|认可|没(?:有)?意见|没问题|方便|有兴趣|点头|信得过我)"
    r"(?:的话)?,|\b(?:better off|best|wise) if you\b|\bif you (?:agree|like|wish|are (?:willing|happy|okay|"
    r"ok|fine|comfortable)"
    r"(?: with (?:that|it|this))?|do not mind|have no objections?)\b,?"
)
"""A condition that only asks for the client's consent: what follows is advice."""
_EXAMPLE: Final = compile_pattern(
    r"(?:比如|(?<!测试)(?<!情景)假设|想象(?![力空])|设想|试想|举例|举个例子|打个比方|"
    r"(?<!不)拿(?=[^,。;!?\n]{1,8}(?:来说|"
    r"来讲|打比方|作例))|算笔账|示例|演示|算例|e\.g\.|for example|"
    r"suppose|imagine)[^。!?\n]{0,24}$|设(?<![^。;\n]设)(?![计备施置立定法想在为个一])[^。!?\n]{0,60}$"
)


_IF_HELD: Final = late(
    r"(?:已有|已持有|持有|手[上里]有|拿着|买了)的?[^,。;]{0,4}$|\bif you (?:already |still |now )?(?:hold|"
    r"own|have)\b"
    r"[^,.;]{0,16}$"
)
_ADDS: Final = late(
    r"[^,。;!?\n]{0,8},(?![^。;!?\n]{0,12}[不别勿])[^。;!?\n]{0,12}(?:补仓|加仓|再买|补一笔|摊[低薄]|继续买)|"
    r"[^,.;!?\n]{0,24}, (?:then |just |i would |you (?:could|should|can) )?(?:buy|purchase|add|"
    r"get) (?:more\b|another|"
    r"some more|to it)"
)


def adds_to_held(norm: str, low: int, start: int, high: int) -> bool:
    """Say whether the client is to add to what he holds: 如果手上已有ST股,建议补仓."""
    end = min(high, start + 40)
    found = _ADDS.search(norm, start, min(len(norm), high)) if end > start else None
    return found is not None and _IF_HELD.search(norm, low, start) is not None


_SHORT: Final = 24
_EXAMPLE_BEFORE: Final = late(
    r"(?:算(?:一)?笔账|举个例子|打个比方|打个比喻|\b(?:for example|"
    r"by way of example))[^。!?\n]{0,4}[。!:.]\s*$"
)
"""A sentence that only announces an example."""


def disowned(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span is somebody else's, a question, a condition or an example: no word of advice."""
    if in_quotes(analysis, start, end) and not _is_title(analysis, start, end):
        return True
    return _told_or_asked(analysis, start, end) and not urged_on(analysis, start, end)


def taken_over(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the reply advises what it first only tells of or asks: you ask whether to buy it? Do."""
    return _told_or_asked(analysis, start, end) and urged_on(analysis, start, end)


def _told_or_asked(analysis: Analysis, start: int, end: int) -> bool:
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    return (
        told_of(analysis, start, end)
        or explained(analysis, start, end)
        or passed_on(analysis, start, end)
        or _COUNTERFACTUAL.search(norm, low, start) is not None
        or (
            conditional(analysis, start, end)
            and not _POLITELY.search(norm, low, start)
            and not adds_to_held(norm, low, start, high)
        )
        or _EXAMPLE.search(norm, low, start) is not None
        or _EXAMPLE_BEFORE.search(norm, max(0, low - _SHORT), low) is not None
        or _ASKS.search(norm, *analysis.clause_span(start, end)) is not None
        or _only_asked(norm, low, high)
        or (
            _others_advice(analysis, start, end)
            and not _OWN_VOICE.search(norm, _speaker(analysis, start), end)
        )
    )


def _others_advice(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words are others'; English advice in a that-clause may be the reply's own."""
    if analysis.norm[start] > "\u2e80":
        return attributed(analysis, start, end)
    return language.attributed(analysis, start, end)


def _speaker(analysis: Analysis, start: int) -> int:
    """Return where the last word of somebody's saying ends in front, else where the sentence begins."""
    low, _ = analysis.sentence_span(start)
    return max((end for first, end in analysis.speeches(start) if first < start), default=low)


_COUNTERFACTUAL: Final = late(
    r"\bif you ever (?:decide|want|wish|change|felt?|feel|allow|open|relax|lift|drop|become|agree)\b|"
    r"\b(?:if you were|were you) (?:ever )?(?:open|willing|prepared|comfortable|ready|happy)\b|\bhad you\b|"
    r"\bif you (?:had not|did not|changed your)\b|"
    r"\bwould have (?:suggested|recommended|put|picked|chosen|bought|purchased|proposed|given|gone)\b|"
    r"(?:(?:如果|要是|万一|等)[^,。;!?\n]{0,4}(?:哪天|将来|以后|日后|今后|某天|有一天)|"
    r"(?:哪天|将来|以后|日后|今后|某天|有一天)你)[^,。;!?\n]{0,10}(?:愿意|改变主意|改主意|放开|放宽|接受|"
    r"松口|想通|"
    r"允许)"
)
"""What would be advised if the client wished another thing than he does."""
_RHETORICAL: Final = late(
    r"还等什么|什么理由不|又何妨|有何不可|何乐而不为|^\s*what better\b|"
    r"^\s*(?:is|are|would) not [^?\n]{1,90}\b(?:exactly|precisely|just|simply|the very)\b|"
    r"\bis not it (?:obvious|clear|time)\b|"
    r"^(?![^?\n]{0,160}(?:吗|呢|是否|能否|要不要|该不该)[^?\n]{0,160},你)[^?\n]{20,200}"
    r",你(?:看|觉得)(?:这样|这么)?(?:安排|分配?|做)?(?:行不行|行吗|可以吗|可不可以|好不好|好吗|成吗)\?"
)
"""Questions that urge, and plans that end by asking for consent."""


def _only_asked(norm: str, low: int, high: int) -> bool:
    """Say whether a sentence asks without proposing anything."""
    if _RHETORICAL.search(norm, low, high) is not None:
        return False
    return QUESTION_END.search(norm, low, high) is not None and (
        _WH.search(norm, low, high) is not None or _PROPOSES_IN_QUESTION.search(norm, low, high) is None
    )


def in_quotes(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the span stands between quotation marks of its line."""
    if not analysis.quoting:
        return False
    norm = analysis.norm
    low = norm.rfind("\n", 0, start) + 1
    high = norm.find("\n", end)
    opened = norm.rfind("“", low, start)
    return (
        opened >= 0
        and norm.find("”", opened, start) < 0
        and norm.find("”", end, len(norm) if high < 0 else high) >= 0
    )


_NAME_LENGTH: Final = 12
_CALLED: Final = late(r"(?:叫做?|名为|俗称|称为|名叫)“$")


def _is_title(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the quotation is the name of a product: “睿选六个月持有混合”."""
    norm = analysis.norm
    low, high = norm.rfind("“", 0, start) + 1, norm.find("”", end)
    if 0 <= high - low <= _NAME_LENGTH and _CALLED.search(norm, max(0, low - 5), low):
        return True
    return high >= 0 and _TITLE.fullmatch(norm, low, high) is not None
