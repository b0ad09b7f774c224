"""Traces and checkpoints of a replay: requests, answers and observations (trace schema 4.2, 4.3)."""

from typing import Any

import msgspec

from memfin.contracts.base import (
    Count,
    DialogStatus,
    Difficulty,
    Finite,
    HistoryMode,
    Record,
    SkipReason,
    TurnStatus,
)
from memfin.contracts.clients import ClientOutcome
from memfin.contracts.dataset import ProfileTruth, TurnPair
from memfin.contracts.ledger import MemoryTrace, ProbeTrace
from memfin.contracts.pressure import Perturbation


class ShortTermTurn(Record):
    """A recent utterance in the agent's short-term window."""

    role: str = ""
    content: str = ""


class RecallItem(Record):
    """An entry that the agent recalled from its long-term memory."""

    content: str = ""
    rank: int | None = None
    item_id: str | None = None
    score: Finite | None = None
    source: str | None = None
    turn_index: int | None = None
    session_id: str | None = None


class RecallTrace(Record):
    """Context that the agent's memory gave to the model at this turn."""

    query: str = ""
    short_term_context: str = ""
    short_term_turns: list[ShortTermTurn] = []
    profile_context: str = ""
    packed_context: str = ""
    token_count: Count = 0
    items: list[RecallItem] = []


class ToolTrace(Record):
    """One tool call; ``latency_ms`` is in milliseconds.

    ``args`` is an object, or the JSON text of one as chat-completion models hand it out.
    """

    tool_name: str = ""
    args: dict[str, Any] | str = {}
    result_excerpt: str = ""
    latency_ms: Finite | None = None
    error: str | None = None


class ComplianceTrace(Record):
    """Findings of the agent's own compliance check; without ``is_compliant`` the violations decide."""

    is_compliant: bool | msgspec.UnsetType = msgspec.UNSET
    needs_modification: bool = False
    violations: list[dict[str, Any]] = []
    risk_disclaimer_added: bool = False
    suitability_warning: str | None = None


class ModelUsage(Record):
    """Use of the language model behind the agent in a turn; tokens are those that the server counted.

    ``calls`` counts the answers that came; ``latency_ms`` is the time from request to end of answer,
    ``first_token_ms`` the time to the first words of the last answer, both in milliseconds.
    ``trimmed_turns`` counts the oldest turns of the history that did not fit before the model any more.
    A server that counts no tokens leaves ``unmetered_calls`` above 0.
    """

    model: str | None = None
    calls: Count = 0
    unmetered_calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    latency_ms: Finite = 0.0
    first_token_ms: Finite | None = None
    trimmed_turns: Count = 0


class TurnTrace(TurnPair, kw_only=True):
    """One user turn sent, with the agent's answer and its observations; ``usage`` extends v1.1.

    ``observation_error`` is there where an observation broke its contract and was left out, or a field of it.
    ``simulator_errors`` say why the words of a simulated client were not those of its sheet.
    """

    turn_status: TurnStatus
    pred_assistant_text: str | None = None
    latency_ms: Finite | None = None
    error: str | None = None
    recall: RecallTrace | None = None
    tools: list[ToolTrace] = []
    compliance: ComplianceTrace | None = None
    profile_snapshot: dict[str, Any] | None = None
    memory: MemoryTrace | msgspec.UnsetType = msgspec.UNSET
    usage: ModelUsage | msgspec.UnsetType = msgspec.UNSET
    observation_error: str | msgspec.UnsetType = msgspec.UNSET
    simulator_errors: list[str] | msgspec.UnsetType = msgspec.UNSET


class DialogTrace(Record):
    """One line of ``dialog_trace.jsonl``; the last fields are extensions of v1.1 and, of sessions, v1.2.

    ``client_id`` is the dataset's ``user_id``. ``stored_before`` are the ids of the facts that the agent's
    store was reported to hold at any time in the client's earlier sessions. ``perturbation`` is a variant's.
    ``client`` is how a simulated dialogue ended.
    """

    trace_version: str
    run_id: str
    dialog_id: str
    dataset_index: int
    dialog_status: DialogStatus
    valid_dialog: bool
    scenario_type: str | None = None
    difficulty: Difficulty | None = None
    skip_reason: SkipReason | None = None
    worker_id: int | None = None
    session_id: str | None = None
    user_id: str | None = None
    turns: list[TurnTrace] = []
    dialog_error: str | None = None
    profile_gt: ProfileTruth | msgspec.UnsetType = msgspec.UNSET
    history_mode: HistoryMode | msgspec.UnsetType = msgspec.UNSET
    judge: str | msgspec.UnsetType = msgspec.UNSET
    client_id: str | msgspec.UnsetType = msgspec.UNSET
    session_index: int | msgspec.UnsetType = msgspec.UNSET
    session_time: str | msgspec.UnsetType = msgspec.UNSET
    probes: list[ProbeTrace] | msgspec.UnsetType = msgspec.UNSET
    stored_before: list[str] | msgspec.UnsetType = msgspec.UNSET
    perturbation: Perturbation | msgspec.UnsetType = msgspec.UNSET
    client: ClientOutcome | msgspec.UnsetType = msgspec.UNSET


class DialogCheckpoint(Record):
    """The turns of a dialogue so far and the agent's state after the last of them.

    ``turns`` are all of them, the first one first; in the file they are those after the
    ``turns_before`` ones that earlier records hold. ``snapshot`` is what the agent gave, and nobody
    else can read. ``carried`` is what the client's session before left to this one, whose first checkpoint
    may have no turns; ``attempt`` is the ending of its ids. The counts are those of the dialogue so far.
    """

    dataset_index: Count
    dialog_id: str
    turns: list[TurnTrace]
    snapshot: bytes
    turns_before: Count = 0
    retries: Count = 0
    abandoned: Count = 0
    late_observations: Count = 0
    usage: ModelUsage | None = None
    carried: bytes | None = None
    attempt: str = ""
    probes: list[ProbeTrace] = []
