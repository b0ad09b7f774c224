"""Which of the failures that come together tells what happened."""

import anyio

from memfin.errors import MemfinError


def foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one exception of a task group that tells the user what happened.

    Actors fall together: the first real error cancels the others. An error that MemFin knows goes
    first, then any other; that a receiver has gone is only what the others saw of it.
    """
    leaves = list(_leaves(group))
    for found in (
        [leaf for leaf in leaves if isinstance(leaf, MemfinError)],
        [leaf for leaf in leaves if not isinstance(leaf, anyio.BrokenResourceError)],
    ):
        if found:
            return found[0]
    return leaves[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
