"""Calls of the service by subject: plain functions over the store, run in worker threads."""

from typing import Final

from memfin.web.memory.calls import accounts, consents, feedback, tasks, threads
from memfin.web.memory.routes import Route

ROUTES: Final = tuple(
    each
    for module in (consents, threads, feedback, tasks, accounts)
    for each in vars(module).values()
    if isinstance(each, Route)
)
"""Every call that needs a token."""
