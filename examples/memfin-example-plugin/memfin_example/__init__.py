"""An agent, a judge and a dataset that an installed package offers to MemFin."""

from collections.abc import Iterator
from typing import Any

from memfin.agents.protocol import Observer, Session
from memfin.contracts import JudgeRequest

__version__ = "0.1.0"  # part of a run's fingerprint

MARKET_RISK = "市场存在不确定性，本金可能亏损，过往业绩不代表未来收益。"


class ExampleAgent:
    """An agent that remembers the client's messages and always discloses the market risk."""

    def __init__(self, session: Session, observer: Observer) -> None:  # noqa: ARG002
        self._observer = observer
        self._messages: list[str] = []

    async def reply(self, user_text: str) -> str:
        """Return a reply; the earlier messages are its short-term memory."""
        self._observer.recall(query=user_text, short_term_context="\n".join(self._messages))
        self._messages.append(user_text)
        return f"已记录您的第 {len(self._messages)} 条需求。{MARKET_RISK}"

    async def commit(self, assistant_text: str) -> None:
        """Take in the reply of the turn."""
        self._messages.append(assistant_text)


def judge(request: JudgeRequest) -> dict[str, Any]:
    """Score a reply by the share of the required rubric items that the detectors found."""
    found = [item for item in request.rubric_required if item in request.detected_items]
    return {"score": 1 + round(4 * len(found) / max(1, len(request.rubric_required))), "rubric_items": found}


def dialogues() -> Iterator[dict[str, Any]]:
    """Yield dialogues of one turn pair."""
    profile = {"risk_level_gt": "稳健", "horizon_gt": "2年以上", "liquidity_need_gt": "中"}
    tags = {"explainability_rubric_gt": ["边界声明"]}
    reply = {"role": "assistant", "text": MARKET_RISK, "turn_tags": tags}
    for text in ("我是稳健型，想买股票基金。", "我是稳健型，想买黄金。"):
        yield {"dialog_id": text, "profile_gt": profile, "turns": [{"role": "user", "text": text}, reply]}
