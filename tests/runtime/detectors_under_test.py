"""Detectors of users that processes for scoring import, without what their tests import."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import memfin


class Fees:
    """Finds the words of a fee."""

    name = "fees"
    version = "1.0"

    def detect(
        self, reply: str, *, user_text: str, constraints: Sequence[str]
    ) -> Iterator[memfin.Detection | Mapping[str, Any]]:
        assert user_text
        assert isinstance(constraints, list)
        if (place := reply.find("申购费")) >= 0:
            yield memfin.Detection(value="subscription", start=place, end=place + 3)
            yield {"value": "any", "start": place, "end": place + 3, "rule": "fee.word"}


class Severe(Fees):
    name = "severe"

    def detect(
        self, reply: str, *, user_text: str, constraints: Sequence[str]
    ) -> Iterator[memfin.Detection | Mapping[str, Any]]:
        yield memfin.Detection(value="fee", start=0, end=3, severity="severe")


class Failing(Fees):
    name = "failing"

    def detect(self, reply: str, *, user_text: str, constraints: Sequence[str]) -> Iterator[Any]:
        if "第二" in reply:
            raise SystemExit(3)
        return iter([{"value": "far", "start": 0, "end": 10_000}])


class Slow(Fees):
    name = "slow"

    def detect(self, reply: str, *, user_text: str, constraints: Sequence[str]) -> Iterator[Any]:
        if "第二" in reply:
            time.sleep(60)
        return super().detect(reply, user_text=user_text, constraints=constraints)


class Deadly(Fees):
    name = "deadly"

    def detect(self, reply: str, *, user_text: str, constraints: Sequence[str]) -> Iterator[Any]:
        if "第二" in reply:
            os._exit(7)
        return super().detect(reply, user_text=user_text, constraints=constraints)


class Nameless(Fees):
    name = "a name"


class Unversioned(Fees):
    version = 1  # type: ignore[assignment]


class Asynchronous(Fees):
    async def detect(self, reply: str, *, user_text: str, constraints: Sequence[str]) -> Any:  # type: ignore[override]
        return []


class Broken(Fees):
    def __init__(self) -> None:
        raise ValueError("no lexicon")


def tag_of(name: str) -> str | None:
    return {"市场不确定性": "policy_risk", "波动风险": "no tag"}.get(name)


OTHER = type("Fees", (Fees,), {"__module__": __name__})
"""Another class under the name of one in this module."""
