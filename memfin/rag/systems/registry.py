"""References to systems under test: from ``--rag`` to a system for a run (spec section 9)."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from memfin.agents.protocol import AgentSettings
from memfin.errors import UsageError
from memfin.rag.systems.protocol import KnownSystem
from memfin.rag.systems.under_test import SystemUnderTest
from memfin.sandbox.references import check_signature, import_reference, reference_of

if TYPE_CHECKING:
    from memfin.rag.document import Document

FORMS: Final = "builtin, oracle, http(s)://..., openai:MODEL or pkg.module:factory"

EXPECTED: Final = (
    "a class, or a factory function (document), that gives an object with a method query(question); "
    "docs/rag-systems.md shows one"
)

OPENAI: Final = "openai:"

_ADDRESS: Final = re.compile(r"(?:[\w.-]+|\[[0-9a-f:.]+\]):\d+(?:/[^@?#]*)?\Z", re.IGNORECASE)
"""A host with a port; no factory has a name of digits."""


def load_system(
    system: str | Callable[..., Any] | object,
    *,
    document: "Document | None" = None,
    settings: AgentSettings | None = None,
    retries: int = 2,
) -> SystemUnderTest:
    """Return the system of a reference, of a factory, or around a system itself.

    ``system`` is a reference as for ``--rag``, a factory or class, which is called with ``document``, or
    an object with a ``query`` method. ``settings`` are those of a run: the seconds for a question and, for
    ``openai:MODEL``, the model's. ``retries`` limits the retries of a question that failed on its way.

    Raises:
        UsageError: the reference, an endpoint or a setting is unusable, or the system needs a document.
    """
    settings = settings or AgentSettings()
    limits: dict[str, Any] = {"timeout": settings.turn_timeout, "retries": retries}
    if isinstance(system, str) and system.startswith(OPENAI):
        from memfin.rag.systems.openai import OpenAIRag  # noqa: PLC0415 - aiohttp loads slowly

        model = system.removeprefix(OPENAI)
        return _owned(OpenAIRag.from_settings(model, _needed(system, document), settings), **limits)
    settings.refuse_model_settings(system if isinstance(system, str) else "a Python system")
    if not isinstance(system, str):
        return _object(system, document, limits)
    if system == "oracle":
        from memfin.rag.systems.oracle import Oracle  # noqa: PLC0415 - only when used

        return _owned(Oracle(), sees_truth=True, **limits)
    if system == "builtin":
        from memfin.rag.systems.builtin import BuiltinRag  # noqa: PLC0415 - loads its rules only when used

        return _owned(BuiltinRag(_needed(system, document)), **limits)
    if system.lower().startswith(("http://", "https://")):
        from memfin.rag.systems.http import HttpRag  # noqa: PLC0415 - aiohttp loads slowly

        return _owned(HttpRag(system, timeout=settings.turn_timeout), **limits)
    if _ADDRESS.match(system):
        raise UsageError(f"rag {system!r}: an address needs its scheme, as in http://{system}")
    return _made(system, import_reference("rag", system, FORMS), document, limits)


def _made(
    reference: str, factory: Callable[..., Any], document: "Document | None", limits: dict[str, Any]
) -> SystemUnderTest:
    check_signature(f"rag {reference!r}", factory, ("document",), EXPECTED)
    return SystemUnderTest(reference, factory, document=document, **limits)


def _object(system: Any, document: "Document | None", limits: dict[str, Any]) -> SystemUnderTest:
    if callable(getattr(system, "query", None)) and not isinstance(system, type):
        return SystemUnderTest(reference_of(type(system)), given=system, **limits)
    if callable(system):
        return _made(reference_of(system), system, document, limits)
    kind = type(system).__name__
    raise UsageError(f"rag: expected a reference, a factory or an object with a query method, got {kind}")


def _owned(system: KnownSystem, **limits: Any) -> SystemUnderTest:
    return SystemUnderTest(system.reference, given=system, owned=True, **limits)


def _needed(reference: str, document: "Document | None") -> "Document":
    if document is None:
        raise UsageError(
            f"rag {reference!r}: reads the document itself, and there is none; name it with --document"
        )
    return document
