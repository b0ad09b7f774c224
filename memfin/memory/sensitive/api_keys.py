"""API keys, tokens and passwords."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import load_vocabulary

_IS: Final = r"[\"'”’]?\s{0,3}(?:=>|:=|=|:|是|为|is|設為|设为|改成)\s{0,3}[\"'“‘]?"
_NAMED: Final = re.compile(
    r"(?:(?:api|app|access|secret|auth|client|private|account|consumer|bot|service|refresh|session|sign(?:ing)?)"
    r"[ _-]{0,2}(?:api[ _-]?)?(?:key(?:[ _-]?(?:id|secret))?|token|secret|密钥)|"
    r"(?<![a-z])(?:token|secret|apikey|bearer|"
    r"authorization|x-api-key|access_key_id|secretkey|key)(?![a-z])|密钥|密鑰|令牌|授权码|凭证|凭据)"
    + _IS
    + r"(?:bearer\s{1,2}|basic\s{1,2})?(?P<value>[A-Za-z0-9_\-+/=.~]{16,})",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?i)(?<![a-z])bearer\s{1,2}(?P<value>[A-Za-z0-9_\-+/=.~]{16,})")
_PASSWORD: Final = re.compile(
    r"(?:(?<![a-z])(?:password|passwd|passphrase|pwd|passcode|pin(?:[ ]code)?)|密码|口令|密碼)(?P<is>"
    + _IS
    + r")(?P<value>[!-~]{6,})",
    re.IGNORECASE,
)
_SHORTEST_PASSWORD: Final = 6
_FEWEST_LETTERS: Final = 3
_CHANGES: Final = 4
_DIGITS: Final = re.compile(r"\d{6,}")
_HEX_DIGEST: Final = re.compile(r"(?i)(?:sha-?(?:1|256|512)|md5|hash|checksum|摘要|哈希|校验)")
_PLACEHOLDERS: Final = re.compile(r"(?i)x{6,}|\*{4,}|your[_-]|example|placeholder|\.{3,}|<|changeme")


def api_keys(view: View) -> Iterator[Finding]:
    """Yield keys with a well-known prefix, and values that are set beside the name of a key or password."""
    for match in _prefixed().finditer(view.text):
        if _is_mixed(match[0]) or match.lastgroup in {"slack_hook", "url_password"}:
            yield _finding(view, str(match.lastgroup), match.start(), match.end())
    for pattern in (_NAMED, _BEARER):
        for match in pattern.finditer(view.text):
            if _is_random(match["value"]) and not _PLACEHOLDERS.search(match["value"]):
                yield _finding(view, "named_key", match.start("value"), match.end("value"))
    for match in _PASSWORD.finditer(view.text):
        if _is_password(match["value"]) and not _PLACEHOLDERS.search(match["value"]):
            yield _finding(view, "password", match.start("value"), match.end("value"))


@cache
def _prefixed() -> re.Pattern[str]:
    patterns = load_vocabulary().api_keys
    return re.compile(
        r"(?<![0-9A-Za-z_])(?:" + "|".join(f"(?P<{name}>{each})" for name, each in patterns.items()) + ")"
    )


def _is_mixed(value: str) -> bool:
    return any(each.isdigit() for each in value) or (value != value.lower() and value != value.upper())


def _is_random(value: str) -> bool:
    """Say whether a value has digits among letters, or letters of changing case, as prose has not."""
    letters = [each for each in value if each.isalpha()]
    changes = sum(one.isupper() and other.islower() for one, other in pairwise(letters))
    mixed = any(map(str.isdigit, value)) or changes >= _CHANGES
    return len(letters) >= _FEWEST_LETTERS and mixed and "//" not in value


def _is_password(value: str) -> bool:
    if _DIGITS.fullmatch(value):
        return True
    kinds = (str.isdigit, str.isalpha, lambda each: not each.isalnum())
    value = value.rstrip(".,;:!?)\"'")
    return (
        len(value) >= _SHORTEST_PASSWORD
        and sum(any(map(kind, value)) for kind in kinds) > 1
        and any(map(str.isdigit, value))
    )


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="api_key", rule=rule, start=begin, end=stop)
