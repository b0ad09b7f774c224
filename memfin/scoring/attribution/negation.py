"""Negation and its scope, in Chinese and English."""

from typing import Final

from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis

# Words that hold a negation sign without negating; they are consumed before the real ones.
_NOT_A_NEGATION: Final = (
    "不得不|不能不|不会不|不可不|不无|无不|无非|莫不|未尝不|未必不|不是不|并非不|并非没有|不是没有|"
    "不能说没有|不能说不|"
    "不仅|不但|不只|不单|不光|不妨|不断|不同|不错|不少|不久|不过|不论|不管|不止|不如|不一|"
    "不等(?![于同])|不[足够]|不良|不动产|不时|"
    "(?:并?不能|无法|难以|不可|无法|不会)(?:完全|彻底|根本)?(?:消除|避免|排除|杜绝|规避|免于|忽视|忽略|"
    "摆脱|抵御)|"
    "不容忽视|不排除|不利|不佳|不好|不振|不景气|不确定|不稳|不可抗|无论|无疑|无风险|无限|无忧|未来|"
    "未必|没准|没错|没问题|没关系|很|非银|非农|非标|除非|是非|毫无疑问|"
    "要不|不见得|差不多|了不起|对不起|莫过于|别人|别的|级别|类别|分别|个别|特别|区别|性别|"
    r"难道[^,。;!?\n]{0,6}?[不没]|without (?:[a-z]+ ){0,2}?(?:hesitation|doubt|reservation|question)\b|"
    r"为什么不(?=[用试买配来拿](?![了能起]))|(?<![a-z,;:] )(?<![a-z,;:])(?:is|are|would|should) not |"
    r"不(?=[^,。;!?\n]{1,30},还等)|(?:什么理由|凭什么|干嘛|何)不|(?:do not|never|need not|"
    r"no need to) (?:hesitate|be afraid|be shy|wait|worry)|(?:not|never|hardly) (?:reckless|unreasonable|"
    r"wrong|too (?:much|bold|risky|late)|a bad idea|crazy|unwise|risky|so terrible)|why not|why don't|"
    r"not only|no doubt|该不该|要不要|应不应|值不值|no secret(?= that)|no better|mistake not|"
    r"nothing better|"
    r"nothing but|"
    r"no\. ?[0-9]|not just|none other|no (?:denying|getting around|escaping|hiding|disputing)"
)
_NEGATION: Final = (
    "并不是|并不|并非|并没有|并未|不是|不会|不能|不可能|不可|不得|不应|不该|不宜|不要|不必|不需|不用|"
    "不再|不构成|不代表|不等于|不意味|不存在|不提供|不建议|不推荐|不接受|不承诺|不保证|不作|不做|不敢|"
    "不想|不打算|没有|无法|"
    "无权|难以|难言|很难|绝非|绝不|"
    "从不|从未|未曾|尚未|谈不上|算不上|称不上|说不上|毫无|毫不|别|勿|拒绝|避免|杜绝|禁止|严禁|"
    "远离|回避|不|没|无|未|非|别|莫|"
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|can't|won't|don't|doesn't|didn't|"
    r"isn't|aren't|wasn't|shouldn't|wouldn't|couldn't|mustn't|hardly|rarely|avoid|refuse)\b"
)
_NEGATOR: Final = compile_pattern(f"(?:{_NOT_A_NEGATION})|(?P<negation>{_NEGATION})")
# Every negation has one of these in it; most spans have none beside them and need no closer look.
_NEGATION_SIGN: Final = late("[不没无未非别莫勿难拒避杜禁远回]")
_DENIAL_SIGN: Final = compile_pattern("[不没绝免假零0]| (?:is|are|do)")
_NEGATED_AFTER: Final = late(
    r"[^,。!?;:\n]{0,8}?(?:不存在|不可能(?=[的。,!;]|$)|不可信|不成立|不现实|不属实|不合规|不合法|没有的事|"
    r"谈不上|做不到|是假的|绝无|免谈|(?<!不)(?:为零|是零|等于零|几乎为0|为0(?![.0-9])))| (?:is|"
    r"are) (?:never|impossible)| (?:does|do) not exist"
)
_COORDINATION: Final = frozenset("也更又亦且或、和及")
_NEGATION_REACH: Final = 18


def negated(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the words at ``[start, end)`` of ``norm`` stand under a negation.

    The scope of a negation is the rest of its clause, within a short reach; enumerations (``、``) stay
    inside. Two negations cancel in Chinese (but not in a
    coordination: 不能也不会), and so do fixed forms such as 不得不 and 并非没有. A denial right
    behind the words (…的说法不成立) counts as well.
    """
    norm = analysis.norm
    chinese = start < len(norm) and norm[start] > "\u2e80"
    low, high = analysis.sentence_span(start)
    low = max(low, start - _NEGATION_REACH * (1 if chinese else 3))
    if not chinese or _NEGATION_SIGN.search(norm, low, start) is not None:
        low = max(low, analysis.clause_span(start, end)[0])
        signs = 0
        for match in apart(_NEGATOR, norm, low, start):
            if match["negation"] and not (signs and norm[match.start(1) - 1] in _COORDINATION):
                signs += 1
        if signs % 2 if chinese else signs:
            return True
    if _DENIAL_SIGN.search(norm, end, min(end + _NEGATION_REACH, high)) is None:
        return False
    return _NEGATED_AFTER.match(norm, end, high) is not None
