"""Calls of the service by subject: plain functions over the store, run in worker threads."""

from typing import Final

from memfin.web.memory.calls import accounts, consents, feedback, tasks, threads

ROUTES: Final = (*consents.ROUTES, *threads.ROUTES, *feedback.ROUTES, *tasks.ROUTES, *accounts.ROUTES)
"""Every call that needs a token."""
