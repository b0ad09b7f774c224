"""The client side: an agent behind the agent protocol, as the replay sees it."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from memfin.agents.calls import TransportError
from memfin.agents.http.protocol import (
    PROTOCOL,
    CommitRequest,
    OpenSession,
    Problem,
    SessionOpened,
    TurnRequest,
)
from memfin.agents.http.service import JsonService
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.agents.usage import UsageTotal
from memfin.contracts import ModelUsage, Record
from memfin.sandbox.calls import CallFailed

R = TypeVar("R", bound=Record)

SPOKEN: Final = "agent protocol"


class _Observed(Record):
    """Observations as they came; the replay holds them against the contract, as any agent's."""

    recall: Any = None
    tools: Any = None
    compliance: Any = None
    profile_snapshot: Any = None
    observation_error: Any = None


class _Answer(_Observed, kw_only=True):
    text: str
    usage: Any = None


class _Failure(_Observed, kw_only=True):
    error: Problem


class HttpAgents:
    """The agents of one service, with the connections that they share, for one run at a time.

    It is an agent factory: one session of the service is one dialogue's agent.

    Args:
        url: base URL of the service, without credentials.
        turn_timeout: seconds that a call may take, at most; the service is told. A run's own limit for
            a turn is usually shorter.
        environ: where the token is read from; None is the process's own environment.

    Raises:
        UsageError: the URL is unusable.

    Attributes:
        url: the base URL, which is also ``reference`` and ``model`` in the artifacts of a run.
        version, inputs: None and empty; what a service depends on is its own affair.
        usage: the sum of what the agents said that their language models took.
    """

    def __init__(
        self, url: str, *, turn_timeout: float = 3600.0, environ: Mapping[str, str] | None = None
    ) -> None:
        self._service = JsonService(url, what="agent", protocol=SPOKEN, limit=turn_timeout, environ=environ)
        self.url = self.reference = self.model = self._service.url
        self.version: str | None = None
        self.inputs: dict[str, Any] = {}
        self.usage = UsageTotal()
        self._turn_timeout = turn_timeout

    async def __call__(self, session: Session, observer: Observer) -> "HttpAgent":
        """Open a session of the service and return its agent.

        Raises:
            TransportError: the service could not be reached; it may be tried again.
            CallFailed: it refused, or its answer is none of the protocol's.
        """
        request = OpenSession(protocol=PROTOCOL, session=session, turn_timeout=self._turn_timeout)
        opened = await self.call("POST", "sessions", request, SessionOpened)
        if opened.protocol != PROTOCOL:
            raise CallFailed(
                f"{self.url}: speaks version {opened.protocol} of the agent protocol, not {PROTOCOL}"
            )
        kind = CommittingHttpAgent if opened.has_commit else HttpAgent
        return kind(self, f"sessions/{opened.id}", observer)

    @property
    def total_usage(self) -> ModelUsage | None:
        """What the agents said that their language models took, so far."""
        return self.usage.of_run()

    async def close(self) -> None:
        """Close the connections and begin a new count of usage; the next run opens new ones."""
        self.usage = UsageTotal()
        await self._service.close()

    async def call(
        self, method: str, path: str, body: Record | None, answer: type[R], observer: Observer | None = None
    ) -> R:
        """Make one call and return its answer; what failed calls observed goes to the observer.

        Raises:
            TransportError: the call failed on its way and may be made again.
            CallFailed: the agent failed, the service refused, or the answer is none.
        """
        told = None if observer is None else lambda failure: _observe(failure, observer)
        return await self._service.call(method, path, body, answer, _Failure, told)


class HttpAgent:
    """One session of a service, as the agent of one dialogue."""

    def __init__(self, agents: HttpAgents, path: str, observer: Observer) -> None:
        self._agents = agents
        self._path = path
        self._observer = observer
        self._turn = 0
        self._lost: str | None = None

    async def reply(self, user_text: str) -> AgentReply:
        """Take a turn.

        The words of a turn that was lost on its way are the same turn again: the service, which may
        have heard them, gives the answer that it gave then.

        Raises:
            TransportError: the call failed on its way and may be made again.
            CallFailed: the agent failed, or its answer is none of the protocol's.
        """
        if self._lost != user_text:
            self._turn += 1
        self._lost = None
        request = TurnRequest(turn=self._turn, user_text=user_text)
        try:
            answer = await self._agents.call("POST", f"{self._path}/turns", request, _Answer, self._observer)
        except TransportError:
            self._lost = user_text
            raise
        if answer.usage is not None:
            self._agents.usage.add(answer.usage)
        return AgentReply(**dict(answer))

    async def close(self) -> None:
        """End the session; raises as `reply` does."""
        await self._agents.call("DELETE", self._path, None, Record)


class CommittingHttpAgent(HttpAgent):
    """A session whose agent keeps its history through ``commit``."""

    async def commit(self, assistant_text: str) -> None:
        """Put a reply into the agent's history; raises as `reply` does."""
        request = CommitRequest(turn=max(1, self._turn), assistant_text=assistant_text)
        await self._agents.call("POST", f"{self._path}/commit", request, Record)


def _observe(observed: _Observed, observer: Observer) -> None:
    """Tell the observer what a failed call had observed."""
    tools = observed.tools if isinstance(observed.tools, list) else []
    for tell, fields in (
        (observer.recall, observed.recall),
        *((observer.tool, call) for call in tools),
        (observer.compliance, observed.compliance),
        (observer.profile, observed.profile_snapshot),
    ):
        if isinstance(fields, dict):
            tell(**fields)
