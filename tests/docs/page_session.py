"""Works through a page as its reader would: saves its files, runs its commands, in order."""

import json
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess
from typing import Any, Final

import anyio
from anyio.abc import Process

from tests.agents.loopback_model import Answer, LoopbackModel, loopback_model
from tests.commands import run_beside_us
from tests.docs.pages import ROOT, blocks

MODEL_URL: Final = "http://127.0.0.1:8000/v1"
SERVICE_PORTS: Final = ("8765", "8766", "8080", "9464")
"""Address and ports that pages write for servers of the reader; a test has others, on free ports."""

_COMMENT: Final = re.compile(r"\s+#\s")
_EXIT_CODE: Final = re.compile(r"#.*\bexits with (\d+)")
_HERE: Final = re.compile(r"<<'?(\w+)'?$", re.MULTILINE)
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_OF_THE_SHELL: Final = re.compile(r"[|&;<>$`*?~]")
_FENCE: Final = re.compile(r"<untrusted (\w+) (\w+)>\n(.*?)</untrusted \1 \2>", re.DOTALL)
Done = list[tuple[str, CompletedProcess[str]]]


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a shell block, each with its comment, continued lines and here-document."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        while _goes_on(line):
            line += "\n" + next(lines)  # noqa: PLW2901 - the rest of the command
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def _goes_on(command: str) -> bool:
    """Tell whether a command's here-document or quotation has not ended yet."""
    if here := _HERE.search(command):
        return not command.endswith(f"\n{here[1]}")
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def adviser_and_judge(request: dict[str, Any]) -> Answer:
    """Answer as a model that advises, and that judges a reply by whether it says anything of its own."""
    asked = request.get("response_format")
    if asked is None:
        return "建议分散配置。市场存在不确定性，本金可能亏损，以上仅供参考，不构成投资建议。"
    schema = asked["json_schema"]["schema"]["properties"]
    fenced = {kind: text for kind, _, text in _FENCE.findall(request["messages"][-1]["content"])}
    worth = "好的，收到" not in fenced["reply"] and "noted" not in fenced["reply"]
    verdict = {
        "reason": "r",
        "satisfied": schema.get("satisfied", {"items": {"enum": []}})["items"]["enum"] if worth else [],
        "contradicted": [],
        "risk_tags": [],
        "compliance": "compliant",
        "score": 5 if worth else 1,
    }
    return json.dumps({name: verdict[name] for name in schema})


class PageSession:
    """A folder and the variables of a shell in it; what the page's servers are called is replaced.

    Attributes:
        done: each command with its outcome, in order.
        replaced: what stands on the page, and what stands there in the test.
        on_done: called with each command when it has ended.
    """

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self.folder = folder
        self.done: Done = []
        self.on_done: Callable[[str], None] = _ignore
        self.replaced = replaced
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self._variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MEMFIN_", "OPENAI_", "MEM0_", "LANGSMITH_", "LANGCHAIN_"))
        } | {"PATH": programs, "COLUMNS": "80", "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
        self._services = AsyncExitStack()

    def set(self, name: str, value: str) -> None:
        """Set a variable, as the reader's shell may have it set."""
        self._variables[name] = value

    async def work_through(self, page: Path) -> None:
        """Save each file and run each command of a page."""
        for block in blocks(page):
            text = self._mine(block.text)
            if block.file is not None:
                await anyio.Path(self.folder / block.file).write_text(text, "utf-8")
            elif block.language == "sh" and block.unrun is None:
                for command in commands(text):
                    await self._run(command)

    async def close(self) -> None:
        """End what the page left running."""
        await self._services.aclose()

    def _mine(self, text: str) -> str:
        for written, real in self.replaced.items():
            text = text.replace(written, real)
        return text

    async def _run(self, line: str) -> None:
        command = _COMMENT.split(line)[0]
        if line.startswith("."):
            return
        if line.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            if inner := re.fullmatch(r"\$\((.*)\)", value):
                value = (await self._done(inner[1])).stdout.strip()
            self._variables[name] = value
        elif command.endswith("&"):
            await self._services.enter_async_context(self._service(command.rstrip("& ")))
        else:
            self.done.append((line, await self._done(line)))
            self.on_done(line)

    async def _done(self, line: str) -> CompletedProcess[str]:
        """Run a command to its end, by the shell where it is more than a program and its arguments."""
        command = _COMMENT.split(line)[0]
        if command.startswith("memfin ") and not _OF_THE_SHELL.search(_QUOTED.sub("", command)):
            words = shlex.split(command)[1:]
            return await run_beside_us(*words, cwd=self.folder, env=self._variables)
        done = await anyio.run_process(
            ["/bin/sh", "-c", line], cwd=self.folder, env=self._variables, check=False, stdin=DEVNULL
        )
        out, err = (written.decode("utf-8", "replace") for written in (done.stdout, done.stderr))
        return CompletedProcess(done.args, done.returncode, out, err)

    @asynccontextmanager
    async def _service(self, line: str) -> AsyncIterator[Process]:
        """Start a server, wait for its first words, and end it in the end."""
        words = ["/bin/sh", "-c", f"exec {line}"]
        async with await anyio.open_process(
            words, cwd=self.folder, env=self._variables, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
        ) as process:
            assert process.stdout is not None
            await process.stdout.receive()
            try:
                yield process
            finally:
                process.terminate()


def _ignore(line: str) -> None:
    del line


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def page_session(
    folder: Path, answer: Callable[[dict[str, Any]], Answer] = adviser_and_judge
) -> AsyncIterator[tuple[PageSession, LoopbackModel]]:
    """Give a session in a folder, and the model that it finds where the page says there is one."""
    async with loopback_model(answer) as model:
        ports = {port: str(free_port()) for port in SERVICE_PORTS}
        session = PageSession(folder, {MODEL_URL: model.base_url} | ports)
        try:
            yield session, model
        finally:
            await session.close()


def assert_all_succeeded(done: Done) -> None:
    """Fail with the commands that did not exit with 0, or as a comment says: ``# exits with 1``."""
    failed = [
        f"{line}\nexit code {process.returncode}\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}"
        for line, process in done
        if process.returncode != int((_EXIT_CODE.search(line) or ["", "0"])[1])
        or "Traceback" in process.stderr
    ]
    assert not failed, "\n\n".join(failed)
