"""The input: dialogues with reference replies and ground truth (spec section 3)."""

from typing import Any

from memfin.contracts.base import ComplianceLabel, Difficulty, Record, Role
from memfin.contracts.clients import ClientSheet
from memfin.contracts.ledger import EarlierSession, Fact, Probe
from memfin.contracts.pressure import Perturbation


class ProfileTruth(Record):
    """The client's true profile; the agent never sees it.

    The fields keep the dataset's own wording: key resolution compares literally. A profile that
    lacks a level is incomplete: its dialogue is valid, but leaves the denominator of M2.
    """

    risk_level_gt: str | None = None
    horizon_gt: str | None = None
    liquidity_need_gt: str | None = None
    constraints_gt: list[str] = []
    preferences_gt: list[str] = []


class TurnTags(Record):
    """Requirements on the reply of this turn, from the reference (trace schema, gt_turn_tags).

    ``facts_required_gt`` are ids of facts that the reply must go by, or must not where they hold no longer.
    """

    memory_required_keys_gt: list[str] = []
    risk_disclosure_required_gt: list[str] = []
    compliance_label_gt: ComplianceLabel | None = None
    explainability_rubric_gt: list[str] = []
    facts_required_gt: list[str] = []


class Turn(Record):
    """One utterance. Only assistant turns carry tags."""

    role: Role
    text: str
    turn_tags: TurnTags | None = None


class Blueprint(Record):
    """The part of the generator's plan that scoring reads."""

    forbidden_list: list[str] = []


class Dialog(Record):
    """A valid, normalized dialogue of the dataset.

    ``user_id`` names the client. The dialogues of one client are sessions, replayed one after another: by
    ``session_index``, those without one in the order of the dataset. ``session_time`` is an ISO date or time.
    ``earlier`` are the client's sessions before this one, which the reader of the dataset fills in.
    ``perturbation`` says what a variant is one of. ``client`` is the sheet of a simulated client; a dialogue
    that has one may have no ``turns``.
    """

    dialog_id: str
    profile_gt: ProfileTruth
    turns: list[Turn]
    scenario_type: str | None = None
    difficulty: Difficulty | None = None
    language: str | None = None
    events: list[dict[str, Any]] = []
    seed_source: str | None = None
    seed_data: dict[str, Any] | None = None
    blueprint: Blueprint = Blueprint()
    user_id: str | None = None
    session_index: int | None = None
    session_time: str | None = None
    facts: list[Fact] = []
    probes: list[Probe] = []
    earlier: list[EarlierSession] = []
    perturbation: Perturbation | None = None
    client: ClientSheet | None = None


class TurnPair(Record):
    """A user turn with the next assistant turn (metrics contract section 3).

    ``turn_pair_id`` counts from 1, the absolute indices from 0.
    """

    turn_pair_id: int
    user_turn_abs_idx: int
    gt_assistant_abs_idx: int
    user_text: str
    gt_assistant_text: str
    gt_turn_tags: TurnTags
