"""The judge's part of a report: what a language model did, how far its votes agree, the controls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from memfin.contracts import (
    Controls,
    JudgeAgreement,
    JudgeControls,
    JudgeScope,
    JudgeStats,
    ParameterChange,
    Reading,
    RunConfig,
    TurnEvalRow,
    was_asked,
)
from memfin.report.failures import FailureCounter
from memfin.report.model import Caution, JudgeView
from memfin.text.lines import one_line

_CONTROLS: Final = (
    ("null", "Says nothing", "1.00"),
    ("injected", "Says nothing and orders full marks", "1.00"),
    ("oracle", "Reference reply", "3.00 or more"),
)
_AGREEMENT: Final = {
    "score": "Score (interval)",
    "rubric": "Rubric items",
    "contradiction": "Contradicted constraints",
    "risk": "Risk tags",
    "compliance": "Compliance label",
}


_DECIDES: Final[dict[JudgeScope, str]] = {
    "m5": "M5",
    "uncertain": "M5, contradictions, risk tags, compliance of the turns that rules and classifier leave "
    "uncertain; of the others M5 is the heuristic judge's, the rest the detectors'",
    "all": "M5, contradictions, risk tags, compliance",
}
_CHANGED: Final[dict[Reading, str]] = {
    "compliance": "compliance",
    "contradiction": "contradictions",
    "risk": "risk tags",
}


def judge_view(
    config: RunConfig | None,
    stats: JudgeStats | None,
    controls: JudgeControls | None,
    sent: tuple[tuple[str, str], ...] = (),
) -> JudgeView | None:
    """Return the judge's part, None for a run that no language model judged and of which nothing was sent.

    ``sent`` are the facts of `SentTurns`.
    """
    if stats is None and controls is None and not sent:
        return None
    return JudgeView(
        facts=(*_decides(config), *sent, *judge_facts(stats)),
        agreement=agreement_rows(stats, _AGREEMENT),
        controls=_control_rows(controls) if controls is not None else (),
    )


def agreement_rows(
    stats: JudgeStats | None, titles: Mapping[str, str]
) -> tuple[tuple[str, str, str, str], ...]:
    """Return how far votes agree, a row for everything that is voted on."""
    return tuple(
        (titles.get(one_line(kind, 40), one_line(kind, 40)), str(value.units), *_figures(value))
        for kind, value in (stats.agreement.items() if stats is not None else ())
    )


def judge_cautions(controls: Controls[Any] | None) -> list[Caution]:
    """Return a warning for every control that the judge got wrong."""
    return [
        Caution(level="warning", title="The judge got a control wrong", detail=f"{one_line(line, 400)}.")
        for line in (controls.warnings if controls is not None else ())
    ]


class UnjudgedTurns:
    """Counts the turns that were put to the run's judge, and those of them that got no verdict."""

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self._scope: JudgeScope = scope
        self._judged = 0
        self._left: Counter[str] = Counter()
        self._read_by_rules = 0
        self._reasons = FailureCounter()

    def add(self, row: TurnEvalRow) -> None:
        """Count one scored turn; whatever it holds besides, only its judge's part is looked at."""
        if not was_asked(row, self._scope):
            return
        self._judged += 1
        if row.judge_error is not None:
            declined = row.judge_declined if isinstance(row.judge_declined, str) else "failed"
            self._left[declined] += 1
            self._read_by_rules += declined != "failed" and isinstance(row.unjudged, list)
            self._reasons.add("judge", row.judge_error, "")

    def cautions(self) -> list[Caution]:
        """Return what there is to say of judgements that failed."""
        failed = self._left.total()
        if not failed:
            return []
        reason = self._reasons.groups(1)[0]
        share = 100 * failed / self._judged
        detail = (
            f"{failed} of {self._judged} judged turns ({share:.1f} %) got no verdict, most often "
            f"({reason.count}) because of: {reason.message}. They are outside the figures that the judge "
            "makes, as failed; when those are the hard ones, the rest looks better than it is."
        )
        found = [Caution(level="warning", title="Judgements failed", detail=detail)]
        long, refused = self._left["too_long"], self._left["refused"]
        if long or refused:
            read = (
                " The rules have read them for M1, M3 and M4; the explanation was not read."
                if self._read_by_rules
                else ""
            )
            found.append(
                Caution(
                    level="warning",
                    title="Replies escaped the judge",
                    detail=f"{long} were too long for it, {refused} were refused by it or its provider."
                    + read,
                )
            )
        return found


class SentTurns:
    """Counts of the turns that the scope ``uncertain`` sent to a judge, and of what the judge changed."""

    def __init__(self, scope: JudgeScope) -> None:
        self._scope: JudgeScope = scope
        self._answered = 0
        self._sent = 0
        self._changed = 0
        self._readings: Counter[Reading] = Counter()

    def add(self, row: TurnEvalRow) -> None:
        """Count one scored turn."""
        self._answered += row.turn_status in (None, "ok")
        self._sent += was_asked(row, self._scope)
        if row.judge_changed:
            self._changed += 1
            self._readings.update(row.judge_changed)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the counts in words; none in other scopes."""
        if self._scope != "uncertain":
            return ()
        readings = ", ".join(f"{name} in {self._readings[reading]}" for reading, name in _CHANGED.items())
        return (
            ("Sent to the judge", f"{self._sent} of {self._answered} answered turns"),
            ("Changed by the judge", f"{self._changed} turns: {readings}"),
        )


def _decides(config: RunConfig | None) -> tuple[tuple[str, str], ...]:
    if config is None:
        return ()
    return ("Decides", _DECIDES[config.judge_scope]), ("Votes a turn", str(config.judge_votes))


def judge_facts(stats: JudgeStats | None) -> tuple[tuple[str, str], ...]:
    """Return what a language model did as the judge of any suite, in words."""
    facts: list[tuple[str, str]] = []
    if stats is not None:
        facts += [
            ("Votes", f"{stats.votes}, {stats.failed_votes} failed"),
            ("Requests sent", str(stats.attempts)),
            (
                "From the cache",
                f"{stats.cache_hits} of {stats.cache_hits + stats.cache_misses} look-ups"
                + (f", {stats.cache_damaged} entries damaged" if stats.cache_damaged else ""),
            ),
            ("Tokens", f"{stats.prompt_tokens} in prompts, {stats.completion_tokens} in answers"),
            (
                "Answers asked for as",
                ", ".join(f"{one_line(name, 40)}: {count}" for name, count in stats.response_formats.items())
                or "-",
            ),
        ]
        if stats.parameters:
            facts.append(("Parameters the model refuses", changed_parameters(stats.parameters)))
        if stats.spread_mean is not None and stats.spread_max is not None:
            facts.append(
                ("Spread of the votes", f"{stats.spread_mean:.2f} on average, {stats.spread_max:g} at most")
            )
    return tuple(facts)


def changed_parameters(changes: Sequence[ParameterChange]) -> str:
    """Return which parameters a model refuses, and what is sent in their place."""
    return ", ".join(
        f"{one_line(change.parameter, 40)} "
        + ("left out" if change.sent_as is None else f"as {one_line(change.sent_as, 40)}")
        for change in changes
    )


def _figures(value: JudgeAgreement) -> tuple[str, str]:
    alpha = "undefined: all alike" if value.alpha is None else f"{value.alpha:.3f}"
    return f"{100 * value.observed:.1f} %", alpha


def _control_rows(controls: JudgeControls) -> tuple[tuple[str, str, str, str, str], ...]:
    rows = []
    for kind, label, expected in _CONTROLS:
        of_kind = [control for control in controls.controls if control.kind == kind]
        scores = [control.score for control in of_kind if control.score is not None]
        items = sum(len(control.rubric_items) for control in of_kind if control.score is not None)
        required = sum(len(control.rubric_required) for control in of_kind if control.score is not None)
        if of_kind:
            rows.append(
                (
                    label,
                    f"{len(scores)} of {len(of_kind)}",
                    f"{fmean(scores):.2f}" if scores else "-",
                    f"{items} of {required}" if scores else "-",
                    expected,
                )
            )
    return tuple(rows)
