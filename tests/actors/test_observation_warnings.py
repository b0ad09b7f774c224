"""Warnings of a run about observations: once per kind, and the replies are scored."""

from pathlib import Path
from typing import Any

import memfin
from memfin.contracts import Warned
from tests.support import dataset, read_jsonl


class Careless:
    """Misspells and misuses observations in every turn."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.observer = observer
        self.turn = 0

    async def reply(self, user_text: str) -> str:
        self.turn += 1
        match self.turn:
            case 1:
                self.observer.recall(query=user_text, memories=["稳健"])
            case 2:
                self.observer.recall(items=[{"item_id": 7}])
            case _:
                self.observer.compliance(violations=5)
        self.observer.profile(riskLevel="low", horizonYears=3)
        return "市场存在不确定性。"


async def test_each_kind_of_problem_is_a_warning_once_and_every_reply_is_scored(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 3)
    async with memfin.Evaluation(data, agent=Careless, runs_dir=tmp_path, run_id="r") as evaluation:
        warned = sorted([event.message async for event in evaluation if isinstance(event, Warned)])
    agent = f"agent {__name__}:Careless: turn"
    assert [line.removeprefix(agent).partition(";")[0] for line in warned] == [
        " 1: M2 reads no field of the profile (riskLevel, horizonYears)",
        " 1: unknown field of observation recall: `memories`",
        " 2: malformed observation recall: Expected `str | null`, got `int` - at `$.items[0].item_id`",
        " 3: malformed observation compliance: Expected `array`, got `int` - at `$.violations`",
    ]
    assert "it knows risk_level, investment_horizon, liquidity_need, constraints, " in warned[0]
    assert "known are query, short_term_context, " in warned[1]
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    assert [row["turn_status"] for row in rows] == ["ok"] * 9
