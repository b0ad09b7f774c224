"""Runs in which no dialogue gets an agent: an error for whoever started them, with whole records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.errors import UsageError
from memfin.validation import validate_path
from tests.support import dataset, read_jsonl


class Broken:
    """Has no model to load, but for the dialogues of ``good``."""

    good: frozenset[str] = frozenset()

    def __init__(self, session: Any, observer: Any) -> None:
        if session.dialog_id not in self.good:
            raise RuntimeError(f"no model for {session.dialog_id}")

    async def reply(self, user_text: str) -> str:
        return "x"


class Mute:
    """An object that does not answer."""

    def __init__(self, session: Any, observer: Any) -> None:
        pass


def answer(one: Any, two: Any) -> Any:
    return one


@pytest.fixture(autouse=True)
def none_is_good() -> None:
    Broken.good = frozenset()


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Broken, "RuntimeError: no model for d000"),
        (Mute, "the factory returned an object of type Mute; expected an object with a reply method"),
        (answer, "the factory returned an object of type Session; expected an object with a reply method"),
    ],
)
async def test_a_run_without_any_agent_raises_and_keeps_its_records(
    tmp_path: Path, agent: Callable[..., Any], why: str
) -> None:
    data = dataset(tmp_path / "d.jsonl", 3)
    with pytest.raises(UsageError) as refused:
        await memfin.evaluate(data, agent=agent, runs_dir=tmp_path / "runs", run_id="r")
    message = str(refused.value)
    assert f": no turn of the 3 dialogues was answered: agent could not be created: {why}" in message
    assert len(message.splitlines()) == 1
    directory = tmp_path / "runs" / "r"
    assert list(validate_path(directory)) == []
    assert len(read_jsonl(directory / "dialog_trace.jsonl")) == 3
    assert (directory / "metrics_summary.json").exists()


async def test_a_resumed_run_without_any_agent_raises_until_one_answers(tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 3)
    with pytest.raises(UsageError):
        await memfin.evaluate(data, agent=Broken, runs_dir=tmp_path, run_id="r")
    evaluation = memfin.Evaluation.resume(tmp_path / "r", agent=Broken)
    with pytest.raises(UsageError, match="agent could not be created"):
        async with evaluation:
            pass
    Broken.good = frozenset({"d0001"})
    async with memfin.Evaluation.resume(tmp_path / "r", agent=Broken, retry_failed=True) as again:
        assert (await again.wait()).summary.counters.failed_dialogs == 2


async def test_a_run_in_which_one_dialogue_got_an_agent_is_a_result(tmp_path: Path) -> None:
    Broken.good = frozenset({"d0001"})
    data = dataset(tmp_path / "d.jsonl", 3)
    summary = (await memfin.evaluate(data, agent=Broken, runs_dir=tmp_path, run_id="r")).summary
    assert (summary.counters.valid_dialogs, summary.counters.failed_dialogs) == (3, 2)


async def test_an_agent_that_fails_every_turn_is_a_result(tmp_path: Path) -> None:
    class Raises(Mute):
        def reply(self, user_text: str) -> str:
            raise ValueError("no")

    data = dataset(tmp_path / "d.jsonl", 2)
    summary = (await memfin.evaluate(data, agent=Raises, runs_dir=tmp_path, run_id="r")).summary
    assert summary.counters.failed_dialogs == 2
