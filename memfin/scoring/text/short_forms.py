"""English short forms are read in full, and longer wordings as the plain ones that say the same.

isn't is read as is not, ought to as should, roughly 20% as about 20%, US$20k as $20,000.
"""

from typing import Final

_END: Final = r"(?![a-z'])"
_NOT: Final = (
    "is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "would", "could", "should", "must",
    "need", "might",
)  # fmt: skip
_SOMEBODY: Final = ("i", "you", "we", "they", "it", "that", "this", "there", "who")
_NO_IS: Final = (
    r"(?! (?:all |just |already |only |never |also |since |long )?"
    r"(?:been|got|had|gone|become|done|grown|lost|[a-z]{2,}(?:ed|en)\b))"
)
_NO_WOULD: Final = (
    r"(?! (?:also |already |just |never )?(?:better|been|had|said|told|made|set|got|[a-z]{2,}ed\b))"
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
_DEALS: Final = r"(?= (?:hold|set|put|keep|go|run|take|raise|use|build|move|allocate|buy|add|invest)\b)"
_OWNED: Final = (
    r"(?= (?:portfolio|bonds?|equity|stocks?|shares?|cash|savings|funds?|allocation|mix|house|home|parents|"
    r"partner|spouse|cousin)\b| [$£€¥]?[0-9])"
)
_IN_YOUR_PLACE: Final = r" (?:you|in your (?:shoes|place|position)),? (?=(?:i|we)\b)"
_MONEY: Final = "".join(
    f"|(?<={sign}{digits})" for sign in ("[$£€]", "usd ") for digits in ("", "[0-9]", "[0-9]{2}")
).removeprefix("|")


def _behind(*words: str) -> str:
    """Return an assertion that one of the words ends here, and is no question with why."""
    ends = [rf"(?<=\b{word})(?<!why {word})" for word in words]
    return f"(?:{'|'.join(ends)})"


SHORT_FORMS: Final[tuple[tuple[str, str, str], ...]] = (
    ("n't", f"{_behind(*_NOT)}n't{_END}", " not"),
    ("'re", f"{_behind(*_SOMEBODY)}'re{_END}", " are"),
    ("'ll", f"{_behind(*_SOMEBODY)}'ll{_END}", " will"),
    ("'ve", f"{_behind(*_SOMEBODY)}'ve{_END}", " have"),
    ("'s", f"{_behind('it', 'that', 'there', 'here', 'what')}'s{_NO_IS}{_END}", " is"),
    ("'d", f"{_behind('i', 'you', 'we', 'they')}'d{_NO_WOULD}{_END}", " would"),
    *(
        (short, rf"(?<![a-z'])(?<!just )(?<!why ){short}{_END}(?! (?:of|know)\b)", full)
        for short, full in _SAME.items()
    ),
    ("zero ", r"(?<![a-z])zero(?= (?:way|chance|need|reason|doubt|question|point|room)\b)", "no"),
    ("your own ", rf"(?<![a-z])your own{_OWNED}", "your"),
    ("if i were", rf"(?<![a-z])if i were{_IN_YOUR_PLACE}", ""),
    ("if we were", rf"(?<![a-z])if we were{_IN_YOUR_PLACE}", ""),
    *(
        (f"{verb} {that}you", rf"(?:(?<=\bi )|(?<=\bwe )){verb} {that}you(?: should)?{_DEALS}", verb)
        for verb in ("suggest", "recommend")
        for that in ("", "that ")
    ),
    ("usd", "(?<![a-z])usd ?(?=[0-9])", "$"),
    ("us$", r"(?<![a-z])us\$ ?(?=[0-9])", "$"),
    *((f"{digit}k", rf"(?:{_MONEY}){digit}k(?![a-z0-9])", f"{digit},000") for digit in range(10)),
    *(
        (word, rf"(?<![a-z]){word}(?= [$£€¥]?[0-9]| an? (?:half|third|quarter|fifth|tenth)\b)", "about")
        for word in ("roughly", "approximately", "circa", "some")
    ),
)
"""What each begins with, the pattern that matches there, and what is read in its place."""
