"""The MCP server, within the test and as a process of its own, asked by the official SDK's client."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from memfin.cli.mcp import _check
from memfin.dataset import SAMPLE
from memfin.runtime import run_eval_parallel
from tests.support import on_use

if find_spec("mcp") is None:
    pytest.skip("mcp is not installed", allow_module_level=True)
mcp = on_use("mcp")

ROOT = Path(__file__).resolve().parents[2]
READING = ["list_runs", "run_summary", "worst_turns", "read_dialog", "compare_runs", "check_reply"]
COMMAND = ("-m", "memfin", "mcp")
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), "PYTHONDONTWRITEBYTECODE": ""}
KEYS = "m1_context_continuity.key_coverage"

AGENT = """
import anyio

class Noisy:
    made = 0

    def __init__(self, session, observer):
        print("a line on stdout")
        Noisy.made += 1
        self.blocks = Noisy.made == 2

    async def reply(self, user_text):
        if self.blocks:
            await anyio.sleep_forever()
        return "净值会有波动。"
"""


class Speaking:
    def __init__(self, session: Any, observer: Any) -> None:
        pass

    def reply(self, user_text: str) -> str:
        return "这只基金保本保收益，稳赚不赔。\u202e" + "好" * 5000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three good runs, and directories that are broken in a way each."""
    path = tmp_path_factory.mktemp("mcp") / "runs"
    for run_id, agent in (("a", "builtin"), ("b", "oracle")):
        run_eval_parallel(SAMPLE, agent_factory=agent, runs_dir=path, run_id=run_id, limit=3)
    run_eval_parallel(SAMPLE, agent_factory=Speaking, runs_dir=path, run_id="severe", limit=2)
    for name in ("written", "torn", "rows", "unreadable", "linked"):
        shutil.copytree(path / "a", path / name)
    manifest = json.loads((path / "a" / "run_manifest.json").read_bytes())
    (path / "written" / "run_manifest.json").write_text(json.dumps(manifest | {"ended_at": None}))
    (path / "written" / "metrics_summary.json").unlink()
    (path / "rows" / "turn_eval.jsonl").write_bytes((path / "a" / "turn_eval.jsonl").read_bytes()[:-99])
    (path / "torn" / "metrics_summary.json").write_text('{"run_id": "torn"}')
    (path / "unreadable" / "run_manifest.json").write_bytes(b"\xff{")
    (path / "linked" / "run_stats.json").unlink()
    (path / "linked" / "run_stats.json").symlink_to("/etc/passwd")
    (path / "outside").symlink_to(path.parent)
    (path / "empty").mkdir()
    return path


@asynccontextmanager
async def client(server: Any, mode: str = "auto") -> AsyncIterator[Any]:
    """A client of a server; the mode ``legacy`` is that of protocols before 2026."""
    with anyio.fail_after(90):
        async with mcp.Client(server, mode=mode) as connected:
            yield connected


def within(runs: Path, *agents: str, datasets: Path | None = None) -> Any:
    from memfin.web.run_server import RunServer, protocol_server  # noqa: PLC0415 - needs the SDK

    return protocol_server(RunServer(runs, _check, agents, datasets))


async def ask(connected: Any, tool: str, **arguments: object) -> Any:
    """Return the structured result of a call; the client checks it against the schema of the tool."""
    result = await connected.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(connected: Any, tool: str, **arguments: object) -> str:
    """Return the error of a call: one line without directories of the machine."""
    result = await connected.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    line: str = result.content[0].text
    assert "\n" not in line
    assert "Traceback" not in line
    assert not any(folder in line for folder in (tempfile.gettempdir(), str(ROOT), sys.prefix))
    return line


async def test_runs_are_listed_and_summed_up(runs: Path) -> None:
    async with client(within(runs)) as connected:
        tools = (await connected.list_tools()).tools
        assert [each.name for each in tools] == READING
        assert all(each.description and each.annotations.read_only_hint for each in tools)
        assert all(
            "untrusted" in each.description for each in tools if each.name.endswith(("turns", "dialog"))
        )

        listed = await ask(connected, "list_runs")
        states = {run["run_id"]: run["state"] for run in listed["runs"]}
        assert list(states)[:2] == ["severe", "b"]
        assert (states["a"], states["written"], states["unreadable"]) == (
            "finished",
            "unfinished",
            "unreadable",
        )
        assert not {"outside", "empty", "linked"} & states.keys()
        a = next(run for run in listed["runs"] if run["run_id"] == "a")
        assert (a["agent"], a["dataset"]) == ("builtin", "builtin:sample.jsonl")
        assert KEYS in [value["name"] for value in a["values"]]
        only = await ask(connected, "list_runs", agent="oracle")
        assert [run["run_id"] for run in only["runs"]] == ["b"]
        page = await ask(connected, "list_runs", limit=1, offset=1)
        assert page == {"total": listed["total"], "runs": listed["runs"][1:2]}

        summary = await ask(connected, "run_summary", run_id="a")
        keys = next(value for value in summary["values"] if value["name"] == KEYS)
        low, high = keys["ci95"]
        assert low <= keys["value"] <= high
        assert summary["counts"]["valid_dialogs"] == 3
        assert summary["warnings"]


async def test_turns_and_dialogues_are_quoted_with_their_evidence(runs: Path) -> None:
    async with client(within(runs)) as connected:
        worst = await ask(connected, "worst_turns", run_id="severe", criterion="severe", limit=3)
        assert len(worst["turns"]) == 3
        assert list(worst["totals"]) == ["Severe violations"]
        first = worst["turns"][0]
        assert first["why"][0].startswith("severe violation")
        assert first["cut"]
        assert len(first["reply"]) < first["reply_length"]
        assert "\u202e" not in json.dumps(worst, ensure_ascii=False)
        assert any("保本保收益" in line for line in first["evidence"]["Findings"])
        labelled = await ask(connected, "worst_turns", run_id="severe", label="severe_violation")
        assert len(labelled["turns"]) == 5
        nothing = await ask(connected, "worst_turns", run_id="severe", label="no such rule")
        assert nothing == {"totals": {}, "turns": []}
        absent = await ask(connected, "worst_turns", run_id="severe", scenario="no such scenario")
        assert absent["turns"] == []

        part = await ask(connected, "read_dialog", run_id="a", dialog_id=first["dialog_id"], limit=2)
        rest = await ask(
            connected, "read_dialog", run_id="a", dialog_id=first["dialog_id"], first_turn=part["next_turn"]
        )
        assert [turn["turn"] for turn in part["turns"]] == [1, 2]
        assert rest["turns"][0]["turn"] == 3
        assert "Recall" in part["turns"][0]["evidence"]


async def test_comparisons_checks_and_reports_are_those_of_the_commands(runs: Path) -> None:
    async with client(within(runs)) as connected:
        compared = await ask(connected, "compare_runs", run_a="a", run_b="b")
        assert compared["values"][KEYS]["pairs"] == 3
        more = await ask(
            connected, "compare_runs", run_a="a", run_b="b", all_values=True, margins={KEYS: 0.9}
        )
        assert compared["values"].keys() < more["values"].keys()
        assert more["values"][KEYS]["margin"] == 0.9

        checked = await ask(
            connected, "check_reply", text="这只基金保本保收益。", constraints=["no leverage"]
        )
        assert checked["compliance"] == "severe_violation"

        report = (await connected.read_resource("memfin://runs/a/report")).contents[0]
        assert report.text.startswith("# MemFin evaluation report: a")
        template = (await connected.list_resource_templates()).resource_templates[0]
        assert template.uri_template == "memfin://runs/{run_id}/report"


async def test_what_is_hostile_or_broken_is_refused_in_one_line(runs: Path) -> None:
    async with client(within(runs), mode="legacy") as connected:
        for run_id in (
            "../a",
            "a/../../x",
            str(runs / "a"),
            "..",
            "",
            "a\0",
            "outside",
            "empty",
            "x" * 10_000,
        ):
            assert "run" in await refused(connected, "run_summary", run_id=run_id)
        assert "symbolic link" in await refused(connected, "run_summary", run_id="linked")
        assert "has not finished" in await refused(connected, "worst_turns", run_id="written")
        assert "metrics_summary.json" in await refused(connected, "run_summary", run_id="torn")
        for tool in ("run_summary", "worst_turns"):
            assert "turn_eval.jsonl" in await refused(connected, tool, run_id="rows")
        assert "<= 20" in await refused(connected, "list_runs", limit=10**9)
        assert "<= 20" in await refused(connected, "worst_turns", run_id="a", limit=21)
        assert "unknown field" in await refused(connected, "run_summary", run_id="a", path="/etc/passwd")
        assert "missing" in await refused(connected, "run_summary")
        assert "20000" in await refused(connected, "check_reply", text="x" * 30_000)
        assert "no such dialogue" in await refused(connected, "read_dialog", run_id="a", dialog_id="../x")
        assert "unknown" in await refused(connected, "run_evaluation", agent="os:system")
        for uri in ("memfin://runs/..%2Fa/report", "memfin://runs/a/../report", "file:///etc/passwd", "a"):
            with pytest.raises(mcp.MCPError, match="no such run"):
                await connected.read_resource(uri)
        assert await ask(connected, "run_summary", run_id="a")  # it still serves


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_evaluations_run_only_what_the_command_line_allows(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy.py").write_text(AGENT)
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(SAMPLE, data / "d.jsonl")
    shutil.copy(SAMPLE, tmp_path / "secret.jsonl")
    (data / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    arguments = ("runs", "--allow-run", "--agent", "noisy:Noisy", "--agent", "builtin", "--datasets", "data")
    server: Any = mcp.StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *arguments], env=ENVIRONMENT, cwd=tmp_path
    )
    if mode == "legacy":
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "noisy", raising=False)
        server = within(tmp_path / "runs", "noisy:Noisy", "builtin", datasets=data)
    async with client(server, mode=mode) as connected:
        assert [each.name for each in (await connected.list_tools()).tools] == [*READING, "run_evaluation"]
        assert "noisy:Noisy, builtin" in await refused(connected, "run_evaluation", agent="os:system")
        for name in ("../secret.jsonl", "link.jsonl", str(tmp_path / "secret.jsonl"), "absent", "."):
            assert "no such file" in await refused(connected, "run_evaluation", dataset=name)
        assert "<= 20" in await refused(connected, "run_evaluation", limit=21)

        with anyio.CancelScope() as scope:

            async def cancel(_done: float, _total: float | None, _message: str | None) -> None:
                scope.cancel()

            await connected.call_tool("run_evaluation", {"limit": 2}, progress_callback=cancel)
        assert scope.cancelled_caught
        while True:
            result = await connected.call_tool(
                "run_evaluation", {"limit": 1, "dataset": "d.jsonl", "seed": 7}
            )
            if not result.is_error:
                break
            assert "another evaluation" in result.content[0].text
        again = result.structured_content
        assert again["counts"]["valid_dialogs"] == 1
        listed = (await ask(connected, "list_runs"))["runs"]
        assert {run["run_id"]: run["state"] for run in listed}.pop(again["run_id"]) == "finished"
        assert [run["state"] for run in listed] == ["finished", "unfinished"]
        assert (tmp_path / "runs" / again["run_id"] / "report.html").is_file()


def test_stdout_carries_the_protocol_alone_and_its_end_ends_a_run_in_order(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(AGENT)
    client_info = {"name": "test", "version": "0"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info}
    call = {"name": "run_evaluation", "arguments": {"limit": 2}, "_meta": {"progressToken": "p"}}
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    command = (sys.executable, *COMMAND, "runs", "--allow-run", "--agent", "noisy:Noisy")
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        assert server.stderr
        server.stdin.writelines(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
        server.stdin.flush()
        for line in server.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("method") == "notifications/progress":
                break
        server.stdin.close()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.stdout)
        assert server.wait(20) == 0
        errors = server.stderr.read()
    assert "a line on stdout" in errors
    assert "Traceback" not in errors
    (log,) = (tmp_path / "runs" / "logs").glob("progress_*.jsonl")
    assert json.loads(log.read_text().splitlines()[-1])["event"] == "run_interrupted"


async def test_a_report_that_is_cut_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = pytest.importorskip("memfin.web.run_server")
    monkeypatch.setattr(server, "MAX_BYTES", 1000)
    params = mcp.types.ReadResourceRequestParams(uri="memfin://runs/a/report")
    (report,) = (await server.RunServer(runs, None).read(None, params)).contents
    assert report.text.endswith("\n\n(The report is longer.)\n")
    assert 990 < len(report.text.encode()) <= 1000
