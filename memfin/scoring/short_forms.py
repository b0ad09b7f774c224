"""English short forms are read in full, and longer wordings as the plain ones that say the same.

isn't is read as is not, ought to as should, roughly 20% as about 20%, US$20k as $20,000.
"""

from collections.abc import Iterator
from typing import Final

from memfin.scoring.patterns import late

_SHORT: Final = late(
    r"(?<![a-z'])(?<!why )(?:"
    r"(?:is|are|was|were|do|does|did|has|have|had|would|could|should|must|need|might)(?P<not>n't)|"
    r"(?:i|you|we|they|it|that|this|there|who)(?:(?P<are>'re)|(?P<will>'ll)|(?P<have>'ve))|"
    r"(?:it|that|there|here|what)(?P<is>'s)(?! (?:all |just |already |only |never |also |since |long )?"
    r"(?:been|got|had|gone|become|done|grown|lost|[a-z]{2,}(?:ed|en)\b))|"
    r"(?:i|you|we|they)(?P<would>'d)(?! (?:also |already |just |never )?"
    r"(?:better|been|had|said|told|made|set|got|[a-z]{2,}ed\b)))(?![a-z'])"
)
_SAME: Final = {
    "won't": "will not",
    "can't": "cannot",
    "can not": "cannot",
    "shan't": "shall not",
    "i'm": "i am",
    "ought to": "should",
    "ought not to": "should not",
    "in case": "if",
    "gonna": "going to",
    "wanna": "want to",
    **{f"our {house} would": "we would" for house in ("team", "desk", "firm", "house")},
    **{f"our team {verb}s": f"we {verb}" for verb in ("suggest", "recommend", "prefer", "like")},
}
_PLAINLY: Final = {"zero": "no", "own": "", "some": "about", "were": "", "you": "", "usd": "$", "k": ",000"}
_SAID_SO: Final = late(
    rf"(?<![a-z'])(?<!just )(?<!why )(?:{'|'.join(sorted(_SAME, key=len, reverse=True))})(?![a-z'])"
    r"(?! (?:of|know)\b)|(?<![a-z])(?P<zero>zero)(?= (?:way|chance|need|reason|doubt|question|point|room)\b)|"
    r"(?<=\byour)(?P<own> own)(?= (?:portfolio|bonds?|equity|stocks?|shares?|cash|savings|funds?|allocation|"
    r"mix|"
    r"house|home|parents|partner|spouse|cousin)\b| [$£€¥]?[0-9])|"
    r"(?<![a-z])(?P<were>if (?:i|we) were (?:you|in your (?:shoes|place|position)),? )(?=(?:i|we)\b)|"
    r"(?:(?<=\bi suggest)|(?<=\bwe suggest)|(?<=\bi recommend)|"
    r"(?<=\bwe recommend))(?P<you>(?: that)? you(?: should)?)(?= (?:hold|set|put|keep|go|"
    r"run|take|raise|use|build|move|allocate|buy|add|invest)\b)|"
    r"(?<![a-z])(?P<usd>usd ?|us\$ ?)(?=[0-9])|(?:(?<=[$£€][0-9])|(?<=[$£€][0-9]{2})|(?<=[$£€][0-9]{3})|"
    r"(?<=usd [0-9])|(?<=usd [0-9]{2})|(?<=usd [0-9]{3}))(?P<k>k)(?![a-z0-9])|"
    r"(?<![a-z])(?P<some>roughly|approximately|circa|some)"
    r"(?= [$£€¥]?[0-9]| an? (?:half|third|quarter|fifth|tenth)\b)"
)
"""Wordings that say no more than plainer ones."""
_SIGNS: Final = late(
    r"'[a-z]|ught |can not|in case|nna|our (?:team|desk|firm|house)|zero |your own |roughly|pproxim|"
    r"circa|some |i were |we were |suggest |recommend |us[d$]|[0-9]k"
)
"""Without these a text has none of them."""


def short_forms_in(norm: str) -> Iterator[tuple[int, int, str]]:
    """Yield where a contraction or a longer wording stands, and what it is in full or plainly."""
    if _SIGNS.search(norm) is None:
        return
    if "'" in norm:
        for match in _SHORT.finditer(norm):
            kind = match.lastgroup or ""
            yield (*match.span(kind), f" {kind}")
    for match in _SAID_SO.finditer(norm):
        plainly = match.lastgroup
        yield (*match.span(), _PLAINLY[plainly] if plainly else _SAME[match[0]])
