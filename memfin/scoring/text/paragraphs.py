"""Where paragraphs begin and end, be it at a blank line or inside a line that was joined of several."""

from memfin.scoring.text.language import Analysis


def begin(analysis: Analysis, position: int) -> int:
    """Return where the paragraph of the position begins."""
    blank = analysis.norm.rfind("\n\n", 0, position)
    return max([0 if blank < 0 else blank + 2, *(each for each in analysis.paragraphs if each <= position)])


def end(analysis: Analysis, position: int) -> int:
    """Return where the paragraph of the position ends."""
    blank = analysis.norm.find("\n\n", position)
    return min(
        [
            len(analysis.norm) if blank < 0 else blank,
            *(each for each in analysis.paragraphs if each > position),
        ]
    )


def together(analysis: Analysis, one: int, other: int) -> bool:
    """Say whether two positions stand in the same paragraph."""
    low, high = min(one, other), max(one, other)
    return high < end(analysis, low) or low == high
