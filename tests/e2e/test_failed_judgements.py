"""Judgements that fail are told: on stderr, in the metrics, in the report, by a gate."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.client.faulty_server import FaultyServer
from tests.commands import run_beside_us
from tests.judges.scripted_judge import verdict
from tests.support import dataset

ROOT = Path(__file__).resolve().parents[2]


async def command(*arguments: str, url: str) -> tuple[int, str, list[str]]:
    """Run the command; return the exit code, standard output and the lines of standard error."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "MEMFIN_JUDGE_BASE_URL": url}
    done = await run_beside_us(*arguments, env=environment)
    return done.returncode, done.stdout, done.stderr.splitlines()


class FailsAt(FaultyServer):
    """Cuts its answers to prompts that hold certain words: a judgement that fails at once."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self._words = words

    def completion(self, body: dict[str, Any], message: dict[str, Any], *, choices: bool = True) -> Any:
        fails = any(word in body["messages"][-1]["content"] for word in self._words)
        document = super().completion(body, {"role": "assistant", "content": verdict(body)}, choices=choices)
        document["choices"][0]["finish_reason"] = "length" if fails else "stop"
        return document


def words(tmp_path: Path, *more: str) -> list[str]:
    data = dataset(tmp_path / "data.jsonl", 4)
    runs = f"--runs-dir={tmp_path / 'runs'}"
    return ["run", str(data), "--agent=echo", "--judge=openai:m", runs, "--run-id=r", *more]


def replace(path: Path, text: str, other: str) -> None:
    path.write_text(path.read_text("utf-8").replace(text, other), "utf-8")


WARNING = (
    "memfin: warning: judge: 3 of 12 judgements failed (25.0%), most often: "
    "the answer is longer than 2048 tokens; --judge-max-tokens allows more"
)


@pytest.mark.parametrize("how", [(), ("--quiet",), ("--json",)])
async def test_failed_judgements_are_told_at_the_end_in_the_table_and_in_the_report(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    async with FailsAt("d0001：") as server:
        code, out, err = await command(*words(tmp_path, *how), url=server.base_url)
    assert code == 0
    assert err.count(WARNING) == 1
    if not how:
        (m5,) = [line.split() for line in out.splitlines() if line.startswith("M5 Rubric")]
        assert m5[-3:] == ["9", "0", "3"]
    run_dir = tmp_path / "runs" / "r"
    counts = json.loads((run_dir / "metrics_summary.json").read_bytes())["metrics"]["m5_explainability"][
        "counts"
    ]
    assert (counts["eligible_count"], counts["skipped_count"], counts["failed_count"]) == (9, 0, 3)
    report = (run_dir / "report.md").read_text("utf-8")
    trust = report[report.index("Before you trust") :]
    assert "Judgements failed" in trust
    assert "3 of 12 judged turns (25.0 %) got no verdict" in trust
    assert "Judgements failed" in (run_dir / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("limit", "code"), [("3", 1), ("4", 0), ("0.25", 1), ("0.3", 0), ("0", 1)])
async def test_the_gate_on_failed_judgements(tmp_path: Path, limit: str, code: int) -> None:
    async with FailsAt("d0001：") as server:
        got, _, err = await command(
            *words(tmp_path, "--quiet", "--fail-on-judge-error", limit, "--fail-on-error=0"),
            url=server.base_url,
        )
    assert got == code
    if code:
        assert err[-1] == (f"memfin: --fail-on-judge-error {limit}: 3 of 12 judgements failed (25.0%)")


async def test_a_run_whose_judge_gave_no_verdict_fails(tmp_path: Path) -> None:
    async with FailsAt("d000", "好的", "All right", "回答") as server:
        code, _, err = await command(*words(tmp_path, "--quiet"), url=server.base_url)
        assert code == 1
        assert err[-1] == "memfin: the judge gave no verdict on any of the 12 turns it was asked about"
        again, _, err = await command("resume", str(tmp_path / "runs" / "r"), "--quiet", url=server.base_url)
        assert (again, err[-1].startswith("memfin: the judge gave no verdict")) == (1, True)
        trace = tmp_path / "runs" / "r" / "dialog_trace.jsonl"
        code, _, err = await command(
            "score",
            str(trace),
            f"--dataset={tmp_path / 'data.jsonl'}",
            f"--out={tmp_path / 'scored'}",
            "--judge=openai:m",
            "--quiet",
            url=server.base_url,
        )
    assert (code, err[-1].startswith("memfin: the judge gave no verdict")) == (1, True)
    assert (tmp_path / "scored" / "report.html").is_file()


async def test_a_warning_of_the_controls_is_told_once(tmp_path: Path) -> None:
    def generous(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "score": 5})

    async with FaultyServer(responder=generous) as server:
        code, _, err = await command(*words(tmp_path, "--quiet"), url=server.base_url)
    assert code == 0
    told = [line for line in err if "judge control: a reply that says nothing" in line]
    assert len(told) == 1


async def test_replies_that_are_too_long_are_told(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    lines = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    lines[0]["turns"][0]["text"] += "字" * 70_000
    data.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    async with FaultyServer(responder=verdict) as server:
        arguments = ["run", str(data), "--agent=echo", "--judge=openai:m", "--judge-scope=all", "--quiet"]
        code, _, err = await command(
            *arguments, f"--runs-dir={tmp_path / 'runs'}", "--run-id=r", url=server.base_url
        )
    assert code == 0
    assert (
        "memfin: warning: judge: replies that escaped the judge: 1 too long to be judged; the rules "
        "read them for M1, M3 and M4, nobody for M5"
    ) in err
    assert "Replies escaped the judge" in (tmp_path / "runs" / "r" / "report.md").read_text("utf-8")


@pytest.mark.parametrize("controls", [True, False])
async def test_https_to_a_server_of_http_ends_at_once(tmp_path: Path, *, controls: bool) -> None:
    async with FaultyServer(responder=verdict) as server:
        url = server.base_url.replace("http://", "https://")
        arguments = words(tmp_path, "--quiet")
        if not controls:  # no turn has a rubric; the first reply is the first call
            replace(Path(arguments[1]), '["信息依据", "边界声明"]', "[]")
            arguments.append("--judge-scope=all")
        code, _, err = await command(*arguments, url=url)
        assert code == 2
        assert err[-1].startswith("memfin: judge openai:m: https://")
        assert err[-1].endswith("Then use http:// in MEMFIN_JUDGE_BASE_URL")
        assert "Traceback" not in "".join(err)
        if os.path.exists(tmp_path / "runs" / "r"):  # noqa: ASYNC240, PTH110 - a reply was there, and is kept
            code, _, err = await command(
                "resume", str(tmp_path / "runs" / "r"), "--quiet", url=server.base_url
            )
            assert code == 0


@pytest.mark.parametrize(
    ("status", "look"),
    [
        (401, "look at MEMFIN_JUDGE_API_KEY (not set)"),
        (403, "look at MEMFIN_JUDGE_API_KEY (not set)"),
        (404, "look at MEMFIN_JUDGE_BASE_URL and the model's name"),
    ],
)
async def test_what_is_refused_from_the_start_is_told_early_and_once(
    tmp_path: Path, status: int, look: str
) -> None:
    class Refuses(FaultyServer):
        async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
            return web.json_response({"error": {"message": "no"}}, status=status)

    async with Refuses() as server:
        code, _, err = await command(*words(tmp_path, "--quiet"), url=server.base_url)
    assert code == 1
    told = [line for line in err if line.endswith(look)]
    assert len(told) == 1
    assert err.index(told[0]) == 0
    assert f"HTTP {status}: no" in told[0]
