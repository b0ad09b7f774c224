"""Kill children with SIGKILL before steps of every change, and look at what each leaves.

``python -m tests.memory.memory_kill ROOM`` prints, as JSON, by change: how many children were killed,
after how many of them the state was that before the change and that after it, and what was wrong.
Every third step and the last one have a child, each step with ``TESTS_LONG=1``.
"""

import gc
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from tests.memory.memory_disks import SuicidalFiles, laid_out, steps_of, tree
from tests.memory.memory_endings import (
    EXPORTS,
    KILLED,
    LATER,
    Change,
    State,
    begun,
    changed,
    legal_states,
    state_of,
)
from tests.memory.memory_world import Clock, open_store
from tests.support import length


class Seen(NamedTuple):
    """What became of a change's killed children."""

    killed: int
    before: int
    after: int
    wrong: str


def killed_at_every_step(name: str, room: Path, start: dict[str, bytes]) -> Seen:
    """Have a child begin the change and die before a step, another one before a later step, and so on."""
    change = KILLED[name]
    before, after = legal_states(room, start, change)
    root = room / "root"
    found: list[State] = []
    last: dict[str, bytes] | None = None
    status = 0
    with open_store(laid_out(root, start), Clock(LATER)) as witness:
        for step in killed_steps(room, start, change):
            shutil.rmtree(root)
            laid_out(root, start)
            child = os.fork()
            if child == 0:
                changed(root, change, SuicidalFiles(step))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                break
            assert os.WTERMSIG(status) == signal.SIGKILL
            met = state_of(root, witness).profiles
            left = tree(root, state=True)
            # What is done about a state depends on that alone, so one that is as the last is not new.
            found.append(found[-1] if left == last else restarted(root, name))
            last = left
            if found[-1] not in (before, after):
                return Seen(len(found), 0, 0, f"a third state after step {step}")
            # A deletion that is settled, and not acknowledged, may be read until somebody finishes it.
            if met != found[-1].profiles and not (name == "delete" and met == before.profiles):
                return Seen(len(found), 0, 0, f"readers met a third state after step {step}")
        wrong = "" if os.waitstatus_to_exitcode(status) == 0 else "the change failed"
        if state_of(root, witness) != after:
            wrong = "the change itself did not come to its end"
    killed = len(found)
    return Seen(killed, sum(each == before for each in found), sum(each == after for each in found), wrong)


def killed_steps(room: Path, start: dict[str, bytes], change: Change) -> list[int]:
    """Return the numbers of the steps to die before, and last a number that no step has."""
    root = laid_out(room / "counted", start)
    total = steps_of(lambda files: changed(root, change, files)).steps
    return [*reversed(range(total, 0, -length(5, 1))), total + 1]


def restarted(root: Path, name: str) -> State:
    """Return the state of a root once a store was opened on it anew."""
    with open_store(root, Clock(LATER)) as store:
        state = state_of(root, store)
        if name in EXPORTS and not any(path.startswith("out/") for path in state.files):
            EXPORTS[name](store)  # nothing of the attempt that was killed is in the way of the next
            assert not any(path.startswith("out/.") for path in tree(root))
        return state


def main(room: Path) -> None:
    """Go through all the changes."""
    gc.freeze()  # children are forked faster when nobody touches what they share
    gc.disable()
    start = begun(room / "begun")
    found = {name: killed_at_every_step(name, room / name, start) for name in KILLED}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
