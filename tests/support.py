"""What several tests share: small datasets and agents made on the spot."""

import functools
import inspect
import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from _pytest.mark.structures import ParameterSet
from anyio.lowlevel import checkpoint

LONG = bool(os.environ.get("TESTS_LONG"))
"""Whether tests that repeat or sample something do all of it."""


def length(short: int, full: int) -> int:
    """Return how often a test repeats something: ``full`` times with ``TESTS_LONG=1``."""
    return full if LONG else short


def on_use(name: str) -> Any:
    """Return a module that is imported when a test uses it, not by each worker that collects the tests."""

    class Module:
        def __getattr__(self, attribute: str) -> Any:
            if attribute.startswith("_"):  # pytest looks for them in whatever it finds
                raise AttributeError(attribute)
            return getattr(import_module(name), attribute)

    return Module()


def each_case(
    names: str | Sequence[str], cases: Iterable[Any], ids: object = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a plain function for every case within one test; what fails says of which cases it comes.

    Takes what ``pytest.mark.parametrize`` takes, for functions of many cases that need no fixture: a test
    of its own costs more than such a case.
    """
    del ids
    fields = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    rows = [
        case.values if isinstance(case, ParameterSet) else (case,) if len(fields) == 1 else case
        for case in cases
    ]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test, updated=())
        def run_all(**more: Any) -> None:
            failures = []
            for row in rows:
                case = dict(zip(fields, row, strict=True))
                try:
                    test(**case, **more)
                except Exception as failure:  # noqa: BLE001 - told below, with those of the other cases
                    failure.add_note(f"case: {case!r}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} cases failed", failures)

        # pytest takes the names of fixtures from the signature.
        run_all.__signature__ = signature_without(test, fields)  # type: ignore[attr-defined]
        return run_all

    return decorated


def signature_without(test: Callable[..., None], names: Sequence[str]) -> inspect.Signature:
    """Return a function's signature without the parameters of those names."""
    whole = inspect.signature(test)
    return whole.replace(parameters=[each for each in whole.parameters.values() if each.name not in names])


def unmeasured() -> dict[str, str]:
    """Return the environment without what has a child process measure its coverage.

    Measuring takes memory and files of its own, which some tests count or forbid.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, in Python and in C, which no other process can change."""
    count = 0

    def see(frame: object, event: str, arg: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


TAGS: dict[str, Any] = {
    "memory_required_keys_gt": ["profile_gt.risk_level_gt", "profile_gt.constraints_gt[0]"],
    "risk_disclosure_required_gt": ["市场不确定性"],
    "compliance_label_gt": "compliant",
    "explainability_rubric_gt": ["信息依据", "边界声明"],
}


def dialog(dialog_id: str, turns: int = 3, **changes: Any) -> dict[str, Any]:
    """Return a valid dialogue of that many pairs."""
    spoken: list[dict[str, Any]] = []
    for number in range(1, turns + 1):
        spoken += [
            {
                "role": "user",
                "text": f"{dialog_id}：我是稳健型，不使用杠杆，第{number}个问题怎么办？",
                "turn_tags": None,
            },
            {
                "role": "assistant",
                "text": f"第{number}个回答：市场存在不确定性，仅供参考。",
                "turn_tags": dict(TAGS),
            },
        ]
    return {
        "dialog_id": dialog_id,
        "scenario_type": "资产配置",
        "difficulty": "easy",
        "language": "zh",
        "profile_gt": {
            "risk_level_gt": "稳健",
            "horizon_gt": "2年以上",
            "liquidity_need_gt": "中",
            "constraints_gt": ["不使用杠杆"],
            "preferences_gt": ["宽基指数基金"],
        },
        "turns": spoken,
        **changes,
    }


def write_jsonl(path: Path, objects: Sequence[object]) -> Path:
    """Write one JSON object a line and return the path."""
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects), "utf-8")
    return path


def dataset(path: Path, dialogs: int, turns: int = 3) -> Path:
    """Write a dataset of distinct dialogues and return its path."""
    return write_jsonl(path, [dialog(f"d{number:04}", turns) for number in range(dialogs)])


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSONL file."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


class WanderingAgent:
    """Answers each turn differently, after a few random trips through the loop."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._session = session
        self._observer = observer
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        for _ in range(random.randrange(4)):
            await checkpoint()
        number = int(self._session.dialog_id.removeprefix("d"))
        self._observer.recall(short_term_context=user_text if number % 3 else "", query=user_text)
        self._observer.profile(risk_level="medium" if number % 2 else "high", investment_horizon="long")
        if number % 5 == 0 and self._turn == 2:
            raise ValueError("this turn fails")
        hint = "市场存在不确定性，本金可能亏损。" if (number + self._turn) % 3 else "数据显示费用较低。"
        return f"{number}-{self._turn}：根据公开数据，{hint}以上仅供参考。"


DENSE = (
    "建议您把30%的资金投入沪深300ETF，其余70%买入债券；先买5万元，再买8万元，跌到10%就补仓20%。"
    "若行情不好，可加杠杆到1.5倍，"
)
"""Advice full of figures, as a sentence that does not end; one takes some milliseconds to score."""

ENDLESS = "".join(f"- 基金{number}：{number % 90 + 1}%\n" for number in range(100_000))
"""A list of more than a million characters, which takes many seconds to score."""
