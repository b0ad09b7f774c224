"""Importers of memory benchmarks: files that the user fetches become sessions with probes (dataset v1.2)."""

import hashlib
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.ledger import Probe
from memfin.errors import RunFault, UsageError
from memfin.exchange.memory_formats import (
    Conversation,
    Message,
    Question,
    Session,
    beam,
    halumem,
    locomo,
    longmemeval,
    memoryagentbench,
)
from memfin.exchange.records import errors_at, read_records
from memfin.journal.disk import Disk

READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Conversation]]] = {
    "locomo": locomo,
    "longmemeval": longmemeval,
    "memoryagentbench": memoryagentbench,
    "beam": beam,
    "halumem": halumem,
}

_Pair = tuple[list[Message], list[Message]]
"""The client's messages and those of the other side after them."""

Remark = tuple[str, str]
"""A noun, and what is so with some of these."""

_WRONG: Final = ("question", "with an answer that is known to be wrong left out")
_EXCLUDED: Final = ("question", "of --exclude left out")
_NO_EVIDENCE: Final = ("question", "without evidence in the conversation left out")
_WRONG_EVIDENCE: Final = ("question", "kept without evidence, which is known to be wrong")
_LOST_EVIDENCE: Final = (
    "question",
    "with evidence in no place of the conversation, or in several, which is not scored",
)
_NO_WORDS: Final = ("session", "without words left out")
_ABSENT: Final = ("question", "of --exclude not in the file")


class Imported(NamedTuple):
    """Counts of an import; ``places`` are those of evidence.

    ``edition`` is None for a file that is no known one, ``listed`` False if no list of its wrong answers
    ships. ``remarks`` have the ids of what they are about.
    """

    edition: str | None
    sha256: str
    listed: bool
    users: int
    sessions: int
    probes: int
    places: int
    remarks: dict[Remark, list[str]]


class Errors(msgspec.Struct):
    """Numbers of questions by user, with wrong answers and with right answers but wrong evidence."""

    answers: dict[str, list[int]] = {}
    evidence: dict[str, list[int]] = {}


class Published(msgspec.Struct):
    """Names and errors of published files by their SHA-256."""

    editions: dict[str, str]
    errors: dict[str, Errors]


def published() -> Published:
    """Return the published files that are known."""
    text = (files("memfin") / "data" / "memory_benchmarks.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Published)


def import_benchmark(
    benchmark: str,
    path: Path,
    out: Path,
    *,
    expect: str | None = None,
    exclude: Collection[str] = (),
    exclude_errors: bool = False,
) -> Imported:
    """Write the conversations of a file as users with sessions, and its questions as probes after them.

    ``expect`` is the SHA-256 that the file must have. ``exclude`` are ids of questions; ``exclude_errors``
    leaves out the questions with wrong answers, and wrong evidence, that are listed for its edition.

    Raises:
        UsageError: the file or a record is invalid, its hash is not the expected one, or ``out`` exists.
        RunFault: the file system refuses.
    """
    if out.exists():
        raise UsageError(f"{out} exists already; name another file")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no directory {out.parent}")
    sha256 = _digest(path)
    if expect is not None and expect.lower() != sha256:
        raise UsageError(f"{path}: its SHA-256 is {sha256}, not the expected {expect}; fetch the file again")
    known = published()
    errors = known.errors.get(sha256)
    found = _Import(benchmark, path, sha256, exclude, errors if exclude_errors and errors else Errors())
    try:
        Disk().write_whole(out, found.lines())
    except OSError as problem:
        raise RunFault(f"{out}: {problem.strerror or problem}") from problem
    counts = found.counts
    return Imported(
        edition=known.editions.get(sha256),
        sha256=sha256,
        listed=errors is not None,
        users=len(found.users),
        sessions=counts["sessions"],
        probes=counts["probes"],
        places=counts["places"],
        remarks=dict(found.remarks),
    )


def conversations(benchmark: str, path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file, one in memory at a time; errors begin with the place in the file."""
    for where, record in read_records(path):
        with errors_at(where):
            try:
                conversation = READERS[benchmark](record)
            except (KeyError, AttributeError, IndexError) as problem:
                lack = f"no field {problem}" if isinstance(problem, KeyError) else f"another form: {problem}"
                cure = "docs/memory-benchmarks.md names the files"
                raise UsageError(f"{where}: no record of {benchmark}, it has {lack}; {cure}") from None
            if not any(session.messages for session in conversation.sessions):
                raise UsageError(f"{where}: the conversation has no words")
        yield conversation


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem


class _Import:
    """The lines of a dataset, with the counts of those that were made."""

    def __init__(
        self, benchmark: str, path: Path, sha256: str, exclude: Collection[str], errors: Errors
    ) -> None:
        self._benchmark = benchmark
        self._path = path
        self._source = f"{benchmark} sha256:{sha256}"
        self._exclude = exclude
        self._errors = errors
        self.users: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.remarks: dict[Remark, list[str]] = defaultdict(list)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of all users."""
        for conversation in conversations(self._benchmark, self._path):
            if conversation.user_id in self.users:
                raise UsageError(f"{self._path}: two conversations are named {conversation.user_id!r}")
            self.users.add(conversation.user_id)
            for line in self._of_user(conversation):
                self.counts["sessions"] += 1
                yield msgspec.json.encode(line) + b"\n"
        if not self.users:
            raise UsageError(f"{self._path}: holds no conversation; nothing was written")
        found = set(self.remarks.get(_EXCLUDED, ()))
        if absent := [each for each in self._exclude if each not in found]:
            self.remarks[_ABSENT] = absent

    def _of_user(self, conversation: Conversation) -> Iterator[dict[str, Any]]:
        """Yield the sessions that have words, in the order of their times if all have one."""
        sessions = [session for session in conversation.sessions if session.messages]
        if all(session.time for session in sessions):
            sessions.sort(key=lambda session: session.time or "")
        user = conversation.user_id.replace("#", "_")
        if wordless := [f"{user} {each.key}" for each in conversation.sessions if not each.messages]:
            self.remarks[_NO_WORDS] += wordless
        names = {session.key: f"{user}_s{number}" for number, session in enumerate(sessions, 1)}
        pairs = {session.key: _pairs(session) for session in sessions}
        probes = self._probes(conversation, names, pairs)
        for index, session in enumerate(sessions, 1):
            turns = [turn for pair in pairs[session.key] for turn in _turns(pair)]
            line = {
                "dialog_id": names[session.key],
                "profile_gt": {},
                "turns": turns,
                "seed_source": self._source,
                "user_id": user,
                "session_index": index,
                "session_time": session.time,
                "probes": probes[session.key],
            }
            yield {name: value for name, value in line.items() if value is not None}

    def _probes(
        self, conversation: Conversation, names: Mapping[str, str], pairs: Mapping[str, list[_Pair]]
    ) -> dict[str, list[Probe]]:
        """Return the probes by session; a question about one without words comes after the one before."""
        places: dict[str, set[str]] = defaultdict(set)
        for key, name in names.items():
            places[key].add(name)
            for turn, (client, other) in enumerate(pairs[key], 1):
                for message in (*client, *other):
                    places[message.key].add(f"{name}#{turn}")
        asked: dict[str, list[Probe]] = defaultdict(list)
        user = conversation.user_id
        for number, question in enumerate(conversation.questions):
            # A key that several places have says nothing about which of them is meant.
            keys = [key for key in question.evidence if len(places.get(key, ())) == 1]
            wrong = number in self._errors.answers.get(user, ())
            if (reason := self._reason(question, wrong=wrong, keys=keys)) is not None:
                self.remarks[reason].append(question.id)
                continue
            if number in self._errors.evidence.get(user, ()):
                self.remarks[_WRONG_EVIDENCE].append(question.id)
                keys = []
            elif len(keys) < len(question.evidence):
                self.remarks[_LOST_EVIDENCE].append(question.id)
            self.counts["probes"] += 1
            self.counts["places"] += len(keys)
            at = _place(conversation, question.session, names)
            probe = Probe(
                id=question.id,
                after=len(pairs[at]),
                question=question.text,
                answer=question.answer,
                kind=question.kind,
                aliases=question.aliases,
                evidence=list(dict.fromkeys(place for key in keys for place in places[key])),
                category=question.category,
            )
            asked[at].append(probe)
        return asked

    def _reason(self, question: Question, *, wrong: bool, keys: list[str]) -> Remark | None:
        """Return the reason for which a question is left out, if it is."""
        if question.id in self._exclude:
            return _EXCLUDED
        if wrong:
            return _WRONG
        return _NO_EVIDENCE if self._benchmark == "locomo" and not keys else None


def _place(conversation: Conversation, session: str | None, names: Mapping[str, str]) -> str:
    """Return the session that a question comes after: its own, the last with words before it, or the last."""
    found = [*names][-1]
    if session is not None:
        for each in conversation.sessions:
            found = each.key if each.key in names else found
            if each.key == session:
                break
    return found


def _pairs(session: Session) -> list[_Pair]:
    """Return the client's messages with the other side's after them; either may be missing in a pair."""
    pairs: list[_Pair] = []
    for message in session.messages:
        if not pairs or (message.client and pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][0 if message.client else 1].append(message)
    return pairs


def _turns(pair: _Pair) -> Iterator[dict[str, Any]]:
    """Yield the two turns of a pair: the client tells the words of both sides, with who said them.

    The agent makes a reply of its own, so that it would not hear those of the other side otherwise.
    """
    client, other = pair
    words = [f"{said.speaker}: {said.text}" for said in (*client, *other) if said.text.strip()]
    yield {"role": "user", "text": "\n".join(words) or "…"}
    yield {"role": "assistant", "text": "\n".join(said.text for said in other), "turn_tags": {}}
