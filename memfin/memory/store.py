"""The one door to the memory layer (spec §10)."""

from memfin.memory.operations.accounts import AccountOperations
from memfin.memory.operations.consents import ConsentOperations
from memfin.memory.operations.packages import PackageOperations
from memfin.memory.operations.suggestions import SuggestionOperations
from memfin.memory.operations.threads import ThreadOperations


class MemoryStore(
    ConsentOperations, ThreadOperations, SuggestionOperations, PackageOperations, AccountOperations
):
    """The memory of a data root: who consented to what, and what is remembered of them.

    Methods block; a host with an event loop calls them in worker threads. One store may be used by any
    number of threads, and a data root by any number of processes: writers of one user take turns,
    readers never wait. See `memfin.memory.workspace.Workspace` for the arguments.
    """
