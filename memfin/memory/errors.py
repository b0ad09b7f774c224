"""Errors of the memory layer, each with a code; messages name fields and ids, never a user's text."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from memfin.contracts.memory import ConsentScope
from memfin.errors import UsageError


class MemoryRefusal(UsageError):  # noqa: N818 - a refusal, not a malfunction
    """Base class of refused calls, with a stable code and plain details for programs; nothing was written."""

    code: ClassVar[str] = "refused"

    def __init_subclass__(cls, code: str) -> None:
        cls.code = code

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = MappingProxyType(details)


class InvalidInput(MemoryRefusal, code="invalid_input"):
    """A value violates the contract; the message begins with its path."""


def invalid_value(problem: msgspec.ValidationError, prefix: str = "", default: str = "") -> InvalidInput:
    """Translate an error of msgspec; the message begins with the path of the value, or a default."""
    reason, _, where = str(problem).partition(" - at `$.")
    path = f"{prefix}{where.removesuffix('`') or default}".removesuffix(".")
    return InvalidInput(f"{path}: {reason}")


class InvalidId(InvalidInput, code="invalid_id"):
    """A string is not an id, or differs from another user's id only in case."""


class NotFound(MemoryRefusal, code="not_found"):
    """The object does not exist or is another user's; the two cannot be told apart."""


class ConsentRequired(MemoryRefusal, code="profile_consent_required"):
    """The consent in force does not allow this (memory design §8.4)."""

    def __init__(self, message: str, scopes: Sequence[ConsentScope]) -> None:
        super().__init__(message, required_scopes=list(scopes))


class ConsentUnreadable(MemoryRefusal, code="consent_unreadable"):
    """The stored consent cannot be read, so it allows nothing; it can be revoked."""


class ConsentNotInForce(MemoryRefusal, code="consent_not_in_force"):
    """The consent named by a request is not the one in force."""


class ThreadClosed(MemoryRefusal, code="thread_closed"):
    """The thread is closed: it can be read, not changed."""


class AccountDeleted(MemoryRefusal, code="account_deleted"):
    """The account was deleted; its id is not reused."""


class SensitiveInput(MemoryRefusal, code="sensitive_input"):
    """A text holds something that is never saved (memory design §10.2)."""

    def __init__(self, field: str, kinds: Sequence[str]) -> None:
        super().__init__(
            f"{field}: holds sensitive data ({', '.join(kinds)}), which is never saved; leave it out",
            field=field,
            kinds=list(kinds),
        )


class ProfileWriteRefused(MemoryRefusal, code="profile_write_refused"):
    """A profile was about to be written by something other than onboarding or an explicit review."""
