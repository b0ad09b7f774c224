"""Sums over everything that an LLM judge did in a run."""

from collections import Counter

from memfin.contracts import JudgeRequest, JudgeStats
from memfin.judges.panel import PanelAgreement
from memfin.judges.protocol import CacheCounts, Ruling


class JudgeTally:
    """Counts votes, attempts and tokens, and how far votes agree; the order does not matter."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._formats: Counter[str] = Counter()
        self._panel = PanelAgreement()

    def add(self, request: JudgeRequest, ruling: Ruling, *, control: bool = False) -> None:
        """Count a ruling; those on controls tell nothing about the agreement on the run's replies."""
        if not ruling.votes:
            return
        for vote in ruling.votes:
            self._counts["votes"] += 1
            self._counts["failed_votes"] += vote.verdict is None
            self._counts["attempts"] += vote.attempts
            self._counts["prompt_tokens"] += vote.prompt_tokens or 0
            self._counts["completion_tokens"] += vote.completion_tokens or 0
            if vote.verdict is not None and vote.response_format is not None:
                self._formats[vote.response_format] += 1
        verdicts = [vote.verdict for vote in ruling.votes if vote.verdict is not None]
        if not control and len(verdicts) == len(ruling.votes):
            self._panel.add(request, verdicts)

    def statistics(self, cache: CacheCounts, warnings: list[str]) -> JudgeStats:
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
            warnings=warnings,
        )
