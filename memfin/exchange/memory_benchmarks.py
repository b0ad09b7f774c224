"""Importers of memory benchmarks: files that the user fetches become sessions with probes (dataset v1.2)."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts.ledger import Probe
from memfin.errors import RunFault, UsageError
from memfin.exchange.memory_formats import (
    Conversation,
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

EDITIONS: Final = {
    "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4": "locomo10.json, snap-research/locomo",
    "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c": (
        "longmemeval_oracle.json, longmemeval-cleaned"
    ),
    "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442": (
        "longmemeval_s_cleaned.json, longmemeval-cleaned"
    ),
}
"""Published files by their SHA-256."""

KNOWN_ERRORS: Final[Mapping[str, Mapping[str, str]]] = {
    "locomo": {
        "conv-26:fff7f081ca79": "the month of the event is not that of the question (snap-research/locomo#27)",
        "conv-26:e42bf21b2994": "the thing belongs to the other speaker (snap-research/locomo#27)",
    },
}
"""Questions whose published answer is known to be wrong, by benchmark and ``question_key``."""


class Imported(NamedTuple):
    """Counts of an import; ``keys`` are the places of evidence, ``remarks`` the ids of questions by reason."""

    edition: str | None
    sha256: str
    users: int
    sessions: int
    probes: int
    keys: int
    remarks: dict[str, list[str]]


def import_benchmark(
    benchmark: str,
    path: Path,
    out: Path,
    *,
    expect: str | None = None,
    exclude: Sequence[str] = (),
    known_errors: bool = False,
    both: bool = True,
) -> Imported:
    """Write the conversations of a file as users with sessions, and its questions as probes after them.

    With ``both`` the words of both sides go to the agent, else only the client's. ``exclude`` has ids of
    probes; ``known_errors`` leaves those of `KNOWN_ERRORS` out.

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
    edition = EDITIONS.get(sha256)
    source = {"benchmark": benchmark, "sha256": sha256, "edition": edition}
    counts: Counter[str] = Counter()
    remarks: dict[str, list[str]] = defaultdict(list)
    left_out = dict.fromkeys(exclude, "excluded by --exclude")
    wrong = KNOWN_ERRORS.get(benchmark, {}) if known_errors else {}
    users: set[str] = set()

    def lines() -> Iterator[bytes]:
        for conversation in conversations(benchmark, path):
            if conversation.user_id in users:
                raise UsageError(f"{path}: two conversations are named {conversation.user_id!r}")
            users.add(conversation.user_id)
            kept = []
            for question in conversation.questions:
                if question.id in left_out or question_key(conversation, question.text) in wrong:
                    remarks[left_out.get(question.id, "known to have a wrong answer, excluded")].append(
                        question.id
                    )
                elif benchmark == "locomo" and not question.evidence:
                    remarks["without usable evidence left out"].append(question.id)
                else:
                    kept.append(question)
                    counts["keys"] += len(question.evidence)
            counts["probes"] += len(kept)
            for line in _lines(conversation._replace(questions=kept), source, both=both):
                counts["sessions"] += 1
                yield msgspec.json.encode(line) + b"\n"
        if not users:
            raise UsageError(f"{path}: holds no conversation; nothing was written")

    try:
        Disk().write_whole(out, lines())
    except OSError as problem:
        raise RunFault(f"{out}: {problem.strerror or problem}") from problem
    found = {probe for probes in remarks.values() for probe in probes}
    if absent := [probe for probe in left_out if probe not in found]:
        remarks["to exclude not in the file"] = absent
    return Imported(
        edition, sha256, len(users), counts["sessions"], counts["probes"], counts["keys"], dict(remarks)
    )


def conversations(benchmark: str, path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file, one in memory at a time; errors begin with the place in the file."""
    for where, record in read_records(path):
        with errors_at(where):
            try:
                conversation = READERS[benchmark](record)
            except KeyError as problem:
                raise UsageError(f"{where}: no {benchmark} record: it has no field {problem}") from None
            if not any(session.messages for session in conversation.sessions):
                raise UsageError(f"{where}: the conversation has no words")
        yield conversation


def question_key(conversation: Conversation, text: str) -> str:
    """Return the key of a question in `KNOWN_ERRORS`: it changes with the words and not with the order."""
    return f"{conversation.user_id}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem


def _lines(conversation: Conversation, source: Mapping[str, Any], *, both: bool) -> Iterator[dict[str, Any]]:
    """Yield the lines of the sessions that have words, in order of their times if all have one."""
    sessions = [session for session in conversation.sessions if session.messages]
    if all(session.time for session in sessions):
        sessions.sort(key=lambda session: session.time or "")
    user = conversation.user_id.replace("#", "_")
    pairs = {session.key: _pairs(session) for session in sessions}
    names = {session.key: f"{user}_s{number}" for number, session in enumerate(sessions)}
    places: dict[str, set[str]] = defaultdict(set)
    for session in sessions:
        places[session.key].add(names[session.key])
        for turn, pair in enumerate(pairs[session.key], 1):
            for message in (*pair[0], *pair[1]):
                if message.key:
                    places[message.key].add(f"{names[session.key]}#{turn}")
    asked: dict[str, list[Probe]] = defaultdict(list)
    for question in conversation.questions:
        at = question.session if question.session in names else sessions[-1].key
        # A key that several places have says nothing about which of them is meant.
        evidence = [min(places[key]) for key in question.evidence if len(places.get(key, ())) == 1]
        asked[at].append(
            Probe(
                id=question.id,
                after=len(pairs[at]),
                question=question.text,
                answer=question.answer,
                kind=question.kind,
                aliases=question.aliases,
                evidence=list(dict.fromkeys(evidence)),
                category=question.category,
            )
        )
    for index, session in enumerate(sessions):
        turns: list[dict[str, Any]] = []
        for client, other in pairs[session.key]:
            words = [f"{message.speaker}: {message.text}" for message in (*client, *other)]
            turns += (
                {
                    "role": "user",
                    "text": "\n".join(words if both else [m.text for m in client]).strip() or "…",
                },
                {"role": "assistant", "text": "\n".join(m.text for m in other), "turn_tags": {}},
            )
        keyed = {key: place for key, found in places.items() for place in found if "#" in place}
        line = {
            "dialog_id": names[session.key],
            "profile_gt": {},
            "turns": turns,
            "seed_source": source["benchmark"],
            "seed_data": {
                **source,
                "session": session.key,
                "messages": {
                    key: int(place.rpartition("#")[2])
                    for key, place in keyed.items()
                    if place.rpartition("#")[0] == names[session.key]
                },
            },
            "user_id": user,
            "session_index": index,
            "session_time": session.time,
            "probes": asked[session.key],
        }
        yield {name: value for name, value in line.items() if value is not None}


def _pairs(session: Session) -> list[tuple[list[Any], list[Any]]]:
    """Return the client's messages with the other side's after them; either may be missing in a pair."""
    pairs: list[tuple[list[Any], list[Any]]] = []
    for message in session.messages:
        if not pairs or (message.client and pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][0 if message.client else 1].append(message)
    return pairs
