"""Scenes in a reply: the choices of an exam question, and dialogues in which the client speaks."""

from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis

_EXAM: Final = late(
    r"\bexam\b|which of (?:these|them)|question \d|exercise \d|考试|习题|练习|"
    r"(?:下列|以下|下面)[^。\n]{0,14}(?:哪|选项|说法|表述|行为|做法|话术)|判断题|选择题|单选|多选|考题|"
    r"\b(?:which of the following|true or false|multiple choice|quiz)\b"
)
_OPTION: Final = late(r"[ \-*•]*[a-h][.、):] ?|[ \-*•]*[(（][a-h][)）]")
_EXAM_LINES: Final = 6


_CLIENT_LINE: Final = late(
    r"[ \-*•>]*(?:(?:客户|用户|投资者|提问者?|网友|学员)[^,。:\n]{0,4}|问|你(?:问|说)?|q|client|customer|"
    r"caller|user|investor)(?:\(\w{1,8}\))?:"
)
_LABEL: Final = 16
_ANSWERED_YES: Final = late(
    r"\s*[ \-*•>]*(?:[^:\n]{1,10}:)? *(?:真的|对(?!不)|没错|是的|当然|可以|千真万确|嗯|yes|right|of course|"
    r"absolutely|correct|true|"
    r"indeed|certainly)"
)


def staged(analysis: Analysis, start: int) -> bool:
    """Say whether the position stands in a choice of an exam question, or in a client's line."""
    norm = analysis.norm
    line = norm.rfind("\n", 0, start) + 1
    head = norm[line : min(start, line + _LABEL)]
    if ":" not in head and "." not in head and ")" not in head and "、" not in head:
        return False
    return _is_option(norm, line, start) or _asked_in_vain(norm, line, start)


def _is_option(norm: str, line: int, start: int) -> bool:
    """Say whether the line is a choice of an exam question."""
    if _OPTION.match(norm, line, start + 1) is None:
        return False
    first = line
    for _ in range(_EXAM_LINES):
        first = norm.rfind("\n", 0, max(first - 1, 0)) + 1
    return _EXAM.search(norm, first, line) is not None


def _asked_in_vain(norm: str, line: int, start: int) -> bool:
    """Say whether the line is a client's, and not answered with yes."""
    if _CLIENT_LINE.match(norm, line, start) is None:
        return False
    end = norm.find("\n", start)
    return end < 0 or _ANSWERED_YES.match(norm, end) is None
