"""Sums over everything that an LLM judge did in a run."""

from collections import Counter
from collections.abc import Iterable, Sequence

from memfin.contracts import JudgeRequest, JudgeStats, ParameterChange, Vote
from memfin.judges.panel import PanelAgreement
from memfin.judges.protocol import CacheCounts, Ruling


class JudgeTally:
    """Counts votes, attempts and tokens, and how far votes agree; the order does not matter."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._formats: Counter[str] = Counter()
        self._panel = PanelAgreement()

    def add(self, request: JudgeRequest, ruling: Ruling) -> None:
        """Count a ruling."""
        self.add_votes(ruling.votes)
        if len(ruling.votes) > 1:
            self.add_panel(request.rubric_required, request.constraints, ruling.votes)

    def add_votes(self, votes: Iterable[Vote]) -> None:
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

    def add_panel(self, rubric: Sequence[str], constraints: Sequence[str], votes: Sequence[Vote]) -> None:
        """Count how far the votes on one reply agree; one that failed leaves nothing to compare."""
        verdicts = [vote.verdict for vote in votes if vote.verdict is not None]
        if len(verdicts) == len(votes):
            self._panel.add(rubric, constraints, verdicts)

    @property
    def look_ups(self) -> CacheCounts:
        """Return the look-ups in a cache that the votes speak of, where there was a cache."""
        return CacheCounts(self._counts["cached"], self._counts["votes"] - self._counts["cached"])

    def statistics(
        self, cache: CacheCounts, warnings: list[str], parameters: Sequence[ParameterChange] = ()
    ) -> JudgeStats:
        """Return the sums so far."""
        spread = self._panel.spread()
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
            agreement=self._panel.agreement(),
            parameters=list(parameters),
            warnings=warnings,
        )
