"""Memory for agents that are plain models: ``--agent-memory builtin`` or ``pkg.module:factory``."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from memfin.agents.builtin.memory import ClientFile, ClientState, decode_state
from memfin.agents.protocol import Session
from memfin.contracts import RecallTrace, Record, ShortTermTurn
from memfin.errors import UsageError
from memfin.sandbox.references import check_signature, import_reference, reference_of

NO_MEMORY: Final = "none"
FORMS: Final = "none, builtin or pkg.module:factory"
EXPECTED: Final = (
    "a class, or a factory function (session), that gives an object with recall and record methods"
)


class MemoryContext(Record):
    """Memory for one question of the client, with the turn's observations.

    ``context`` goes into the system message. ``turns`` are sent as the conversation so far, oldest first;
    None lets the agent send the history that it keeps itself.
    """

    context: str = ""
    turns: list[ShortTermTurn] | None = None
    recall: RecallTrace | dict[str, Any] | None = None
    profile: dict[str, Any] | None = None


class Memory(Protocol):
    """The memory of one dialogue.

    A class with ``snapshot``, ``restore`` and ``carry``, as agents have them, takes part in forks, resumed
    dialogues and the client's next session.

    Methods may be plain functions, which then run in a thread, or coroutine functions.
    ``close()`` is optional. What a method raises is the turn's error.
    """

    def recall(self, user_text: str) -> Any:
        """Return the `MemoryContext` for the client's words, which are not part of it."""

    def record(self, user_text: str, assistant_text: str) -> Any:
        """Take in a turn with its effective reply: the agent's own, or the reference."""


MemoryFactory = Callable[[Session], Any]
"""Makes the memory of a dialogue; may be a coroutine function or a plain callable."""


class BuiltinMemory:
    """The built-in agent's memory of one dialogue: recent exchanges, BM25 over older ones, profile."""

    def __init__(self, session: Session) -> None:
        self._client = ClientFile(session)

    async def recall(self, user_text: str) -> MemoryContext:
        """Take in the client's words and return the memory for them; the profile has them already."""
        heard = self._client.hear(user_text)
        return MemoryContext(
            context=self._client.context(heard),
            turns=self._client.memory.window,
            recall=self._client.recall_observation(heard),
            profile=self._client.profile_observation(),
        )

    def snapshot(self) -> bytes:
        """Return the state between turns."""
        return msgspec.msgpack.encode(self._client.state())

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot; raise `StateError` when the bytes are none."""
        self._client.load(decode_state(state, ClientState))

    def carry(self) -> bytes:
        """Return the client file for the next session."""
        return self._client.carry()

    async def record(self, user_text: str, assistant_text: str) -> None:
        """Complete the turn with its effective reply."""
        del user_text  # heard already
        self._client.memory.record(assistant_text)


def resolve_memory(memory: str | MemoryFactory) -> MemoryFactory | None:
    """Return the factory that a reference stands for; None for ``none``.

    Raises:
        UsageError: the reference has no known form or does not import, or the factory takes no session.
    """
    if memory == NO_MEMORY:
        return None
    if memory == "builtin":
        return BuiltinMemory
    if isinstance(memory, str):
        label, factory = f"agent memory {memory!r}", import_reference("agent memory", memory, FORMS)
    elif callable(memory):
        label, factory = f"agent memory {reference_of(memory)!r}", memory
    else:
        raise UsageError(f"agent memory: expected a reference or a factory, got {type(memory).__name__}")
    check_signature(label, factory, ("session",), EXPECTED)
    return factory
