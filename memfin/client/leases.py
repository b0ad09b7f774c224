"""Leases of starts: several processes share one limit through a coordinator.

A client asks for one start and is answered when the coordinator's windows allow it, first come, first
served. It may start within `LEASE` seconds of the permission, by its own clock: the answer says for how
long the question was held, and the client counts from when it sent the question, which was earlier than
the coordinator got it. So a start lies at most `LEASE` seconds after the moment that the coordinator
counts, whatever the clocks show, and the coordinator's windows are wider by that. A permission that comes
too late is given back.

Messages are lines of JSON. The coordinator sends a `Challenge`, the client a `Hello` with the proof that it
knows the token; then come questions and answers.
"""

import asyncio
import hmac
import math
import os
import secrets
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Annotated, Final, Literal, Self

import msgspec

from memfin.client.errors import EndpointDown
from memfin.client.windows import Counted, Windows
from memfin.contracts import RunConfig
from memfin.contracts.base import Record
from memfin.errors import UsageError

TOKEN_VARIABLE: Final = "MEMFIN_RATE_TOKEN"  # noqa: S105 - the name of the variable
LEASE: Final = 0.03  # seconds for which a permission holds
DRIFT: Final = 1e-3  # share by which clocks may run at different speeds
REFRESH: Final = 5.0  # seconds after which a waiting client asks again, which keeps its place
SILENCE: Final = 3 * REFRESH  # seconds without a word after which the other side is taken for dead
HANDSHAKE: Final = 5.0
MAX_FRAME: Final = 1024  # bytes
MAX_CLIENTS: Final = 10_000
MAX_UNREAD: Final = 64 * 1024  # bytes that a client may leave unread
KEPT: Final = 600.0  # seconds for which a start can be corrected
MAX_KEPT: Final = 100_000  # starts that can be corrected
MAX_UNSENT: Final = 10_000  # corrections kept while the coordinator is away
FIRST_PAUSE: Final = 0.05
MAX_PAUSE: Final = 1.0
"""Seconds: the first and the longest pause before the coordinator is tried again."""

Pool = Literal["judge", "agent"]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class RateLimits(Record):
    """Limits per minute that processes share; None is no limit."""

    judge_rpm: float | None = None
    judge_tpm: float | None = None
    agent_rpm: float | None = None

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Return those of a run's settings."""
        return cls(judge_rpm=config.judge_rpm, judge_tpm=config.judge_tpm, agent_rpm=config.agent_rpm)

    def windows(self, pool: Pool) -> Windows:
        """Return the windows of a coordinator."""
        if pool == "agent":
            return Windows(self.agent_rpm, margin=LEASE)
        return Windows(self.judge_rpm, self.judge_tpm, margin=LEASE)


class _Frame(Record, tag_field="type", forbid_unknown_fields=True):
    pass


class Challenge(_Frame, tag="challenge"):
    """First word of a coordinator."""

    nonce: str


class Hello(_Frame, tag="hello"):
    """First word of a client: the limit it asks about, and the proof that it knows the token."""

    pool: Pool
    proof: str


class Refused(_Frame, tag="refused"):
    """The proof is wrong."""


class Welcome(_Frame, tag="welcome"):
    """The client may ask; ``epoch`` is another one after a restart of the coordinator."""

    epoch: str
    limits: RateLimits


class Ask(_Frame, tag="ask"):
    """Question for one start; a client's newer question takes the place of its older one in the queue."""

    number: Number
    tokens: Tokens


class Wait(_Frame, tag="wait"):
    """The question was received and waits."""

    number: Number


class Grant(_Frame, tag="grant"):
    """Permission for one start, after the question was held for so many seconds."""

    number: Number
    held: float
    start: Number


class Drop(_Frame, tag="drop"):
    """The client's question is void."""


class Correct(_Frame, tag="correct"):
    """Tokens that a start took."""

    start: Number
    tokens: Tokens


class Late(_Frame, tag="late"):
    """A request was sent some time after its start and counts from now."""

    start: Number


class Withdraw(_Frame, tag="withdraw"):
    """A start that does not take place."""

    start: Number


Report = Correct | Late | Withdraw

_to_coordinator: Final = msgspec.json.Decoder(Hello | Ask | Drop | Correct | Late | Withdraw)
_to_client: Final = msgspec.json.Decoder(Challenge | Refused | Welcome | Wait | Grant)


def _line(frame: _Frame) -> bytes:
    return msgspec.json.encode(frame) + b"\n"


def _proof(token: str, nonce: str) -> str:
    return hmac.digest(token.encode(), nonce.encode(), "sha256").hex()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the next line; raise `ConnectionError` at the end, or for one that is too long."""
    try:
        return await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
        raise ConnectionError("the connection was closed") from problem


class _Client:
    """A client's connection, and its question."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.asked = Ask(number=0, tokens=0)
        self.received = 0.0

    def send(self, frame: _Frame) -> None:
        self._writer.write(_line(frame))
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()


class _Queue:
    """The questions about one limit, in their order, and the starts that may still be corrected."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._waiting: OrderedDict[_Client, None] = OrderedDict()
        self._starts: OrderedDict[int, tuple[float, Counted]] = OrderedDict()
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, client: _Client, question: Ask) -> None:
        client.asked, client.received = question, time.monotonic()
        self._waiting.setdefault(client)
        self.grant()
        if client in self._waiting:
            client.send(Wait(number=question.number))

    def drop(self, client: _Client) -> None:
        self._waiting.pop(client, None)
        self.grant()

    def report(self, report: Report) -> None:
        now = time.monotonic()
        _, counted = self._starts.get(report.start, (now, None))
        if counted is None:
            return
        if isinstance(report, Correct):
            counted.correct(report.tokens)
        elif isinstance(report, Late):
            counted.sent(now)
        else:
            counted.withdraw()
            del self._starts[report.start]
        self.grant()

    def grant(self) -> None:
        """Answer the questions whose time has come."""
        if self._timer is not None:
            self._timer.cancel()
        now = time.monotonic()
        while self._starts and (
            len(self._starts) > MAX_KEPT or next(iter(self._starts.values()))[0] < now - KEPT
        ):
            self._starts.popitem(last=False)
        while self._waiting:
            client = next(iter(self._waiting))
            now = time.monotonic()
            if now - client.received > SILENCE:
                del self._waiting[client]
                client.abort()
            elif (delay := self._windows.wait(now, client.asked.tokens)) > 0:
                self._timer = asyncio.get_running_loop().call_later(delay, self.grant)
                return
            else:
                del self._waiting[client]
                self._number += 1
                self._starts[self._number] = now, self._windows.admit(now, client.asked.tokens)
                held = now - client.received
                client.send(Grant(number=client.asked.number, held=held, start=self._number))


class RateCoordinator:
    """Coordinator of limits that processes share.

    With ``silent`` it allows no start for one period of each limit, as an earlier coordinator of the same
    limits may have allowed them all just before.
    """

    def __init__(self, limits: RateLimits, token: str, *, silent: bool) -> None:
        self._limits = limits
        self._token = token
        self._epoch = secrets.token_hex(8)
        self._clients: set[_Client] = set()
        self._queues: dict[Pool, _Queue] = {}
        for pool in ("judge", "agent"):
            windows = limits.windows(pool)
            if silent:
                windows.fill(time.monotonic())
            self._queues[pool] = _Queue(windows)

    async def serve(self, listener: socket.socket) -> None:
        """Serve clients of a socket that listens, until cancelled."""
        server = await asyncio.start_server(self._connected, sock=listener, limit=MAX_FRAME)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for client in self._clients:
                client.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client, queue = _Client(writer), None
        self._clients.add(client)
        try:
            if (
                len(self._clients) <= MAX_CLIENTS
                and (queue := await self._greeted(reader, client)) is not None
            ):
                while True:
                    self._handle(_to_coordinator.decode(await _read(reader)), client, queue)
        except (OSError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
            pass  # the client is gone, or is none
        finally:
            self._clients.discard(client)
            if queue is not None:
                queue.drop(client)
            writer.close()

    async def _greeted(self, reader: asyncio.StreamReader, client: _Client) -> _Queue | None:
        nonce = secrets.token_hex(16)
        client.send(Challenge(nonce=nonce))
        async with asyncio.timeout(HANDSHAKE):
            hello = _to_coordinator.decode(await _read(reader))
        if not isinstance(hello, Hello):
            return None
        if not hmac.compare_digest(hello.proof.encode(), _proof(self._token, nonce).encode()):
            client.send(Refused())
            return None
        client.send(Welcome(epoch=self._epoch, limits=self._limits))
        return self._queues[hello.pool]

    @staticmethod
    def _handle(frame: Hello | Ask | Drop | Report, client: _Client, queue: _Queue) -> None:
        match frame:
            case Ask():
                queue.ask(client, frame)
            case Drop():
                queue.drop(client)
            case Correct() | Late() | Withdraw():
                queue.report(frame)
            case Hello():
                client.abort()


class _Link:
    """A client's connection to the coordinator; one question at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, epoch: str) -> None:
        self._reader = reader
        self._writer = writer
        self.epoch = epoch
        self._number = 0

    def send(self, frame: _Frame) -> None:
        self._writer.write(_line(frame))

    def close(self) -> None:
        self._writer.transport.abort()

    async def ask(self, tokens: int) -> int:
        """Return the number of a start that may begin at once; raise `OSError` if the connection fails."""
        asked: dict[int, float] = {}
        heard = time.monotonic()
        try:
            while True:
                if not asked or time.monotonic() - max(asked.values()) >= REFRESH:
                    self._number += 1
                    asked[self._number] = time.monotonic()
                    self.send(Ask(number=self._number, tokens=tokens))
                try:
                    async with asyncio.timeout(REFRESH):
                        frame = _to_client.decode(await _read(self._reader))
                except TimeoutError:
                    if time.monotonic() - heard > SILENCE:
                        raise ConnectionError("it does not answer") from None
                    continue
                heard = time.monotonic()
                if not isinstance(frame, Grant):
                    continue
                since = asked.get(frame.number, -math.inf)
                if frame.number != self._number:
                    self.send(Drop())  # a later question crossed the answer
                if time.monotonic() <= since + frame.held * (1 - DRIFT) + LEASE:
                    return frame.start
                self.send(Withdraw(start=frame.start))
                asked.clear()
        except asyncio.CancelledError:
            self.send(Drop())
            raise


class LeasedRate:
    """A limit whose starts a coordinator permits.

    ``limits`` are those of this process: they are to be the coordinator's. ``patience`` is for how many
    seconds a start waits for a coordinator that is away.
    """

    def __init__(
        self,
        address: str,
        token: str,
        pool: Pool,
        limits: RateLimits,
        *,
        patience: float,
        warn: Callable[[str], None],
    ) -> None:
        self._host, self._port = parse_address(address)
        self._name = f"the rate coordinator {address}"
        self._token = token
        self._pool: Pool = pool
        self._limits = limits
        self._patience = patience
        self._warn = warn
        self._link: _Link | None = None
        self._unsent: deque[tuple[str, Report]] = deque(maxlen=MAX_UNSENT)
        self._away_since: float | None = None
        self._pause = FIRST_PAUSE
        self._unlimited = False  # the coordinator has no limit of this kind

    def wait(self, now: float, tokens: int = 0) -> float:  # noqa: ARG002 - the coordinator knows
        """Return 0.0: a question waits at the coordinator, in the order of all."""
        return 0.0

    async def start(self, now: float, tokens: int = 0) -> "Leased":  # noqa: ARG002 - see above
        """Return a permission to start at once.

        Raises:
            EndpointDown: the coordinator has been away for longer than the patience.
            UsageError: it has another token, or other limits.
        """
        while not self._unlimited:
            try:
                link = self._link or await self._connect()
                start = 0 if self._unlimited else await link.ask(tokens)
                self._count_success()
                return Leased(self, link.epoch, start)
            except (OSError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError) as problem:
                self._drop_link()
                self._count_failure(problem)
            await asyncio.sleep(self._pause * secrets.SystemRandom().uniform(0.5, 1.0))
            self._pause = min(MAX_PAUSE, 2 * self._pause)
        return Leased(self, "", 0)

    async def close(self) -> None:
        """Close the connection."""
        self._drop_link()

    def report(self, epoch: str, report: Report) -> None:
        """Tell the coordinator of that epoch about a start, now or when it is back."""
        if self._unlimited:
            return
        if self._link is None:
            self._unsent.append((epoch, report))
        elif self._link.epoch == epoch:
            self._link.send(report)

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _count_failure(self, problem: Exception) -> None:
        now = time.monotonic()
        why = str(problem) or type(problem).__name__
        if self._away_since is None:
            self._away_since = now
            self._warn(f"{self._name} is away ({why}); requests of the {self._pool} wait for it")
        elif (away := now - self._away_since) >= self._patience:
            self._away_since = None
            raise EndpointDown(f"{self._name} has been away for {away:.0f} s ({why})") from problem

    def _count_success(self) -> None:
        if self._away_since is not None:
            self._away_since = None
            self._warn(f"{self._name} is back; requests of the {self._pool} continue")

    async def _connect(self) -> _Link:
        async with asyncio.timeout(HANDSHAKE):
            reader, writer = await asyncio.open_connection(self._host, self._port, limit=MAX_FRAME)
            try:
                link = await self._greet(reader, writer)
            except BaseException:
                writer.transport.abort()
                raise
        self._link, self._pause = link, FIRST_PAUSE
        for epoch, report in self._unsent:
            if epoch == link.epoch:
                link.send(report)
        self._unsent.clear()
        return link

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Link:
        challenge = _to_client.decode(await _read(reader))
        if not isinstance(challenge, Challenge):
            raise ConnectionError("it is no rate coordinator")
        writer.write(_line(Hello(pool=self._pool, proof=_proof(self._token, challenge.nonce))))
        welcome = _to_client.decode(await _read(reader))
        if isinstance(welcome, Refused):
            raise UsageError(f"{self._name} refuses the token in {TOKEN_VARIABLE}")
        if not isinstance(welcome, Welcome):
            raise ConnectionError("it is no rate coordinator")
        names = [name for name in RateLimits.__struct_fields__ if name.startswith(self._pool)]
        self._unlimited = all(welcome.limits[name] is None for name in names)
        for name in names:
            own, its = self._limits[name], welcome.limits[name]
            if own is not None and own != its:
                there = "none" if its is None else f"{its:g}"
                raise UsageError(f"{name}: is {own:g}, but {there} at {self._name}; give both the same")
        return _Link(reader, writer, welcome.epoch)


class Leased:
    """Permission of a coordinator for one start."""

    def __init__(self, rate: LeasedRate, epoch: str, start: int) -> None:
        self._rate = rate
        self._epoch = epoch
        self._start = start
        self._at = time.monotonic()

    def sent(self, now: float) -> None:  # noqa: ARG002 - the coordinator has its own clock
        """Have the start count from now if it was delayed."""
        if time.monotonic() - self._at > LEASE:
            self._rate.report(self._epoch, Late(start=self._start))

    def correct(self, tokens: int) -> None:
        """Have the tokens counted that it took."""
        self._rate.report(self._epoch, Correct(start=self._start, tokens=tokens))

    def withdraw(self) -> None:
        """Give the permission back."""
        self._rate.report(self._epoch, Withdraw(start=self._start))


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; raise `UsageError` for another form."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(f"{text!r} is no address; expected HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def token_of_environment() -> str:
    """Return the token of the coordinator; raise `UsageError` if the environment has none."""
    if not (token := os.environ.get(TOKEN_VARIABLE, "")):
        raise UsageError(f"rate_lease_address: set {TOKEN_VARIABLE} to the token of the coordinator")
    return token
