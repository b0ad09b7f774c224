"""The same events on the same clock make the same bytes, of the index too, on every run."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.memory.memory_disks import tree
from tests.memory.memory_world import EVERYTHING, SECOND, Clock, open_store, preferences, settle_in


def events(root: Path) -> str:
    """Let a few people live on a root; return the SHA-256 of all that is there then, names and contents."""
    clock = Clock(pace=SECOND)
    with open_store(root, clock) as store:
        for user_id in ("u1", "u2", "U-3", "u4"):
            settle_in(store, user_id, f"mark-{user_id}")
        store.revoke_consent("u1")
        store.grant_consent("u1", EVERYTHING, preferences("again"))
        store.revoke_consent("u2", scope="save_to_thread")
        store.delete_user("U-3")
        store.load_memory_slices("u4", "thread_refresh")
        clock.now += 86_400 * SECOND
        store.begin_task("u4", "snapshot")
        store.expire()
    return digest(root)


def digest(root: Path) -> str:
    """Return the SHA-256 of a tree: of every path, its length and its content, the index included."""
    whole = hashlib.sha256()
    for name, data in tree(root, state=True).items():
        whole.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    return whole.hexdigest()


def test_the_same_events_make_the_same_tree_in_every_process(tmp_path: Path) -> None:
    found = {events(tmp_path / "here"), events(tmp_path / "again")}
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.memory.test_memory_determinism", str(tmp_path / seed)]
        environment = os.environ | {"PYTHONHASHSEED": seed, "TZ": "Asia/Shanghai"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert len(found) == 1


def test_other_events_make_another_tree(tmp_path: Path) -> None:
    first = events(tmp_path / "root")
    with open_store(tmp_path / "root", Clock()) as store:
        store.grant_consent("u5", EVERYTHING)
    assert digest(tmp_path / "root") != first


if __name__ == "__main__":
    sys.stdout.write(events(Path(sys.argv[1])))
