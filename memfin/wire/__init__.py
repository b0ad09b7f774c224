"""HTTP for agents and judges: endpoints and their secrets, the chat client, the gate over all calls."""

from memfin.secrets import Scrubber
from memfin.wire.chat import ChatClient
from memfin.wire.endpoint import Endpoint
from memfin.wire.errors import WireError, WireErrorKind
from memfin.wire.gate import CallGate
from memfin.wire.messages import ChatAnswer, ChatRequest, ToolCall
from memfin.wire.outcomes import GateResult

__all__ = [
    "CallGate",
    "ChatAnswer",
    "ChatClient",
    "ChatRequest",
    "Endpoint",
    "GateResult",
    "Scrubber",
    "ToolCall",
    "WireError",
    "WireErrorKind",
]
