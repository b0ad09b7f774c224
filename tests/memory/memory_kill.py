"""Kill children with SIGKILL before every step of a change, and look at what each leaves.

``python -m tests.memory.memory_kill CHANGE ROOM`` prints how many were killed, and after how many of them
the state was that before the change and that after it; it exits 1 at a state that is neither.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from tests.memory.memory_disks import SuicidalFiles, laid_out
from tests.memory.memory_endings import CHANGES, LATER, begun, changed, legal_states, state_of
from tests.memory.memory_world import Clock, open_store


def main(name: str, room: Path) -> int:
    """Return the exit code."""
    start = begun(room / "begun")
    before, after = legal_states(room, start, CHANGES[name])
    killed = befores = afters = 0
    while True:
        root = laid_out(room / "root", start)
        child = os.fork()
        if child == 0:
            changed(root, CHANGES[name], SuicidalFiles(killed + 1))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
        with open_store(root, Clock(LATER)) as restarted:
            state = state_of(root, restarted)
        if state not in (before, after):
            sys.stderr.write(f"{name}: a third state after step {killed}\n")
            return 1
        befores += state == before
        afters += state == after
        shutil.rmtree(root)
    sys.stdout.write(f"{killed} {befores} {afters}\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
