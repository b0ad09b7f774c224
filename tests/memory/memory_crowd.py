"""Processes that all write for one user at the same time.

``python -m tests.memory.memory_crowd ROOT PROCESSES WRITERS`` forks the processes; in each, the writers
grant consent one after the other, in two threads. Every writer prints the version that it was given.
"""

import os
import sys
import threading
from pathlib import Path

from memfin.memory import MemoryStore
from tests.memory.memory_world import EVERYTHING, Clock, open_store, preferences

USER = "u1"
THREADS = 2


def write(store: MemoryStore, process: int, writers: range) -> None:
    """Have some writers grant consent and refresh the user's thread, one after the other."""
    (thread,) = store.list_threads(USER)
    for writer in writers:
        consent = store.grant_consent(USER, EVERYTHING, preferences(f"{process}-{writer}"))
        store.refresh_thread(USER, thread.thread_id, main_thesis=f"{process}-{writer}")
        os.write(1, b"%d\n" % consent.version)


def main(root: Path, processes: int, writers: int) -> int:
    """Return the exit code."""
    children = []
    for process in range(processes):
        child = os.fork()
        if child == 0:
            with open_store(root, Clock()) as store:
                share = writers // THREADS
                ranges = [range(number * share, (number + 1) * share) for number in range(THREADS)]
                threads = [threading.Thread(target=write, args=(store, process, part)) for part in ranges]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
