"""Files that pages take for granted: datasets, agents, labels, benchmarks and earlier runs of the reader."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from memfin.contracts.memory import ConsentScopes, Preferences
from memfin.dataset import SAMPLE
from memfin.memory import MemoryStore
from memfin.rag import benchmark
from tests.commands import run_command
from tests.docs.pages import ROOT, blocks
from tests.rag.rag_documents import a_pdf

LABELS: Final = ROOT / "tests" / "fixtures" / "labels"

SYSTEM: Final = """class MyRag:
    def __init__(self, document):
        pass

    def query(self, question):
        if "pay" in question:
            quote = {"page": 1, "quote": "I paid 42000 yuan"}
            return {"answer": "42000", "amount": 42000, "citation": [quote]}
        return {"answer": "The record does not say.", "abstained": True}


create = MyRag
"""
JUDGE: Final = """class create:
    def judge(self, request):
        return {"faithfulness": 5, "answer_correctness": 5}
"""
RECORD: Final = (
    "Q: How much did you pay? A: I paid 42000 yuan.",
    "Q: What for? A: I do not remember what for.",
)
FACT: Final = {
    "id": "f1",
    "type": "fact_exact",
    "question": "How much did you pay?",
    "expected": {"amount_total": 42000},
    "required_evidence": [{"page": 1, "must_include": "42000"}],
}
GAP: Final = {
    "id": "g1",
    "type": "conflict_gap",
    "question": "What was it for?",
    "should_abstain": True,
    "required_quote": "I do not remember",
    "evidence_location": {"page": 2},
}
CHAT: Final = {
    "messages": [
        {"role": "user", "content": "保本吗？"},
        {"role": "assistant", "content": "净值会波动，不保本。"},
    ]
}
EVIDENCE: Final = {
    "evidence_text": "I paid 42000 yuan.",
    "evidence_page_num": 0,
    "evidence_text_full_page": RECORD[0],
}
FINANCEBENCH: Final = {
    "doc_name": "PELLWORM_2021_10K",
    "question": "How much did you pay?",
    "answer": "42000",
    "evidence": [EVIDENCE],
}
RAGAS: Final = "user_input,reference,reference_contexts\nHow much?,42000,\"['I paid 42000 yuan.']\"\n"
REPLY: Final = "净值会波动，不保本。\n"
ALWAYS: Final = ("my_dialogs.jsonl", "my_agent.py", "my_rag.py")
NAMED: Final = {
    "runs/first": ("memfin mcp runs",),
    "data": ("memfin memory token add alice\n",),
    "data/my_dialogs.jsonl": ("--datasets data",),
}
"""What a page writes where that is not the name of the file."""

COMMANDS: Final = {
    "run": ("run", "my_dialogs.jsonl", "--agent", "my_agent:MyAgent"),
    "bench": ("bench", "my_benchmark", "--rag", "my_rag:MyRag"),
}


class Props:
    """Makes what a page names in its folder; runs are made once, and copied.

    Attributes:
        makers: by what a page writes, the function that makes it at a path.
    """

    def __init__(self, made: Path) -> None:
        self._made = made
        agent = next(
            block.text for block in blocks(ROOT / "docs" / "ten-minutes.md") if block.language == "python"
        )
        dialogs = "".join(SAMPLE.read_text("utf-8").splitlines(keepends=True)[:3])
        self.makers: dict[str, Callable[[Path], object]] = {
            "my_dialogs.jsonl": text(dialogs),
            "my_agent.py": text(agent),
            "mypackage/agent.py": text(f"{agent}\n\ncreate = MyAgent\n"),
            "mypackage/rag.py": text(SYSTEM),
            "mypackage/judges.py": text(JUDGE),
            "my_rag.py": text(SYSTEM),
            "my_benchmark": make_benchmark,
            "my-benchmark": make_benchmark,
            "interview.md": copy(benchmark.SAMPLE / "interview.md"),
            "record.pdf": lambda path: path.write_bytes(a_pdf(*RECORD)),
            "reply.md": text(REPLY),
            "replies.jsonl": lines({"text": "净值会波动。"}),
            "labels.jsonl": text("".join(labels()[:5])),
            "more.jsonl": text("".join(labels()[5:10])),
            "log.jsonl": lines(CHAT),
            "financebench.jsonl": lines(FINANCEBENCH),
            "ragas.csv": text(RAGAS),
            "dialog.json": lines(json.loads(dialogs.splitlines()[0]) | {"dialog_id": "new"}),
            "my.jsonl": text(dialogs),
            "spans.jsonl": self._spans,
            "runs/first": self._run,
            "data": store_of_alice,
            "data/my_dialogs.jsonl": text(dialogs),
            "runs/damaged": self._damaged_run,
            "runs/RUN_ID": self._interrupted_run,
            "runs/20260219_101855_ab12cd": self._interrupted_run,
            "runs/before": self._run,
            "runs/after": self._run,
            "runs/other": self._run,
            "runs/my_run": self._run,
        }

    def prepare(self, page: Path, folder: Path) -> None:
        """Make in a folder what a page names."""
        self._suite = "bench" if page.stem.startswith("rag") else "run"
        written = "".join(block.text for block in blocks(page))
        for name, make in self.makers.items():
            module = name.removesuffix(".py").replace("/", ".")
            if name in ALWAYS or any(words in written for words in NAMED.get(name, (name, module))):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                make(folder / name)

    def _finished(self) -> Path:
        """Return the directory of a finished run of the page's suite, which is made the first time."""
        folder = self._made / self._suite
        if not folder.exists():
            folder.mkdir()
            for name in ("my_dialogs.jsonl", "my_agent.py", "my_rag.py", "my_benchmark"):
                self.makers[name](folder / name)
            done = run_command(*COMMANDS[self._suite], "--run-id", "finished", "--quiet", cwd=folder)
            assert done.returncode == 0, done.stderr
        return folder / "runs" / "finished"

    def _spans(self, path: Path) -> None:
        done = run_command("export", self._finished(), "--to", "otel", "--out", path.with_name("otel"))
        assert done.returncode == 0, done.stderr
        path.with_name("otel").joinpath("spans.jsonl").rename(path)

    def _run(self, path: Path) -> None:
        shutil.copytree(self._finished(), path)

    def _interrupted_run(self, path: Path) -> None:
        self._run(path)
        commits = path / "commits.log"
        commits.write_bytes(b"".join(commits.read_bytes().splitlines(keepends=True)[:-1]))

    def _damaged_run(self, path: Path) -> None:
        self._run(path)
        rows = path / "turn_eval.jsonl"
        rows.write_bytes(rows.read_bytes()[:-10])


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content, "utf-8")


def lines(*records: object) -> Callable[[Path], object]:
    return text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records))


def copy(source: Path) -> Callable[[Path], object]:
    return lambda path: shutil.copy(source, path)


def labels() -> list[str]:
    return (LABELS / "cases_dev.jsonl").read_text("utf-8").splitlines(keepends=True)


def store_of_alice(path: Path) -> None:
    scopes = ConsentScopes(
        create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
    )
    with MemoryStore(path) as store:
        store.grant_consent("alice", scopes, Preferences())


def make_benchmark(path: Path) -> None:
    (path / "questions").mkdir(parents=True)
    (path / "interview.md").write_text(
        "\n".join(f"<!-- page {number} -->\n{words}" for number, words in enumerate(RECORD, 1)), "utf-8"
    )
    for name, question in (("facts", FACT), ("gaps", GAP)):
        content = {"benchmark_type": question["type"], "document": "interview.md", "questions": [question]}
        (path / "questions" / f"{name}.json").write_text(json.dumps(content), "utf-8")
