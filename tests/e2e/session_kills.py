"""Kills runs of clients with sessions at given moments, resumes them, and compares the summaries.

    python tests/e2e/session_kills.py --step 1

A run is killed with SIGKILL in its N-th reply or after its N-th write to the journal, for every ``step``-th
N, those to probes included, and again while it is resumed. Prints the number of kills and of differences;
exit code 1 for any.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402 - found by way of the line above

from memfin.journal.journal import Journal  # noqa: E402
from memfin.runtime.plan import RunPlan, make_plan  # noqa: E402
from memfin.runtime.resume import make_resume_plan  # noqa: E402
from memfin.runtime.run import Run  # noqa: E402
from memfin.scoring.rows import prepare_scoring  # noqa: E402
from tests.support import dialog, read_jsonl, write_jsonl  # noqa: E402

USERS, SESSIONS, TURNS = 3, 3, 2
PROBES = ["p1", "p2"]
"""Probes of the first user's second session, both after its first turn."""

SUMMARY = "metrics_summary.json"


class Countdown:
    """Kills the process when it has come to a number of events of one kind."""

    kind = ""
    left = 0

    @classmethod
    def tick(cls, kind: str) -> None:
        """Count an event."""
        if kind == cls.kind:
            cls.left -= 1
            if cls.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Remembering:
    """Answers from all that the client has said in any session, kept by a store in the process."""

    store: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, session: Any, observer: Any) -> None:
        self._session, self._observer = session, observer
        self._heard = self.begin(session)

    def begin(self, session: Any) -> list[str]:
        """Return the client's words so far."""
        return self.store.setdefault(session.user_id, [])

    async def reply(self, user_text: str) -> str:
        """Return a reply that tells how much is remembered."""
        Countdown.tick("reply")
        await asyncio.sleep(0)
        self._heard.append(user_text)
        known = "\n".join(self._heard[:-1])
        self._observer.recall(short_term_context=known, query=user_text)
        self._observer.memory(items=[{"content": each} for each in self._heard])
        self._observer.profile(risk_level="medium", max_acceptable_loss=0.01 * len(self._heard))
        return f"{len(self._heard)}：根据公开数据，市场存在不确定性，仅供参考。"


class Carrying(Remembering):
    """Hands its memory on, and begins a session that was interrupted again."""

    def begin(self, session: Any) -> list[str]:
        """Return what was handed on."""
        return msgspec.json.decode(session.carried, type=list[str]) if session.carried else []

    def carry(self) -> bytes:
        """Return the memory for the next session."""
        return msgspec.json.encode(self._heard)


class Both(Carrying):
    """With snapshots, too."""

    snapshot = Carrying.carry

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self._heard = msgspec.json.decode(state, type=list[str])


AGENTS = (Remembering, Carrying, Both)


def plan(folder: Path, agent: Any) -> RunPlan:
    """Return the plan that begins a run, or the one that goes on with it."""
    if (folder / "runs" / "r" / "config.json").exists():
        return make_resume_plan(folder / "runs" / "r", agent=agent)
    return make_plan(
        folder.parent / "data.jsonl",
        agent=agent,
        runs_dir=folder / "runs",
        run_id="r",
        fsync_interval=0,
        workers_dialog=2,
        workers_score=0,
    )


def killed(folder: Path, agent: Any, kind: str, number: int) -> bool:
    """Work on a run in a process of its own; return True if it was killed before its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            Countdown.kind, Countdown.left = kind, number
            commit = Journal.commit

            def counted(self: Journal, *arguments: Any) -> None:
                commit(self, *arguments)
                Countdown.tick("commit")

            Journal.commit = counted  # type: ignore[method-assign, assignment]
            asyncio.run(Run(plan(folder, agent)).run())
            code = 0
        except BaseException as problem:  # noqa: BLE001 - the process ends here
            sys.stderr.write(f"{problem!r}\n")
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{folder}: the run failed")
    return os.WIFSIGNALED(status)


def main() -> int:
    """Run all cycles; return 1 if any summary differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=1)
    step = parser.parse_args().step
    kills = wrong = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        sessions = ((user, index) for index in range(SESSIONS) for user in range(USERS))
        lines = [
            dialog(f"u{user}s{index}", TURNS, user_id=f"u{user}", session_time=f"2026-03-{index + 1:02}")
            for user, index in sessions
        ]
        lines[USERS]["probes"] = [{"id": name, "after": 1, "question": "?"} for name in PROBES]
        write_jsonl(root / "data.jsonl", lines)
        prepare_scoring()  # once for all processes
        for agent in AGENTS:
            folder = root / agent.__name__
            killed(folder, agent, "", 0)
            expected = (folder / "runs" / "r" / SUMMARY).read_bytes()
            for kind in ("reply", "commit"):
                number, more = 1, True
                while more:
                    shutil.rmtree(folder)
                    more = killed(folder, agent, kind, number)
                    kills += more
                    kills += killed(folder, agent, kind, 1 + number % 4)
                    kills += killed(folder, agent, kind, 3)
                    killed(folder, agent, "", 0)
                    traces = read_jsonl(folder / "runs" / "r" / "dialog_trace.jsonl")
                    asked = [each["probe_id"] for trace in traces for each in trace.get("probes", ())]
                    if (folder / "runs" / "r" / SUMMARY).read_bytes() != expected or asked != PROBES:
                        wrong += 1
                        sys.stdout.write(f"{agent.__name__}, {kind} {number}: another summary\n")
                    number += step
    sys.stdout.write(f"{kills} kills, {wrong} differences\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
