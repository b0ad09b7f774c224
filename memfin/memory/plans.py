"""Plans of writing: what an operation decides, as data, and the one place that carries it out.

A plan is checked and encoded as a whole before its first byte is written. A profile can only be written
with the write_token that `memfin.memory.profile` gives for onboarding and for an explicit review (memory
design §5.1); every other plan that sets out to do so is refused.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from memfin.contracts.base import Record
from memfin.memory.errors import ProfileWriteRefused
from memfin.memory.files import Files
from memfin.memory.paths import Paths
from memfin.memory.profile import ProfileWriteToken, is_valid
from memfin.memory.records import Gate, encode


class Put(NamedTuple):
    """Write a record in the place of what is there."""

    path: Path
    record: Record
    write_token: ProfileWriteToken | None = None


class Append(NamedTuple):
    """Add a record as the last line of a file; the file is rewritten, so that it is whole at any time."""

    path: Path
    record: Record


class Keep(NamedTuple):
    """Write bytes that are on file elsewhere: a version of a consent that is superseded."""

    path: Path
    data: bytes


class Remove(NamedTuple):
    """Remove a file; that there is none is fine."""

    path: Path


class RemoveTree(NamedTuple):
    """Remove a directory with all that is in it; that there is none is fine."""

    path: Path


Step = Put | Append | Keep | Remove | RemoveTree

Checked = list[tuple[Step, bytes]]
"""Steps that may be done, with the bytes that they write."""


class Writer:
    """Carries out plans."""

    def __init__(
        self, files: Files, paths: Paths, gate: Gate, observer: Callable[[Step], None] | None = None
    ) -> None:
        self._files = files
        self._paths = paths
        self._gate = gate
        self._observer = observer

    def check(self, plan: Iterable[Step]) -> Checked:
        """Return the steps with what they write.

        Raises:
            InvalidInput, SensitiveInput, ProfileWriteRefused: a step is refused.
        """
        return [(step, self._checked(step)) for step in plan]

    def do(self, checked: Checked) -> None:
        """Do the steps in order.

        Raises:
            OSError: the file system refused a step; those before it are done.
        """
        for step, data in checked:
            # What is removed is looked for before, told of after.
            observer = self._observer if self._changes(step) else None
            match step:
                case Put(path) | Keep(path):
                    self._files.save(path, data)
                case Append(path):
                    self._files.save(path, (self._files.load(path) or b"") + data)
                case Remove(path):
                    self._files.remove(path)
                case RemoveTree(path):
                    self._files.remove_tree(path)
            if observer is not None:
                observer(step)

    def _checked(self, step: Step) -> bytes:
        match step:
            case Put(path, record, write_token):
                if self._paths.is_profile(path) and not is_valid(write_token):
                    raise ProfileWriteRefused(
                        "a profile is written by onboarding and by the person's own review, by nothing else"
                    )
                return encode(record, path, self._gate, self._files.load(path))
            case Append(path, record):
                if self._paths.is_profile(path):
                    raise ProfileWriteRefused("a profile is no log")
                return encode(record, path, self._gate)
            case Keep(path, data):
                if path.parent.parent != self._paths.consents / "_history":
                    raise ProfileWriteRefused("only versions of a consent are kept as they are")
                return data
            case _:
                return b""

    def _changes(self, step: Step) -> bool:
        """Say whether a step is going to change anything: what is not there needs no removal."""
        return not isinstance(step, Remove | RemoveTree) or self._files.exists(step.path)
