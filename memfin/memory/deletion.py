"""A hard delete: what goes, and in which order (memory design §10.5).

Once the stub is on file the deletion is settled, and is finished after any interruption.
"""

from collections.abc import Iterator

from memfin.memory.files import Files
from memfin.memory.paths import Paths
from memfin.memory.plans import Remove, RemoveTree, Step


def removals(paths: Paths, user_id: str) -> Iterator[Step]:
    """Yield the steps that remove all of a user; the consent first, so that nothing is read from then on."""
    yield Remove(paths.consent(user_id))
    yield RemoveTree(paths.history(user_id))
    yield from (RemoveTree(tree) for tree in paths.trees(user_id))


def exists(files: Files, paths: Paths, user_id: str) -> bool:
    """Say whether there is anything of a user but a stub."""
    places = (paths.consent(user_id), paths.history(user_id), *paths.trees(user_id))
    return any(map(files.exists, places))
