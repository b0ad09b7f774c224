"""Sums over everything that an LLM judge did in a run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from memfin.contracts import (
    JudgeAgreement,
    JudgeRequest,
    JudgeStats,
    ParameterChange,
    Verdict,
    Vote,
)
from memfin.judges.panel import PanelAgreement
from memfin.judges.protocol import CacheCounts, JudgeResult


class Panel(Protocol):
    """Tells how far the votes on the same things agree."""

    def agreement(self) -> dict[str, JudgeAgreement]:
        """Return the agreement on everything that was voted on; empty without several votes."""
        ...

    def spread(self) -> tuple[float, float] | None:
        """Return the mean and the highest spread of the scores, None without several votes."""
        ...


class VoteTally:
    """Counts votes, attempts and tokens, whatever they are about; the order does not matter."""

    def __init__(self, panel: Panel) -> None:
        """Prepare; ``panel`` tells in the end how far the votes agree."""
        self._counts: Counter[str] = Counter()
        self._formats: Counter[str] = Counter()
        self._votes = panel

    def add_votes(self, votes: Iterable[Vote[Any]]) -> None:
        """Count what votes took."""
        for vote in votes:
            self._counts["votes"] += 1
            self._counts["failed_votes"] += vote.verdict is None
            self._counts["cached"] += vote.cached
            self._counts["attempts"] += vote.attempts
            self._counts["prompt_tokens"] += vote.prompt_tokens or 0
            self._counts["completion_tokens"] += vote.completion_tokens or 0
            if vote.verdict is not None and vote.response_format is not None:
                self._formats[vote.response_format] += 1

    @property
    def look_ups(self) -> CacheCounts:
        """Return the look-ups in a cache that the votes speak of, where there was a cache."""
        return CacheCounts(self._counts["cached"], self._counts["votes"] - self._counts["cached"])

    def statistics(
        self, cache: CacheCounts, warnings: list[str], parameters: Sequence[ParameterChange] = ()
    ) -> JudgeStats:
        """Return the sums so far."""
        spread = self._votes.spread()
        return JudgeStats(
            votes=self._counts["votes"],
            failed_votes=self._counts["failed_votes"],
            attempts=self._counts["attempts"],
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            cache_damaged=cache.damaged,
            prompt_tokens=self._counts["prompt_tokens"],
            completion_tokens=self._counts["completion_tokens"],
            response_formats=dict(sorted(self._formats.items())),
            spread_mean=spread[0] if spread else None,
            spread_max=spread[1] if spread else None,
            agreement=self._votes.agreement(),
            parameters=list(parameters),
            warnings=warnings,
        )


class JudgeTally(VoteTally):
    """Counts the votes on replies of dialogues, and how far they agree."""

    def __init__(self) -> None:
        self._panel = PanelAgreement()
        super().__init__(self._panel)

    def add(self, request: JudgeRequest, result: JudgeResult[Verdict]) -> None:
        """Count a result."""
        self.add_votes(result.votes)
        if len(result.votes) > 1:
            self.add_panel(request.rubric_required, request.constraints, result.votes)

    def add_panel(
        self, rubric: Sequence[str], constraints: Sequence[str], votes: Sequence[Vote[Verdict]]
    ) -> None:
        """Count how far the votes on one reply agree; one that failed leaves nothing to compare."""
        verdicts = [vote.verdict for vote in votes if vote.verdict is not None]
        if len(verdicts) == len(votes):
            self._panel.add(rubric, constraints, verdicts)
