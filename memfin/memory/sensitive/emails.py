"""E-mail addresses, also with their signs spelt out."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from memfin.memory.sensitive.findings import Finding
from memfin.memory.sensitive.view import View
from memfin.memory.sensitive.vocabulary import load_vocabulary

_LOCAL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._%+&'-]{0,62}[A-Za-z0-9_+-])?"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(
    rf"(?P<local>{_LOCAL})@(?:{_LABEL}[.。])+(?P<top>[A-Za-z]{{2,24}}|xn--[a-z0-9-]+)"
)
_CHINESE_DOMAIN: Final = re.compile(
    r"[A-Za-z0-9一-鿿._-]{1,64}@[A-Za-z0-9一-鿿-]{1,63}[.。](?:中国|公司|网络|网址|中國)"
)
_OPENED: Final = r"\s{0,2}[\[({<【《]\s?"
_CLOSED: Final = r"\s?[\])}>】》]\s{0,2}"
_AT: Final = rf"(?:\s{{0,2}}@\s{{0,2}}|{_OPENED}(?:at|@|艾特){_CLOSED}|\s{{1,2}}(?:at|艾特)\s{{1,2}}|艾特)"
_DOT: Final = rf"(?:\s{{0,2}}[.。]\s{{0,2}}|{_OPENED}(?:dot|\.|点){_CLOSED}|\s{{1,2}}(?:dot|点)\s{{1,2}}|点)"
_REMOTE: Final = re.compile(r"(?::|/)[A-Za-z0-9._~-]+")


@cache
def _spelt() -> re.Pattern[str]:
    tops = "|".join(sorted(load_vocabulary().email.common_domains))
    return re.compile(
        rf"(?P<local>{_LOCAL}){_AT}(?P<domain>{_LABEL}(?:{_DOT}{_LABEL}){{0,3}}{_DOT}(?P<top>{tops}))(?![A-Za-z0-9-])",
        re.IGNORECASE,
    )


def emails(view: View) -> Iterator[Finding]:
    """Yield e-mail addresses; names of assets (``icon@2x.png``) and remotes (``git@host:path``) are none."""
    vocabulary = load_vocabulary().email
    if "@" in view.text:
        for match in _ADDRESS.finditer(view.text):
            if match["top"].lower() in vocabulary.not_domains:
                continue
            if match["local"] == "git" and _REMOTE.match(view.text, match.end()):
                continue
            yield _finding(view, "address", match.start(), match.end())
        for match in _CHINESE_DOMAIN.finditer(view.text):
            yield _finding(view, "chinese_domain", match.start(), match.end())
    for match in _spelt().finditer(view.text):
        if match["local"] == "git" and _REMOTE.match(view.text, match.end()):
            continue
        if "@" in match[0] or _is_spelt(match):
            yield _finding(view, "spelt_out", match.start(), match.end())


def _is_spelt(match: re.Match[str]) -> bool:
    """Say whether both signs are marked or spelt: "meet at amazon.com" is a sentence."""
    between = match[0][len(match["local"]) : match.start("domain") - match.start()]
    return (
        any(sign in between for sign in "[({<【《")
        or re.search(r"(?i)\bdot\b|点", match["domain"]) is not None
    )


def _finding(view: View, rule: str, start: int, end: int) -> Finding:
    begin, stop = view.span(start, end)
    return Finding(kind="email", rule=rule, start=begin, end=stop)
