"""Processes that all write for one user at the same time.

``python -m tests.memory.memory_crowd ROOT PROCESSES WRITERS`` forks the processes; in each, that many
writers, each a thread of its own, grant consent, and some of them refresh the user's thread. Every writer
prints the version that it was given.
"""

import gc
import os
import sys
import threading
from pathlib import Path

from memfin.memory import MemoryStore
from tests.memory.memory_world import EVERYTHING, Clock, open_store, preferences

USER = "u1"
REFRESHERS = 12
"""How many writers of each process refresh the thread: a refresh reads all those before it."""


def write(store: MemoryStore, process: int, writer: int, thread_id: str, ready: threading.Barrier) -> None:
    """Grant consent, and perhaps refresh the user's thread."""
    ready.wait()
    consent = store.grant_consent(USER, EVERYTHING, preferences(f"{process}-{writer}"))
    if writer < REFRESHERS:
        store.refresh_thread(USER, thread_id, main_thesis=f"{process}-{writer}")
    os.write(1, b"%d\n" % consent.version)


def crowd(root: Path, process: int, writers: int) -> None:
    """Have a process's writers write all at once."""
    with open_store(root, Clock()) as store:
        (thread,) = store.list_threads(USER)
        ready = threading.Barrier(writers)
        threads = [
            threading.Thread(target=write, args=(store, process, writer, thread.thread_id, ready))
            for writer in range(writers)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def main(root: Path, processes: int, writers: int) -> int:
    """Return the exit code."""
    gc.freeze()
    children = []
    for process in range(processes):
        child = os.fork()
        if child == 0:
            crowd(root, process, writers)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next(filter(None, codes), 0)  # that of a signal is negative


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
