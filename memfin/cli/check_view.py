"""Lines of ``memfin check``: one for each finding in a reply."""

from collections.abc import Iterator
from typing import Final

from memfin.contracts import CheckedFinding, CheckedReply
from memfin.sandbox.references import one_line
from memfin.text.lines import printable

LONGEST_WORDS: Final = 120
"""Characters of a reply that a line shows."""

_UNDECIDED: Final = "a proposal bears on it, and the rules do not decide it"


def lines_of(checked: CheckedReply, *, quiet: bool) -> Iterator[str]:
    """Yield a line for each finding: violations and contradictions, what is undecided, disclosures.

    ``quiet`` leaves out what is neither a violation nor a contradiction.
    """
    name = "" if checked.id is None else f"[{printable(checked.id)}]"
    disclosures = [each for each in checked.findings if each.kind == "disclosure"]
    for each in checked.findings[: len(checked.findings) - len(disclosures)]:
        yield f"{checked.file}:{each.line}{name}: {_told(each)}"
    if not quiet:
        for constraint in checked.undecided:
            yield f"{checked.file}:{checked.line}{name}: undecided {one_line(constraint)}: {_UNDECIDED}"
        for each in disclosures:
            yield f"{checked.file}:{each.line}{name}: {_told(each)}"


def _told(finding: CheckedFinding) -> str:
    shown = one_line(finding.words, LONGEST_WORDS)
    return f"{finding.kind} {one_line(finding.value)}: {shown} ({one_line(finding.rule)})"
