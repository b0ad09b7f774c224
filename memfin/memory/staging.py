"""An import under way: all files lie beside their places first, then whole directories move in.

Both happen under the user's lock and with the user marked, so that whoever comes next finishes it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from memfin.memory.files import Files
from memfin.memory.paths import Paths

_STAGED: Final = "staged"


def stage(files: Files, paths: Paths, user_id: str, contents: Mapping[Path, bytes]) -> None:
    """Write files, by their paths, beside their places; the last one settles the import."""
    staging = paths.staging(user_id)
    files.remove_tree(staging)
    for path, data in sorted(contents.items()):
        files.save(staging / path.relative_to(paths.root), data)
    files.save(staging / _STAGED, b"")


def move_in(files: Files, paths: Paths, user_id: str) -> None:
    """Finish an import that was settled, or remove what there is of one that was not.

    Whole directories take their places, the consent last: until then nothing of it is read.
    """
    staging = paths.staging(user_id)
    if files.exists(staging / _STAGED):
        for place in (*paths.trees(user_id), paths.history(user_id), paths.consent(user_id)):
            staged = staging / place.relative_to(paths.root)
            if files.exists(staged):
                files.make(place.parent)
                files.replace(staged, place)
                files.fsync_directory(place.parent)
        files.remove(staging / _STAGED)
    files.remove_tree(staging)
