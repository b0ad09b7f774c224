"""What a reply only explains: what a word means, how a process goes, what an exam asks, what it costs."""

from typing import Final

from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis

_NEAR, _AHEAD = 24, 40
_OWN: Final = late(
    r"(?:建议|推荐)(?!书|材料)|不妨|不如|何不|我会|我建议|你可以|你就|值得|应该|试试|就(?:行|好)(?=[,。;!]|$)|"
    r"可以?(?:先|拿|把|用|考虑|买|配|投|加|做)|(?:融|借|贷)[满足]|"
    r"\b(?:(?:i|we)(?:'d| would)|(?:i|we) (?:suggest|recommend)|you (?:could|should|might)|consider|"
    r"why not)\b"
)
"""The sentence goes on to advise."""
_MEANS: Final = late(
    r"(?:是什么意思|什么意思|怎么理解|怎么算|怎么回事|何谓|什么叫|什么是|这个[词字]|术语|名词|字面|以[^,。;!?\n]{1,10}为例)[^。!?\n]{0,60}$|"
    r"\b(?:what (?:does )?[^.;!?\n]{1,40} means?|stands for|in plain (?:words|english)|by definition)\b"
    r"[^.!?\n]{0,80}$"
)
_PROCESS: Final = late(
    r"的?(?:大致|基本|一般|具体|完整|整个|操作|交易)?(?:的)?(?:流程|步骤|机制|原理|规则|算法|公式|逻辑|定义|含义|概念)"
    r"(?:大致|基本|一般|大概|其实|主要)?(?:上)?(?:是|为|如下|:|分)"
)
_EXAM: Final = compile_pattern(
    r"(?:考试|考点|考题|例题|常考|[这那]道题|题目|题干|教材|课本|科普|应试|备考|练习题|选择题|计算题|答案是|"
    r"\b(?:exam|textbook|quiz|syllabus|test question)s?\b)"
)
_RULE: Final = late(
    r"(?:保证金比例|担保比例|折算率|杠杆(?:倍数|比例)|质押率)[^。!?\n]{0,30}?(?:最多|上限|可以?|能)[^,。;!?\n]{0,3}$"
)
"""What a ratio of the rules allows at most."""
_COSTS: Final = late(
    r"[^.;!?\n]{0,40} (?:would|will|could|can|may|might) (?:cost|eat|burn) (?:you |up |into )?(?:over |"
    r"about |around |more than |some |up to )?[$£€¥]?\d|"
    r"[^,。;!?\n]{0,12},?(?:光|仅|单是)[^,。;!?\n]{0,6}(?:就|会|要|得)(?:要|会)?(?:花|吃|耗|亏|多花|多付|烧|磨)"
)


def explained(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` is only explained, in a sentence that goes on to no advice."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if not (
        _MEANS.search(norm, low, start)
        or _PROCESS.match(norm, end, high)
        or _COSTS.match(norm, end, high)
        or _RULE.search(norm, low, start)
        or _EXAM.search(norm, max(0, low - _NEAR), min(len(norm), high + _AHEAD))
    ):
        return False
    return _OWN.search(norm, low, high) is None
