"""Offline judge: a deterministic proxy computed from the rubric detectors."""

from typing import ClassVar

from memfin.contracts import HEURISTIC_JUDGE, JudgeRequest, Verdict

LOWEST = 1.0
SPAN = 4.0


def heuristic_verdict(request: JudgeRequest) -> Verdict:
    """Return the heuristic judge's verdict, from the items that the detectors found in the reply."""
    required = request.rubric_required
    hits = [item for item in required if item in request.detected_items]
    share = len(hits) / len(required) if required else 0.0
    return Verdict(
        score=LOWEST + SPAN * share,
        rubric_items=hits,
        reason=f"{len(hits)} of {len(required)} required items detected",
    )


class HeuristicJudge:
    """A judge by the share of the required rubric items that the detectors found.

    All items give 5, none gives 1, linear between. It measures presence, not quality: its figures
    are comparable with each other, not with those of a model or a person.
    """

    name = HEURISTIC_JUDGE
    version: str | None = None
    per_turn: ClassVar[bool] = False

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict of `heuristic_verdict`."""
        return heuristic_verdict(request)

    async def close(self) -> None:
        """Do nothing; there are no resources."""
