"""Statistics of a judge: votes, their agreement, and failed judgements.

Agreement is Krippendorff's alpha, from mergeable exact sums. For every unit with ``m >= 2`` votes, each
ordered pair of votes from different voters adds ``1 / (m - 1)`` to the coincidence ``o[c, k]`` of its two
values. With ``n[c]`` the sum of row ``c`` and ``n`` the sum of all::

    alpha = 1 - (n - 1) * sum(o[c, k] * d(c, k)) / sum(n[c] * n[k] * d(c, k))

where ``d(c, k)`` is 1 for unequal values (nominal) or ``(c - k) ** 2`` (interval). Alpha is 1 for
perfect agreement, 0 for chance, and negative below that. It is undefined when all votes are alike.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import UNSET

from memfin.contracts import (
    JudgeAgreement,
    JudgeRequest,
    JudgeScope,
    JudgeStats,
    ParameterChange,
    RunStats,
    TurnEvalRow,
    Verdict,
    Vote,
    was_asked,
)
from memfin.contracts.judgement import PROBE_GRADES, Declined
from memfin.judges.protocol import CacheCounts, JudgeResult
from memfin.judges.reply_grading import RISK_TAGS

Value = TypeVar("Value", str, int, float)
Level = Literal["nominal", "interval"]

MAX_KINDS: Final = 200
"""Maximum number of distinct reasons; later ones count as `OTHERS`."""

MAX_SHOWN: Final = 10
"""Maximum number of reported reasons."""

OTHERS: Final = "(other reasons)"

_DECLINED_READERS: Final = {
    "m5": "M5 leaves them out",
    "uncertain": "the rules read them for M1, M3 and M4, nobody for M5",
    "all": "the rules read them for M1, M3 and M4, nobody for M5",
    "answers": "the formulas score them all the same",
}
"""Treatment of replies that the judge declines, by scope."""

_VARYING: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?", re.IGNORECASE)


class Coincidences(Generic[Value]):
    """Coincidences of values in votes on units (Krippendorff); the order of units does not matter."""

    def __init__(self, level: Level) -> None:
        self._level: Level = level
        self._pairs: Counter[tuple[Value, Value, int]] = Counter()  # with the number of other votes
        self._units = 0

    def add(self, votes: Sequence[Value]) -> None:
        """Count the votes on one unit; a single vote has no pair and does not count."""
        self._units += len(votes) > 1
        for one, other in permutations(votes, 2):
            self._pairs[one, other, len(votes) - 1] += 1

    def agreement(self) -> JudgeAgreement | None:
        """Return the statistics of the units so far, None without any."""
        if not self._units:
            return None
        equal = sum(count for (one, other, _), count in self._pairs.items() if one == other)
        observed = equal / self._pairs.total()
        return JudgeAgreement(level=self._level, units=self._units, observed=observed, alpha=self._alpha())

    def _alpha(self) -> float | None:
        rows: defaultdict[Value, Fraction] = defaultdict(Fraction)
        observed = expected = Fraction(0)
        for (one, other, others), count in self._pairs.items():
            rows[one] += Fraction(count, others)
            observed += Fraction(count, others) * self._distance(one, other)
        for one, other in product(rows, repeat=2):
            expected += rows[one] * rows[other] * self._distance(one, other)
        if not expected:
            return None
        return float(1 - (sum(rows.values()) - 1) * observed / expected)

    def _distance(self, one: Value, other: Value) -> Fraction:
        if self._level == "nominal":
            return Fraction(one != other)
        return (Fraction(str(one)) - Fraction(str(other))) ** 2


class VoteStats:
    """Sums of votes, their costs, and their agreement by kind of value; the order does not matter."""

    def __init__(self, levels: Mapping[str, Level]) -> None:
        self._kinds = {kind: Coincidences[Any](level) for kind, level in levels.items()}
        self._spreads: Counter[float] = Counter()
        self._counts: Counter[str] = Counter()
        self._formats: Counter[str] = Counter()

    def add_votes(self, votes: Iterable[Vote[Any]]) -> None:
        """Count votes and their costs."""
        for vote in votes:
            self._counts["votes"] += 1
            self._counts["failed_votes"] += vote.verdict is None
            self._counts["cached"] += vote.cached
            self._counts["attempts"] += vote.attempts
            self._counts["prompt_tokens"] += vote.prompt_tokens or 0
            self._counts["completion_tokens"] += vote.completion_tokens or 0
            if vote.verdict is not None and vote.response_format is not None:
                self._formats[vote.response_format] += 1

    def add_unit(self, kind: str, votes: Sequence[Any]) -> None:
        """Compare the votes on one unit."""
        self._kinds[kind].add(votes)

    def add_spread(self, spread: float) -> None:
        """Count the difference of the highest and the lowest score of several votes."""
        self._spreads[spread] += 1

    @property
    def look_ups(self) -> CacheCounts:
        """Cache look-ups recorded by the votes, if there was a cache."""
        return CacheCounts(self._counts["cached"], self._counts["votes"] - self._counts["cached"])

    def statistics(
        self, cache: CacheCounts, warnings: Sequence[str] = (), parameters: Sequence[ParameterChange] = ()
    ) -> JudgeStats:
        """Return the sums so far; spreads and agreement need several votes."""
        names = ("votes", "failed_votes", "attempts", "prompt_tokens", "completion_tokens")
        several = self._spreads.total()
        total = sum(spread * count for spread, count in sorted(self._spreads.items()))
        agreement = {kind: coincidences.agreement() for kind, coincidences in self._kinds.items()}
        return JudgeStats(
            **{name: self._counts[name] for name in names},
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            cache_damaged=cache.damaged,
            response_formats=dict(sorted(self._formats.items())),
            spread_mean=total / several if several else None,
            spread_max=max(self._spreads, default=None),
            agreement={kind: value for kind, value in agreement.items() if value is not None},
            parameters=list(parameters),
            warnings=list(warnings),
        )


class ReplyVoteStats(VoteStats):
    """Sums of the votes on replies; rubric items, constraints and risk tags are units of yes and no."""

    def __init__(self) -> None:
        kinds = ("rubric", "contradiction", "risk", "compliance")
        super().__init__({"score": "interval", **dict.fromkeys(kinds, "nominal")})

    def add(self, request: JudgeRequest, result: JudgeResult[Verdict]) -> None:
        """Count a result."""
        self.add_votes(result.votes)
        self.add_panel(request.rubric_required, request.constraints, result.votes)

    def add_panel(
        self, rubric: Sequence[str], constraints: Sequence[str], votes: Sequence[Vote[Verdict]]
    ) -> None:
        """Compare the votes on one reply; a single or failed one cannot be compared."""
        verdicts = [vote.verdict for vote in votes if vote.verdict is not None]
        if len(votes) != len(verdicts) or len(votes) < 2:  # noqa: PLR2004 - a pair takes two
            return
        scores = [verdict.score for verdict in verdicts]
        self.add_unit("score", scores)
        self.add_spread(max(scores) - min(scores))
        self.add_unit("compliance", [verdict.compliance or "" for verdict in verdicts])
        for kind, names, found in (
            ("rubric", rubric, [verdict.rubric_items for verdict in verdicts]),
            ("contradiction", constraints, [verdict.contradicted_constraints or () for verdict in verdicts]),
            ("risk", RISK_TAGS, [verdict.risk_tags or () for verdict in verdicts]),
        ):
            for name in dict.fromkeys(names):
                self.add_unit(kind, ["yes" if name in each else "no" for each in found])


class JudgedTurns:
    """Counts of turns, grades of probes, or answers, put to a judge or an agent, and of reasons of failures.

    Reasons that differ in numbers are one. ``declined`` counts the failed turns that were ``too_long`` for
    the judge, and those it ``refused``; ``scope`` decides which rows were put to the judge.
    """

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self._scope: JudgeScope = scope
        self.turns = 0
        self.failed = 0
        self.declined: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, row: TurnEvalRow) -> None:
        """Count a row; one whose turn was put to no judge does not count."""
        if was_asked(row, self._scope):
            declined = row.judge_declined if isinstance(row.judge_declined, str) else None
            self.count(row.judge_error, declined)
        for probe in row.probes or ():
            for grade in PROBE_GRADES:
                if probe.outcome != "failed" and probe[grade] is not UNSET:
                    error = probe.judge_error if isinstance(probe.judge_error, str) else None
                    self.count(error if probe[grade] is None else None)

    def count(self, error: str | None, declined: Declined | None = None) -> None:
        """Count one turn."""
        self.turns += 1
        if error is None:
            return
        self.failed += 1
        if declined is not None:
            self.declined[declined] += 1
        kind = _VARYING.sub("0", error)
        if kind not in self._first and len(self._first) >= MAX_KINDS:
            kind = error = OTHERS
        self._first.setdefault(kind, error)
        self._kinds[kind] += 1

    def reasons(self) -> dict[str, int]:
        """Return the most frequent reasons with their counts, in the wording of their first occurrence."""
        ranked = sorted(self._kinds.items(), key=lambda item: (-item[1], self._first[item[0]]))
        return {self._first[kind]: count for kind, count in ranked[:MAX_SHOWN]}


def judge_warnings(stats: RunStats, scope: JudgeScope | Literal["answers"]) -> list[str]:
    """Return the warnings about failed judgements; ``scope`` is that of dialogues, or ``answers``."""
    turns, failed, reasons = stats.judged_turns, stats.judge_failures, stats.judge_failure_reasons
    if not failed:
        return []
    most = max(reasons, key=lambda reason: reasons[reason], default="no reason given")
    lines = [f"{failed} of {turns} judgements failed ({failed / turns:.1%}), most often: {most}"]
    words = {"too_long": "too long to be judged", "refused": "refused by the judge or its provider"}
    counts = stats.judge_declined
    escaped = [f"{counts[why]} {text}" for why, text in words.items() if counts.get(why)]
    if escaped:
        lines.append(f"replies that escaped the judge: {', '.join(escaped)}; {_DECLINED_READERS[scope]}")
    return lines
