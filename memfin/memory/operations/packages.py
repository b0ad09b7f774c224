"""Export and import of all that is remembered of one person (memory design §11.1)."""

from pathlib import Path

from memfin.contracts.base import Count, Record
from memfin.errors import UsageError
from memfin.memory import deletion
from memfin.memory.export import package_of, write_archive, write_package
from memfin.memory.importing import Admitted, admit
from memfin.memory.staging import stage
from memfin.memory.workspace import Workspace


class Imported(Record):
    """What an import brought.

    Attributes:
        user_id: whose memory it is.
        files: how many files.
    """

    user_id: str
    files: Count


class PackageOperations(Workspace):
    """A person's memory, to take away and to bring along."""

    def export_user(self, user_id: str) -> dict[str, bytes]:
        """Return a user's package, path to content, its manifest among the files.

        What there is at one moment: the user's writers wait meanwhile. The same memory at the same time
        of the clock makes the same bytes.

        Raises:
            NotFound: there is nothing of that user.
            InvalidId, AccountDeleted: as for every operation.
        """
        with self.writing(user_id):
            consent = self.consent_on_file(user_id).consent
            return package_of(self.files, self.paths, user_id, consent, self.now())

    def export_to(self, user_id: str, out: Path, *, as_zip: bool = False) -> Path:
        """Write a user's package, whole or not at all, and return where: ``out/user_id``, or with ``.zip``.

        Raises:
            UsageError: there is one already.
            NotFound, InvalidId, AccountDeleted: as for `export_user`.
        """
        package = self.export_user(user_id)
        with self.faults():
            write = write_archive if as_zip else write_package
            return write(self.files, out, user_id, package)

    def import_package(self, path: Path) -> Imported:
        """Take in what was exported, here or elsewhere, of a user who is not known here.

        All of it is checked before any of it is written, and once the last file is staged the import is
        finished whatever interrupts it.

        Raises:
            UsageError: the package is not as it was exported, or the user is known already.
            InvalidId, AccountDeleted, SensitiveInput: as for every operation.
        """
        admitted = admit(path, self.paths, self.gate)
        user_id = admitted.user_id
        with self.writing(user_id):
            if deletion.exists(self.files, self.paths, user_id):
                raise UsageError(
                    f"user {user_id}: is known here already; an import is for a user of whom there is nothing"
                )
            self.admit(user_id)
            self._take_in(admitted)
        return Imported(user_id=user_id, files=len(admitted.files))

    def _take_in(self, admitted: Admitted) -> None:
        user_id = admitted.user_id
        self.mark(user_id)
        stage(self.files, self.paths, user_id, admitted.files)
        for context in admitted.tasks:
            self.index.expect(user_id, context.context_id, context.expires_at or context.created_at)
        self.finish(user_id)
