"""Published file formats of memory benchmarks: LoCoMo, LongMemEval, MemoryAgentBench, BEAM, HaluMem."""

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from memfin.contracts.ledger import AnswerKind

_SESSION: Final = re.compile(r"session_(\d+)")
_EVIDENCE: Final = re.compile(r"D\W*(\d+)\W+(\d+)")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d|(?:{_DAY} )?{_MONTH},? \d{{4}}|{_MONTH} {_DAY}(?:,? \d{{4}})?", re.IGNORECASE
)
_TIMES: Final = (
    "%I:%M %p on %d %B, %Y",  # LoCoMo
    "%Y/%m/%d (%a) %H:%M",  # LongMemEval
    "%b %d, %Y, %H:%M:%S",  # HaluMem
    "%B-%d-%Y",  # BEAM
)
_CHUNK: Final = 4000
"""Characters of a context without turns that one turn tells at most."""

_BEAM_ANSWERS: Final = ("ideal_response", "ideal_answer", "answer", "expected_compliance", "ideal_summary")


class Message(NamedTuple):
    """Words of one side; ``key`` is what evidence calls them, or empty."""

    client: bool
    speaker: str
    text: str
    key: str = ""


class Session(NamedTuple):
    """A session; ``time`` is in ISO 8601, None where the file has none that can be read."""

    key: str
    time: str | None
    messages: list[Message]


class Question(NamedTuple):
    """A question after a session, the last if None; no ``answer`` is the answer that nothing is known.

    ``evidence`` are keys of messages or sessions.
    """

    id: str
    text: str
    answer: str | None
    kind: AnswerKind
    aliases: list[str]
    category: str | None
    evidence: list[str]
    session: str | None = None


class Conversation(NamedTuple):
    """A user with sessions and questions."""

    user_id: str
    sessions: list[Session]
    questions: list[Question]


def locomo(record: Mapping[str, Any]) -> Conversation:
    """Return a sample of ``locomo10.json``: ``speaker_a`` is the client, captions of pictures are kept."""
    conversation, client = record["conversation"], record["conversation"]["speaker_a"]
    numbers = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    sessions = []
    for number in numbers:
        messages = []
        for turn in _list(conversation[f"session_{number}"]):
            caption = f" [picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            messages.append(
                Message(
                    turn["speaker"] == client, turn["speaker"], f"{turn['text']}{caption}", turn["dia_id"]
                )
            )
        sessions.append(
            Session(f"session_{number}", _time(conversation.get(f"session_{number}_date_time")), messages)
        )
    questions = []
    for index, item in enumerate(_list(record["qa"])):
        category = int(item["category"])
        places = [
            f"D{int(session)}:{int(turn)}"  # "D8:6; D9:17", "D:11:26", "D30:05" and "D" are in the file
            for text in _list(item.get("evidence"))
            for session, turn in _EVIDENCE.findall(str(text)) or [(0, 0)]
        ]
        evidence = list(dict.fromkeys(places))
        answer = None if category == 5 else item["answer"]  # noqa: PLR2004 - adversarial: it is not told
        questions.append(
            _question(f"{record['sample_id']}_q{index}", item["question"], answer, str(category), evidence)
        )
    return Conversation(str(record["sample_id"]), sessions, questions)


def longmemeval(record: Mapping[str, Any]) -> Conversation:
    """Return an instance of LongMemEval; the date of its question stands before its words."""
    name, sessions, evidence = str(record["question_id"]), [], []
    ids, dates = record["haystack_session_ids"], record["haystack_dates"]
    for place, (session, date, turns) in enumerate(zip(ids, dates, record["haystack_sessions"], strict=True)):
        messages = _chat(turns, f"{place}:")
        sessions.append(Session(f"{place}", _time(date), messages))
        marked = [f"{place}:{turn}" for turn, said in enumerate(turns) if said.get("has_answer")]
        if session in record["answer_session_ids"]:
            evidence += marked or [f"{place}"]
    date = _time(record.get("question_date"))
    text = f"Today is {date}. {record['question']}" if date else record["question"]
    answer = None if name.endswith("_abs") else record["answer"]
    question = _question(name, text, answer, record["question_type"], evidence)
    return Conversation(name, sessions, [question])


def memoryagentbench(record: Mapping[str, Any]) -> Conversation:
    """Return a row of MemoryAgentBench: its context is told in pieces, its questions follow."""
    metadata = _parsed(record.get("metadata")) or {}
    ids = _list(metadata.get("qa_pair_ids"))
    questions, answers = _list(_parsed(record["questions"])), _list(_parsed(record["answers"]))
    if len(questions) != len(answers):
        raise ValueError(f"{len(questions)} questions with {len(answers)} answers")
    if not questions:
        raise ValueError("it has no questions")
    if not (name := str(ids[0]).rpartition("_no")[0] if ids else ""):
        digest = hashlib.sha256(record["context"].encode()).hexdigest()[:8]
        name = f"{metadata.get('source') or 'context'}_{digest}"
    types = _list(metadata.get("question_types"))
    found = [
        _question(
            str(ids[place]) if place < len(ids) else f"{name}_q{place}",
            text,
            answers[place],
            str(types[place]) if place < len(types) else metadata.get("source"),
            [],
        )
        for place, text in enumerate(questions)
    ]
    messages = [Message(client=True, speaker="user", text=piece) for piece in _pieces(record["context"])]
    told = [each for said in messages for each in (said, Message(client=False, speaker="assistant", text=""))]
    return Conversation(name, [Session("context", None, told)], found)


def beam(record: Mapping[str, Any]) -> Conversation:
    """Return a conversation of BEAM: its batches are sessions; chats of 10M tokens are lists of plans."""
    name, sessions = str(record["conversation_id"]), []
    for number, batch in enumerate(_batches(record["chat"])):
        anchor = next((said["time_anchor"] for said in batch if said.get("time_anchor")), None)
        messages = [
            Message(said["role"] == "user", said["role"], said["content"], str(said.get("id", "")))
            for said in batch
        ]
        sessions.append(Session(f"batch {number}", _time(anchor), messages))
    questions = []
    for ability, items in dict(_parsed(record["probing_questions"])).items():
        for index, item in enumerate(items):
            answer = next((item[field] for field in _BEAM_ANSWERS if item.get(field)), None)
            if answer is None:
                raise ValueError(f"question {index} of {ability} has none of {', '.join(_BEAM_ANSWERS)}")
            if isinstance(answer, list):  # in its order, no choice of answers
                answer = "; ".join(map(str, answer))
            answer = None if ability == "abstention" else answer
            evidence = list(dict.fromkeys(_leaves(item.get("source_chat_ids"))))
            questions.append(
                _question(f"{name}_{ability}_{index}", item["question"], answer, ability, evidence)
            )
    return Conversation(name, sessions, questions)


def halumem(record: Mapping[str, Any]) -> Conversation:
    """Return a user of HaluMem: each session's questions follow it; evidence is where a memory was told."""
    name, sessions, questions = str(record["uuid"]), [], []
    told: dict[str, str] = {}
    for number, session in enumerate(record["sessions"]):
        key = f"session {number}"
        sessions.append(Session(key, _time(session.get("start_time")), _chat(session["dialogue"], "")))
        for point in _list(session.get("memory_points")):
            told.setdefault(point["memory_content"], key)
        for index, item in enumerate(_list(session.get("questions"))):
            category = item.get("question_type")
            contents = [str(point.get("memory_content")) for point in _list(item.get("evidence"))]
            evidence = list(dict.fromkeys(told.get(content, content) for content in contents))
            answer = None if category == "Memory Boundary" else item["answer"]
            question = _question(f"{name}_s{number}_q{index}", item["question"], answer, category, evidence)
            questions.append(question._replace(session=key))
    return Conversation(name, sessions, questions)


def kind_of(answer: str, question: str) -> AnswerKind:
    """Return how an answer is compared: by what it says if its form is that of one value, else as words."""
    if answer.lower().rstrip(".") in {"yes", "no"}:
        return "yes_no"
    if _DATE.fullmatch(answer) or (re.fullmatch(r"(?:19|20)\d\d", answer) and "year" in question.lower()):
        return "date"
    if _NUMBER.fullmatch(answer):
        return "number"
    if re.match(r"(?i)who(?:se|m)?\b", question) and all(word[:1].isupper() for word in answer.split()):
        return "name"
    return "text"


def _question(id_: str, text: str, answer: Any, category: str | None, evidence: list[str]) -> Question:
    """Return a question; of several acceptable answers the first counts as the value."""
    if answer is None:
        return Question(id_, text, None, "text", [], category, evidence)
    if answer == []:
        raise ValueError(f"question {id_!r} has no answer")
    first, *others = [str(each) for each in answer] if isinstance(answer, list) else [str(answer)]
    return Question(id_, text, first, kind_of(first, text), others, category, evidence)


def _chat(turns: Sequence[Mapping[str, Any]], prefix: str) -> list[Message]:
    """Return messages with roles; with a prefix their places are their keys."""
    return [
        Message(said["role"] == "user", said["role"], said["content"], f"{prefix}{place}" if prefix else "")
        for place, said in enumerate(turns)
    ]


def _batches(chat: Any) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the batches of a chat: lists of messages or turns, records with ``turns``, or plans of them."""
    for item in chat:
        if isinstance(item, Mapping) and "turns" in item:
            yield list(_messages(item["turns"]))
        elif isinstance(item, Mapping) and "role" not in item:
            for plan in item.values():
                yield from _batches(plan or ())
        else:
            yield list(_messages(item))


def _messages(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
    else:
        for each in value:
            yield from _messages(each)


def _leaves(value: Any) -> Iterator[str]:
    """Yield the ids in nested lists and mappings."""
    if isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)


def _parsed(value: Any) -> Any:
    """Return a value that may stand as JSON or as a literal of Python in a text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        pass
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        raise ValueError("a list of questions is neither JSON nor a literal of Python") from None


def _pieces(context: str) -> Iterator[str]:
    """Yield the context in pieces that end with a line where they can."""
    while context:
        end = len(context) if len(context) <= _CHUNK else context.rfind("\n", 1, _CHUNK) + 1 or _CHUNK
        if piece := context[:end].strip():
            yield piece
        context = context[end:]


def _time(text: Any) -> str | None:
    """Return a date or time of one of the forms in ISO 8601; None for any other text."""
    for form in _TIMES if isinstance(text, str) else ():
        try:
            found = datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the files name no zone
        except ValueError:
            continue
        return found.date().isoformat() if form == _TIMES[-1] else found.isoformat()
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
