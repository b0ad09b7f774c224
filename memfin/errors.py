"""Errors for users: one line each, with an exit code."""


class MemfinError(Exception):
    """Base of every error that MemFin reports as one line instead of a traceback."""

    exit_code = 2


class UsageError(MemfinError):
    """Invalid options, files or references; nothing was started (exit code 2)."""


class GateFailed(MemfinError):  # noqa: N818 - a result, not a malfunction
    """The work is done, but a threshold of the user is not met (exit code 1).

    ``summary`` is that of the run, if a run failed its gates.
    """

    exit_code = 1

    def __init__(self, message: str, summary: object = None) -> None:
        super().__init__(message)
        self.summary = summary


class RunStopped(MemfinError):  # noqa: N818 - names the event, as the progress log does
    """A signal ended the run (exit code 128 and the signal's number)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RunFault(MemfinError):  # noqa: N818 - names the event, as the progress log does
    """The machine failed under a run: disk full, I/O error. The run can be resumed (exit code 3)."""

    exit_code = 3
