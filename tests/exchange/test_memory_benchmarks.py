"""``memfin import`` of memory benchmarks: invented files in the published forms become sessions that run."""

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Session
from memfin.errors import UsageError
from memfin.exchange import memory_benchmarks
from memfin.exchange.memory_benchmarks import Errors, Published, conversations, import_benchmark, published
from memfin.text.bm25 import IncrementalBM25, terms
from memfin.validation import validate_path
from tests.client.faulty_server import FaultyServer
from tests.commands import run_command
from tests.judges.scripted_judge import fences
from tests.support import read_jsonl

LOCOMO: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "My new kayak is yellow."},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "Mine leaks.", "blip_caption": "a wet dog"},
        ],
        "session_2_date_time": "12:09 am on 13 September, 2023",
        "session_2": [
            {"speaker": "Bo", "dia_id": "D2:1", "text": "I moved to Lisbon."},
            {"speaker": "Ada", "dia_id": "D2:2", "text": "Good luck!"},
        ],
    },
    "qa": [
        {"question": "Which colour has the kayak?", "answer": "yellow", "evidence": ["D1:1"], "category": 4},
        {
            "question": "Whose kayak leaks in Lisbon?",
            "answer": "Bo",
            "evidence": ["D1:2; D02:1"],
            "category": 1,
        },
        {
            "question": "Where is Ada's piano?",
            "adversarial_answer": "here",
            "evidence": ["D1:1", "D"],
            "category": 5,
        },
        {"question": "When?", "answer": 2023, "evidence": [], "category": 2},
    ],
}
LONGMEMEVAL = {
    "question_id": "q7_abs",
    "question_type": "single-session-user",
    "question": "How old is my cat?",
    "answer": "You did not say.",
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_session_ids": ["b", "a"],
    "haystack_dates": ["2023/05/21 (Sun) 10:00", "2023/05/20 (Sat) 02:21"],
    "haystack_sessions": [
        [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
        [{"role": "user", "content": "I have a cat.", "has_answer": True}],
    ],
    "answer_session_ids": ["a"],
}
MEMORYAGENTBENCH = {
    "context": "Line one.\n" + "x" * 4000,
    "questions": ["Which line?", "Who wrote it?"],
    "answers": [["one", "1"], ["Mara Ellingsen"]],
    "metadata": {"source": "invented", "qa_pair_ids": ["set_no0", "set_no1"], "question_types": ["a", "b"]},
}
BEAM = {
    "conversation_id": "3",
    "chat": [
        [
            {"role": "user", "id": 0, "time_anchor": "March-05-2024", "content": "I run 5 km."},
            {"role": "assistant", "id": 1, "content": "Well done."},
        ]
    ],
    "probing_questions": repr(
        {
            "abstention": [{"question": "Do I swim?", "ideal_response": "Unknown.", "source_chat_ids": []}],
            "event_ordering": [
                {"question": "What came?", "answer": ["a run", "a rest"], "source_chat_ids": [[0], 9]}
            ],
        }
    ),
}
HALUMEM = {
    "uuid": "u1",
    "sessions": [
        {
            "start_time": "Sep 04, 2025, 18:37:00",
            "dialogue": [
                {"role": "user", "content": "I sold the boat."},
                {"role": "assistant", "content": "Oh."},
            ],
            "memory_points": [{"memory_content": "sold the boat"}],
            "questions": [
                {
                    "question": "Does the user have a boat?",
                    "answer": "No",
                    "evidence": [{"memory_content": "sold the boat"}],
                    "question_type": "Basic Fact Recall",
                }
            ],
        },
        {
            "start_time": "Sep 05, 2025, 08:00:00",
            "dialogue": [],
            "questions": [
                {"question": "Is it red?", "answer": "Unknown", "question_type": "Memory Boundary"}
            ],
        },
    ],
}
TOLD = "Ada: My new kayak is yellow.\nBo: Mine leaks. [picture: a wet dog]"
FORMS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "locomo": (
        [LOCOMO],
        [
            ("conv-1_s1", "2023-05-08T13:56:00", [TOLD]),
            ("conv-1_s2", "2023-09-13T00:09:00", ["Bo: I moved to Lisbon.", "Ada: Good luck!"]),
        ],
        [
            ("conv-1_q0", 2, "yellow", "text", [], ["conv-1_s1#1"], "4"),
            ("conv-1_q1", 2, "Bo", "name", [], ["conv-1_s1#1", "conv-1_s2#1"], "1"),
            ("conv-1_q2", 2, None, "text", [], ["conv-1_s1#1"], "5"),
        ],
    ),
    "longmemeval": (
        [LONGMEMEVAL],
        [
            ("q7_abs_s1", "2023-05-20T02:21:00", ["user: I have a cat."]),
            ("q7_abs_s2", "2023-05-21T10:00:00", ["user: Hello\nassistant: Hi"]),
        ],
        [("q7_abs", 1, None, "text", [], ["q7_abs_s1#1"], "single-session-user")],
    ),
    "memoryagentbench": (
        MEMORYAGENTBENCH,
        [("set_s1", None, ["user: Line one.", f"user: {'x' * 4000}"])],
        [
            ("set_no0", 2, "one", "text", ["1"], [], "a"),
            ("set_no1", 2, "Mara Ellingsen", "name", [], [], "b"),
        ],
    ),
    "beam": (
        BEAM,
        [("3_s1", "2024-03-05", ["user: I run 5 km.\nassistant: Well done."])],
        [
            ("3_abstention_0", 1, None, "text", [], [], "abstention"),
            ("3_event_ordering_0", 1, "a run; a rest", "text", [], ["3_s1#1"], "event_ordering"),
        ],
    ),
    "halumem": (
        HALUMEM,
        [("u1_s1", "2025-09-04T18:37:00", ["user: I sold the boat.\nassistant: Oh."])],
        [
            ("u1_s0_q0", 1, "No", "yes_no", [], ["u1_s1"], "Basic Fact Recall"),
            ("u1_s1_q0", 1, None, "text", [], [], "Memory Boundary"),
        ],
    ),
}


LOST = "with evidence in no place of the conversation, or in several, which is not scored"
NONE = "without evidence in the conversation left out"


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


@pytest.mark.parametrize("name", FORMS)
def test_each_form_becomes_users_with_sessions_and_probes(tmp_path: Path, name: str) -> None:
    record, sessions, probes = FORMS[name]
    out = tmp_path / "out.jsonl"
    found = import_benchmark(name, written(tmp_path / "in.json", record), out)
    lines = read_jsonl(out)
    texts = [[turn["text"] for turn in each["turns"] if turn["role"] == "user"] for each in lines]
    assert [
        (each["dialog_id"], each.get("session_time"), said) for each, said in zip(lines, texts, strict=True)
    ] == sessions
    assert {each["seed_source"] for each in lines} == {f"{name} sha256:{found.sha256}"}
    assert [each["session_index"] for each in lines] == [*range(1, len(lines) + 1)]
    names = ("id", "after", "answer", "kind", "aliases", "evidence", "category")
    assert [tuple(probe[each] for each in names) for line in lines for probe in line["probes"]] == probes
    assert (found.users, found.sessions, found.probes) == (1, len(sessions), len(probes))
    wordless = {("session", "without words left out"): ["u1 session 1"]} if name == "halumem" else {}
    assert {remark: ids for remark, ids in found.remarks.items() if remark[0] == "session"} == wordless
    assert found.places == sum(len(probe[5]) for probe in probes)
    assert [each for each in map(str, validate_path(out)) if "denominator of M2" not in each] == []


def test_the_date_of_a_question_stands_before_its_words(tmp_path: Path) -> None:
    import_benchmark("longmemeval", written(tmp_path / "in.json", LONGMEMEVAL), tmp_path / "out.jsonl")
    (probe,) = read_jsonl(tmp_path / "out.jsonl")[1]["probes"]
    assert probe["question"] == "Today is 2023-05-30T23:40:00. How old is my cat?"


def test_the_command_says_what_was_imported_and_what_was_not(tmp_path: Path) -> None:
    file, out = written(tmp_path / "locomo10.json", [LOCOMO]), tmp_path / "out.jsonl"
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "ids").write_text("conv-1_q1\nnowhere\n")
    words = ("import", "locomo", file, "--exclude-known-errors", "--expect-sha256")
    done = run_command(*words, sha256.upper(), "--exclude", tmp_path / "ids", "--out", out)
    assert done.stdout.splitlines() == [
        f"{file}: SHA-256 {sha256}, unknown edition",
        f"{out}: 1 user, 2 sessions, 2 probes with 2 places of evidence",
    ]
    assert done.stderr.splitlines() == [
        f"memfin: warning: {file}: unknown edition, so figures may not compare with published ones",
        "memfin: warning: no list of wrong answers ships for this edition, so none is left out",
        "memfin: warning: 1 question of --exclude left out: conv-1_q1 (this the first)",
        f"memfin: warning: 1 question {LOST}: conv-1_q2 (this the first)",
        f"memfin: warning: 1 question {NONE}: conv-1_q3 (this the first)",
        "memfin: warning: 1 question of --exclude not in the file: nowhere (this the first)",
    ]
    done = run_command(*words, "0" * 64, "--out", tmp_path / "other.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"memfin: {file}: its SHA-256 is {sha256}, not the expected {'0' * 64}; fetch the file again"
    ]


def test_questions_that_are_listed_as_wrong_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "in.json", [LOCOMO])
    errors = Errors(answers={"conv-1": [0]}, evidence={"conv-1": [1]})
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setattr(memory_benchmarks, "published", lambda: Published({sha256: "mine"}, {sha256: errors}))
    found = import_benchmark("locomo", file, tmp_path / "out.jsonl", exclude_errors=True)
    assert (found.edition, found.listed, found.probes, found.places) == ("mine", True, 2, 1)
    assert [ids for (_, remark), ids in found.remarks.items() if "known to be wrong" in remark] == [
        ["conv-1_q0"],
        ["conv-1_q1"],
    ]
    assert import_benchmark("locomo", file, tmp_path / "all.jsonl").probes == 3


def test_the_lists_are_of_known_editions() -> None:
    known = published()
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in known.editions)
    assert known.errors.keys() <= known.editions.keys()
    (locomo,) = known.errors.values()
    assert [sum(map(len, each.values())) for each in (locomo.answers, locomo.evidence)] == [99, 57]


def without(record: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("locomo", '[{"sample_id": "x",\n', ":1: no JSON"),
        ("locomo", json.dumps([LONGMEMEVAL]), ":1: no record of locomo, it has no field 'conversation'"),
        ("locomo", json.dumps([LOCOMO, LOCOMO]), ": two conversations are named 'conv-1'"),
        ("locomo", "[]", ": holds no conversation; nothing was written"),
        (
            "longmemeval",
            json.dumps(without(LONGMEMEVAL, "answer_session_ids")),
            "no field 'answer_session_ids'",
        ),
        ("longmemeval", json.dumps({**LONGMEMEVAL, "haystack_dates": []}), ":1: "),
        (
            "memoryagentbench",
            json.dumps({**MEMORYAGENTBENCH, "answers": [["a"], []]}),
            "'set_no1' has no answer",
        ),
        (
            "memoryagentbench",
            json.dumps({**MEMORYAGENTBENCH, "answers": [["a"]]}),
            "2 questions with 1 answers",
        ),
        ("beam", json.dumps({**BEAM, "probing_questions": "{"}), "neither JSON nor a literal of Python"),
        ("beam", json.dumps({**BEAM, "chat": [["words"]]}), ":1: "),
        ("halumem", json.dumps({**HALUMEM, "sessions": []}), ":1: the conversation has no words"),
        (
            "halumem",
            json.dumps({**HALUMEM, "sessions": ["words"]}),
            ":1: no record of halumem, it has another form",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / "in.json"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError) as refused:
        import_benchmark(name, file, tmp_path / "out.jsonl")
    assert str(refused.value).startswith(str(file))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.jsonl").exists()


class Recalling:
    """Agent that recalls, in whole, what has a word of more than three letters of the question."""

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        self.session, self.observer, self.turn = session, observer, 0
        self.restore(session.carried or b"[]")

    def reply(self, text: str) -> str:
        self.turn += 1
        sought = {word for word in terms(text) if len(word) > 3}
        found = [each for each in self.heard if sought & {*terms(each[2])}]
        items = [{"session_id": place, "turn_index": turn, "content": said} for place, turn, said in found]
        self.observer.recall(query=text, items=items)
        self.heard.append([self.session.session_id, self.turn, text])
        return found[0][2] if found else "I don't know, you have not told me that."

    def snapshot(self) -> bytes:
        return json.dumps(self.heard).encode()

    def restore(self, state: bytes) -> None:
        self.heard = json.loads(state)

    carry = snapshot


def summary_of(run: Path) -> dict[str, Any]:
    memory: dict[str, Any] = json.loads((run / "metrics_summary.json").read_text("utf-8"))["metrics"][
        "memory"
    ]
    return memory


@pytest.mark.parametrize("fork", ["snapshot", "replay"])
async def test_an_import_runs_and_its_evidence_is_looked_for_in_the_recall(tmp_path: Path, fork: str) -> None:
    data = tmp_path / "locomo.jsonl"
    import_benchmark("locomo", written(tmp_path / "in.json", [LOCOMO]), data)
    config: Any = {"judge": "none", "probe_fork": fork, "runs_dir": tmp_path, "workers_score": 0}
    await memfin.evaluate(str(data), agent=Recalling, run_id="r", **config)
    memory = summary_of(tmp_path / "r")
    assert memory["counts"]["evidence_any_total"] == 3
    # "kayak" finds the first session, "Lisbon" the second; the third question finds neither.
    assert (memory["micro"]["evidence_any"], memory["micro"]["evidence_all"]) == (2 / 3, 2 / 3)
    assert memory["micro"]["probed"] == 1.0
    assert "probe_strict" not in memory["micro"]


class Grading(FaultyServer):
    """A judge by the right answer's words that accepts all by the lenient prompt, and fails on some."""

    def completion(self, body: dict[str, Any], message: dict[str, Any], *, choices: bool = True) -> Any:
        parts = fences(body["messages"])
        is_lenient = "Be generous" in body["messages"][-1]["content"]
        right = is_lenient or parts.get("gold", "?") in parts["answer"]
        words = json.dumps({"reason": "by the words", "correct": right})
        document = super().completion(body, {"role": "assistant", "content": words}, choices=choices)
        document["choices"][0]["finish_reason"] = "length" if "piano" in parts["question"] else "stop"
        return document


async def test_a_judge_grades_the_answers_to_probes_by_two_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "locomo.jsonl"
    record = {**LOCOMO, "qa": [*LOCOMO["qa"], {**LOCOMO["qa"][0], "answer": "mustard"}]}
    import_benchmark("locomo", written(tmp_path / "in.json", [record]), data)
    config: Any = {"agent": Recalling, "runs_dir": tmp_path, "grade_probes": True, "workers_score": 0}
    async with Grading() as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        await memfin.evaluate(str(data), judge="openai:m", run_id="r", report=True, **config)
    memory = summary_of(tmp_path / "r")
    # The question on which the judge fails has no grade; "mustard" is right to the lenient prompt alone.
    assert {
        name: memory["counts"][f"{name}_total"] for name in ("probed", "probe_lenient", "probe_strict")
    } == {
        "probed": 4,
        "probe_lenient": 3,
        "probe_strict": 3,
    }
    assert (memory["micro"]["probe_lenient"], memory["micro"]["probe_strict"]) == (1.0, 2 / 3)
    stats = json.loads((tmp_path / "r" / "run_stats.json").read_text("utf-8"))
    assert (stats["judged_turns"], stats["judge_failures"]) == (8, 2)
    votes = read_jsonl(tmp_path / "r" / "judgements.jsonl")
    assert Counter((vote["grade"], vote["verdict"] is None) for vote in votes) == {
        (grade, failed): 1 if failed else 3 for grade in ("lenient", "strict") for failed in (True, False)
    }
    assert "Probes right by the strict prompt" in (tmp_path / "r" / "report.md").read_text("utf-8")
    with pytest.raises(UsageError, match="--grade-probes: only a judge openai:MODEL grades"):
        await memfin.evaluate(str(data), run_id="other", **config)


REAL = os.environ.get("MEMFIN_LOCOMO")


@pytest.mark.skipif(not REAL, reason="MEMFIN_LOCOMO names no locomo10.json (not shipped: CC BY-NC)")
def test_the_published_file_has_its_probes_and_bm25_finds_its_evidence(tmp_path: Path) -> None:
    assert REAL
    found = import_benchmark("locomo", Path(REAL), tmp_path / "out.jsonl")
    assert (found.users, found.probes, found.places) == (10, 1982, 2819)
    hits, keys = Counter[int](), 0
    for conversation in conversations("locomo", Path(REAL)):
        said = [message for session in conversation.sessions for message in session.messages]
        index = IncrementalBM25(newest=len(said))
        for message in said:
            index.add(Counter(terms(message.text)))
        known = {message.key for message in said}
        for question in conversation.questions:
            evidence = known & set(question.evidence)
            keys += len(evidence)
            ranked = [said[match.document].key for match in index.search(terms(question.text), 20)]
            for most in (5, 10, 20):
                hits[most] += len(evidence & set(ranked[:most]))
    assert keys == 2819
    assert [hits[most] / keys for most in (5, 10, 20)] == pytest.approx([0.462, 0.544, 0.613], abs=0.01)
