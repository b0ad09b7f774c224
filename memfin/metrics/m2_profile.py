"""M2, profile accuracy: agreement of the agent's last profile snapshot with the true profile."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts import Dialog, DialogTrace, MetricResult, ProfileTruth, TurnEvalRow
from memfin.contracts.reading import check_trace_version, convert, upgrade
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import Cell, MetricState, Share, each_of
from memfin.scoring.profile import snapshot_values, truth_values

NO_PROFILE: Final = marked("the agent reported no profile in any dialogue")

_NO_TRUTH: Final = marked("no dialogue that was answered has a complete true profile")


class ProfileCell(Cell, frozen=True, gc=False):
    """M2 sums of one dialogue; ``turns`` counts its replays, which is 1 unless a run repeats the dialogue."""

    risk: int = 0
    horizon: int = 0
    liquidity: int = 0
    constraints_precision: Fraction = Fraction(0)
    constraints_recall: Fraction = Fraction(0)
    constraints_f1: Fraction = Fraction(0)
    preferences_precision: Fraction = Fraction(0)
    preferences_recall: Fraction = Fraction(0)
    preferences_f1: Fraction = Fraction(0)
    without_snapshot: int = 0
    probes: int = 0
    probes_right: int = 0


class SetAgreement(NamedTuple):
    """Agreement of a predicted set with the true one."""

    precision: Fraction
    recall: Fraction
    f1: Fraction


def set_agreement(predicted: AbstractSet[object], truth: AbstractSet[object]) -> SetAgreement:
    """Compare two sets: both empty agree fully, one empty not at all (spec section 6)."""
    if not predicted and not truth:
        return SetAgreement(Fraction(1), Fraction(1), Fraction(1))
    if not predicted or not truth:
        return SetAgreement(Fraction(0), Fraction(0), Fraction(0))
    shared = len(predicted & truth)
    return SetAgreement(
        Fraction(shared, len(predicted)),
        Fraction(shared, len(truth)),
        Fraction(2 * shared, len(predicted) + len(truth)),
    )


def last_snapshot(trace: DialogTrace) -> dict[str, Any] | None:
    """Return the last profile snapshot that an answered turn left, or None."""
    for turn in reversed(trace.turns):
        if turn.turn_status == "ok" and turn.profile_snapshot is not None:
            return turn.profile_snapshot
    return None


def _profile_score(cell: ProfileCell) -> Fraction:
    return (cell.risk + cell.horizon + cell.liquidity + cell.constraints_f1 + cell.preferences_f1) / 5


def _truth_of(trace: DialogTrace, dialog: Dialog | Mapping[str, Any] | None) -> ProfileTruth | None:
    """Return the true profile: the dataset's, or the one a v1.1 trace carries."""
    if isinstance(dialog, Dialog):
        return dialog.profile_gt
    if dialog is not None:
        return convert(dialog.get("profile_gt"), ProfileTruth)
    return None if trace.profile_gt is msgspec.UNSET else trace.profile_gt


def _replays(cell: ProfileCell) -> int:
    return cell.turns


class M2State(MetricState[ProfileCell]):
    """Mergeable state of M2; the unit is the dialogue.

    In the denominator: valid dialogues that did not fail and whose true profile is complete. One
    whose agent never showed a profile is in it as well, with an empty prediction
    (``no_snapshot_count``). ``failed_count`` counts failed dialogues and traces that are no records
    of the contract, ``skipped_count`` the rest. Without repetitions micro equals macro.
    """

    name: MetricName = "m2_profile_accuracy"
    shares: tuple[Share[ProfileCell], ...] = (
        *(
            Share(name, hits, _replays, broken_down=broken_down, graded=True, empty=_NO_TRUTH)
            for name, hits, broken_down in (
                ("risk_level_acc", lambda cell: cell.risk, True),
                ("horizon_acc", lambda cell: cell.horizon, True),
                ("liquidity_acc", lambda cell: cell.liquidity, True),
                ("constraints_f1", lambda cell: cell.constraints_f1, True),
                ("preferences_f1", lambda cell: cell.preferences_f1, True),
                ("profile_score", _profile_score, True),
                ("constraints_precision", lambda cell: cell.constraints_precision, False),
                ("constraints_recall", lambda cell: cell.constraints_recall, False),
                ("preferences_precision", lambda cell: cell.preferences_precision, False),
                ("preferences_recall", lambda cell: cell.preferences_recall, False),
            )
        ),
        Share("probed", lambda cell: cell.probes_right, lambda cell: cell.probes, optional=True),
    )

    def add_probes(self, row: TurnEvalRow) -> None:
        """Count the probes of a row with an answer to know that is a field of the profile."""
        if right := field_probes(row):
            self._put(row.dialog_id, ProfileCell(probes=len(right), probes_right=sum(right)))

    def add_dialog(
        self, trace: DialogTrace | Mapping[str, Any], dialog: Dialog | Mapping[str, Any] | None
    ) -> None:
        """Count one dialogue; one that cannot be counted is bad and never raises.

        ``dialog`` is the dialogue of the dataset; with None the true profile comes from the trace
        itself, where it carries one (trace version v1.1).
        """
        try:
            record = (
                trace
                if isinstance(trace, DialogTrace)
                else convert(upgrade(dict(trace), DialogTrace), DialogTrace)
            )
            check_trace_version(record.trace_version)
            if record.valid_dialog and record.dialog_status == "failed":
                self._failed += 1
                return
            usable = record.valid_dialog and record.dialog_status != "skipped"
            truth = _truth_of(record, dialog) if usable else None
            contribution = None if truth is None else self._contribution(last_snapshot(record), truth)
            if contribution is None:
                self._skipped += 1
            else:
                self._put(record.dialog_id, contribution)
        except Exception:  # noqa: BLE001 - a single dialogue must not end the scoring of the others
            self.count_bad()

    @staticmethod
    def _contribution(snapshot: dict[str, Any] | None, truth: ProfileTruth) -> ProfileCell | None:
        """Compare a prediction with the truth; None when the truth is incomplete."""
        true = truth_values(truth)
        if true.risk is None or true.horizon is None or true.liquidity is None:
            return None
        predicted = snapshot_values(snapshot or {})
        constraints = set_agreement(predicted.constraints, true.constraints)
        preferences = set_agreement(predicted.preferences, true.preferences)
        return ProfileCell(
            turns=1,
            risk=int(predicted.risk == true.risk),
            horizon=int(predicted.horizon == true.horizon),
            liquidity=int(predicted.liquidity == true.liquidity),
            constraints_precision=constraints.precision,
            constraints_recall=constraints.recall,
            constraints_f1=constraints.f1,
            preferences_precision=preferences.precision,
            preferences_recall=preferences.recall,
            preferences_f1=preferences.f1,
            without_snapshot=int(snapshot is None),
        )

    def _unreported(self, total: Callable[[Callable[[ProfileCell], int]], int]) -> dict[str, str]:
        if total(lambda cell: cell.turns - cell.without_snapshot):
            return {}
        return {share.name: NO_PROFILE for share in self.shares if share.name != "probed"}

    def _counts(self, total: Callable[[Callable[[ProfileCell], int]], int]) -> dict[str, int]:
        probes = total(lambda cell: cell.probes)
        counts = {"no_snapshot_count": total(lambda cell: cell.without_snapshot)}
        return counts | ({"probed_total": probes} if probes else {})


def field_probes(row: TurnEvalRow) -> list[bool]:
    """Return for each probe of a row that asks for a field of the profile if it is right."""
    return [probe.correct for probe in row.probes or () if probe.known and probe.field is not None]


def compute_m2_profile_accuracy(
    dialog_traces: Iterable[DialogTrace | Mapping[str, Any]],
    dialog_objs: Mapping[str, Dialog | Mapping[str, Any]] | None = None,
) -> MetricResult:
    """Compute M2 from traces and the dataset's dialogues by id; never raises (metrics contract 6.2).

    A dialogue that is not among ``dialog_objs`` is measured by the true profile of its trace, if it
    carries one.
    """
    state = M2State()
    for trace in each_of(dialog_traces):
        try:
            dialog = None if dialog_objs is None else dialog_objs.get(trace["dialog_id"])
        except Exception:  # noqa: BLE001 - neither trace nor dialogues need to be what they should
            state.count_bad()
        else:
            state.add_dialog(trace, dialog)
    return state.result()
