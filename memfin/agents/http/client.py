"""Client of JSON services, and agents behind the agent protocol."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

import aiohttp
import msgspec
from yarl import URL

from memfin.agents.calls import (
    KEY_STATUSES,
    REFUSED_STATUSES,
    AgentEndpoint,
    EndpointRefusal,
    TransportError,
    UsageTotal,
)
from memfin.agents.http.protocol import (
    API_KEY,
    PROTOCOL,
    TRANSPORT_STATUSES,
    CommitRequest,
    OpenSession,
    Problem,
    SessionOpened,
    TurnRequest,
)
from memfin.agents.protocol import AgentReply, Observer, Session
from memfin.client.body import ACCEPTED_ENCODING, read_body
from memfin.client.endpoint import Endpoint, parse_url, tls_hint
from memfin.client.errors import RequestError
from memfin.client.limiter import retry_after_seconds
from memfin.contracts import ModelUsage, Record
from memfin.errors import UsageError
from memfin.sandbox.calls import CallFailed, CallTimedOut
from memfin.sandbox.references import one_line

R = TypeVar("R", bound=Record)
F = TypeVar("F", bound="Failure")

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024  # decompressed: a reply with all that was recalled for it
CONNECT_LIMIT: Final = 10.0
BEYOND_TURN: Final = 30.0  # seconds for which a call outlives its turn; the replay has given up by then
_NOT_THERE: Final = frozenset({404, 405})
_ON_THE_WAY: Final = frozenset({"connect", "timeout", "closed", "truncated"})  # another attempt may do
_SUCCESS: Final = 2  # first digits of a status
_REDIRECT: Final = 3


class Failure(Protocol):
    """The body of a refusal."""

    @property
    def error(self) -> Problem:
        """Reason of the failure."""
        ...


class JsonService:
    """A service and the connections to it; raises `UsageError` for an unusable URL.

    Errors call it ``what``, ``agent`` or ``system``, and name the ``protocol`` that it should speak. A call
    may take ``limit`` seconds; the token is read from ``environ``.
    """

    def __init__(
        self, url: str, *, what: str, protocol: str, limit: float, environ: Mapping[str, str] | None = None
    ) -> None:
        self.url = str(checked_url(url, what))
        self._what = what
        self._protocol = protocol
        self._limit = limit
        self._endpoint = Endpoint(self.url, API_KEY, environ=os.environ if environ is None else environ)
        self._endpoint.headers()  # fails now for a token that no header can carry
        self._http: aiohttp.ClientSession | None = None
        self._availability = AgentEndpoint()

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._availability = AgentEndpoint()
        session, self._http = self._http, None
        if session is not None:
            await session.close()

    async def call(
        self,
        method: str,
        path: str | None,
        body: Record | None,
        answer: type[R],
        failure: type[F],
        on_failure: Callable[[F], None] | None = None,
    ) -> R:
        """Make one call and return its answer; ``path`` None calls the base URL itself.

        ``on_failure`` gets the body of a refusal, where it has one.

        Raises:
            TransportError: the call failed on its way and may be made again.
            CallFailed: the agent failed, the service refused, or the answer is none.
        """
        status, headers, content = await self._send(method, path, body)
        succeeded = status // 100 == _SUCCESS
        if succeeded and answer is Record:  # a success that has no content
            return answer()
        refusal: Problem | None = None
        try:
            data = self._endpoint.scrubber().scrub_data(msgspec.json.decode(content))
            if succeeded:
                return msgspec.convert(data, answer)
            failed = msgspec.convert(data, failure)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            if succeeded:
                raise self.failed(f"the answer is none of the {self._protocol}: {problem}") from problem
            refusal = Problem(code="", message="")  # a proxy's page, maybe
        else:
            refusal = failed.error
            if on_failure is not None:
                on_failure(failed)
        raise self._refusal(status, headers, refusal)

    def failed(self, text: str) -> CallFailed:
        """Return an error of this service, without secrets."""
        return CallFailed(self._scrubbed(text))

    async def _send(
        self, method: str, path: str | None, body: Record | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": ACCEPTED_ENCODING,
            **self._endpoint.headers(),
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        http = self._session()
        try:
            async with http.request(
                method,
                URL(self.url) if path is None else self._endpoint.url(path),
                data=None if body is None else msgspec.json.encode(body),
                headers=headers,
                allow_redirects=False,
            ) as response:
                if response.status not in REFUSED_STATUSES:
                    self._availability.count_answer()
                return response.status, response.headers, await read_body(response, MAX_ANSWER_BYTES)
        except RequestError as problem:
            if problem.kind in _ON_THE_WAY:
                raise TransportError(self._scrubbed(str(problem))) from problem
            raise self.failed(str(problem)) from problem
        except TimeoutError as problem:
            raise TransportError(self._scrubbed("no answer in time")) from problem
        except aiohttp.ClientConnectorSSLError as problem:
            text = self._scrubbed(f"{type(problem).__name__}: {problem}{tls_hint(problem)}")
            raise EndpointRefusal(text, self._availability) from problem
        except aiohttp.ClientConnectorError as problem:
            text = self._scrubbed(f"{type(problem).__name__}: {problem}")
            raise TransportError(text, endpoint=self._availability) from problem
        except (aiohttp.ClientError, OSError) as problem:
            raise TransportError(self._scrubbed(f"{type(problem).__name__}: {problem}")) from problem

    def _session(self) -> aiohttp.ClientSession:
        """Return the shared connections, opened with the first call on the loop that makes it."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # the run bounds how many calls there are
                timeout=aiohttp.ClientTimeout(total=self._limit + BEYOND_TURN, sock_connect=CONNECT_LIMIT),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._http

    def _refusal(self, status: int, headers: Mapping[str, str], error: Problem) -> Exception:
        if error.code == f"{self._what}_failed":
            return CallFailed(error.message)  # the agent's own error, as if it were in this process
        if error.code == f"{self._what}_timed_out":
            return CallTimedOut(error.message)
        line = " ".join(part for part in (f"HTTP {status}", error.code, error.message) if part)
        if status in TRANSPORT_STATUSES:
            after = retry_after_seconds(headers.get("Retry-After"), datetime.now(UTC))
            return TransportError(error.message or self._scrubbed(line), retry_after=after)
        if status // 100 == _REDIRECT:
            line = f"HTTP {status}: redirections are not followed; name the service's own URL"
        if status in _NOT_THERE and not error.code:
            line += f"; is this the base URL of a service that speaks MemFin's {self._protocol}?"
        if status in KEY_STATUSES:
            line += f"; look at {API_KEY}" + ("" if self._endpoint.headers() else " (not set)")
        if status in REFUSED_STATUSES:
            return EndpointRefusal(self._scrubbed(line), self._availability)
        return self.failed(line)

    def _scrubbed(self, text: str) -> str:
        return one_line(self._endpoint.scrubber().scrub(f"{self.url}: {text}"))


def checked_url(text: str, what: str) -> URL:
    """Return the base URL of a service; raise `UsageError` when it is none, without showing secrets."""
    url = parse_url(text, f"{what}: not an HTTP URL; it should look like http://127.0.0.1:8765")
    if url.user is not None or url.password is not None or url.query_string or url.fragment:
        raise UsageError(
            f"{what} {url.host}: the URL may have no user, query or fragment, since it goes into the run's "
            f"artifacts; put a token into {API_KEY}"
        )
    return url


class _Observed(Record):
    """Observations as they came; the replay holds them against the contract, as any agent's."""

    recall: Any = None
    tools: Any = None
    compliance: Any = None
    profile_snapshot: Any = None
    memory: Any = None
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
        url: base URL of the service, without credentials; the ``reference`` and ``model`` of a run.
        turn_timeout: seconds that a call may take; the service gets them, too.
        environ: where the token is read from; None is the process's own environment.

    Raises:
        UsageError: the URL is unusable.
    """

    def __init__(
        self, url: str, *, turn_timeout: float = 3600.0, environ: Mapping[str, str] | None = None
    ) -> None:
        self.service = JsonService(
            url, what="agent", protocol="agent protocol", limit=turn_timeout, environ=environ
        )
        self.url = self.reference = self.model = self.service.url
        self.version: str | None = None
        self.inputs: dict[str, Any] = {}
        self.usage = UsageTotal()
        self._turn_timeout = turn_timeout

    async def __call__(self, session: Session, observer: Observer) -> "HttpAgent":
        """Open a session of the service and return its agent; raises as `JsonService.call` does."""
        session = session.replace(carried=None)  # a service keeps its memory itself
        request = OpenSession(protocol=PROTOCOL, session=session, turn_timeout=self._turn_timeout)
        opened = await self.service.call("POST", "sessions", request, SessionOpened, _Failure)
        if opened.protocol != PROTOCOL:
            raise CallFailed(
                f"{self.url}: speaks version {opened.protocol} of the agent protocol, not {PROTOCOL}"
            )
        kind = CommittingHttpAgent if opened.has_commit else HttpAgent
        return kind(self, f"sessions/{opened.id}", observer)

    @property
    def total_usage(self) -> ModelUsage | None:
        """Usage of language models that the agents reported so far."""
        return self.usage.of_run()

    async def close(self) -> None:
        """Close the connections and begin a new count of usage; the next run opens new ones."""
        self.usage = UsageTotal()
        await self.service.close()


class HttpAgent:
    """One session of a service, as the agent of one dialogue."""

    def __init__(self, agents: HttpAgents, path: str, observer: Observer) -> None:
        self._agents = agents
        self._call = agents.service.call
        self._path = path
        self._observer = observer
        self._turn = 0
        self._lost: str | None = None

    async def reply(self, user_text: str) -> AgentReply:
        """Take a turn; raises as `JsonService.call` does.

        The words of a turn that was lost on its way are the same turn again: the service, which may
        have heard them, gives the answer that it gave then.
        """
        if self._lost != user_text:
            self._turn += 1
        self._lost = None
        request = TurnRequest(turn=self._turn, user_text=user_text)
        try:
            answer = await self._call(
                "POST", f"{self._path}/turns", request, _Answer, _Failure, self._observe
            )
        except TransportError:
            self._lost = user_text
            raise
        if answer.usage is not None:
            self._agents.usage.add(answer.usage)
        return AgentReply(**dict(answer))

    async def close(self) -> None:
        """End the session; raises as `reply` does."""
        await self._call("DELETE", self._path, None, Record, _Failure)

    def _observe(self, failed: _Failure) -> None:
        """Hand on what a failed call had observed."""
        observer, tools = self._observer, failed.tools if isinstance(failed.tools, list) else []
        for record, fields in (
            (observer.recall, failed.recall),
            *((observer.tool, call) for call in tools),
            (observer.compliance, failed.compliance),
            (observer.profile, failed.profile_snapshot),
            (observer.memory, failed.memory),
        ):
            if isinstance(fields, dict):
                record(**fields)


class CommittingHttpAgent(HttpAgent):
    """A session whose agent keeps its history through ``commit``."""

    async def commit(self, assistant_text: str) -> None:
        """Put a reply into the agent's history; raises as `reply` does."""
        request = CommitRequest(turn=max(1, self._turn), assistant_text=assistant_text)
        await self._call("POST", f"{self._path}/commit", request, Record, _Failure)
