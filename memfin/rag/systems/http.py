"""System behind HTTP: the messages of the RAG protocol, version 1, and its client."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import msgspec

from memfin.agents.http.client import JsonService
from memfin.agents.http.protocol import Problem
from memfin.contracts import ModelUsage, Record
from memfin.contracts.rag import RagAnswer
from memfin.rag.systems.protocol import KnownSystem

MAX_QUESTION_CHARS: Final = 100_000


class QueryRequest(Record):
    """A question about the document that the service knows."""

    question: Annotated[str, msgspec.Meta(max_length=MAX_QUESTION_CHARS)]


class QueryAnswer(RagAnswer, omit_defaults=True):
    """The answer; only ``answer`` must be there.

    A typed field that is left out is extracted from ``answer``, and so is whether the system declines to
    answer, ``abstained``. Pages count from 1. ``usage`` is what the answer took of a language model.
    """

    usage: ModelUsage | None = None


class QueryError(Record):
    """A question that was not answered."""

    error: Problem


_FIELDS: Final = [(name, Any, msgspec.UNSET) for name in QueryAnswer.__struct_fields__]
_AnyAnswer = cast("type[Record]", msgspec.defstruct("AnyAnswer", _FIELDS, bases=(Record,)))
"""An unchecked answer; the answers of all systems are checked in one place."""


class HttpRag(KnownSystem):
    """A system that answers questions at an address.

    Args:
        url: the address to post questions to, without credentials.
        timeout: seconds that a question may take, at most.
        environ: where the token, ``MEMFIN_AGENT_API_KEY``, is read from; None is the process's own.

    Raises:
        UsageError: the URL is unusable.
    """

    def __init__(self, url: str, *, timeout: float = 120.0, environ: Mapping[str, str] | None = None) -> None:
        self._service = JsonService(
            url, what="system", protocol="RAG protocol", limit=timeout, environ=environ
        )
        self.reference = self.model = self._service.url

    async def query(self, question: str) -> Any:
        """Return the answer as it came.

        Raises:
            TransportError: the call failed on its way and may be made again.
            CallFailed: the system failed, the service refused, or its answer is not an object.
        """
        request = QueryRequest(question=question)
        answer = await self._service.call("POST", None, request, _AnyAnswer, QueryError)
        return {name: value for name, value in dict(answer).items() if value is not msgspec.UNSET}

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        await self._service.close()
