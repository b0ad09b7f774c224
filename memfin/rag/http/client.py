"""The client side: a RAG system behind HTTP."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memfin.agents.http.client import JsonService
from memfin.contracts import ModelUsage, ParameterChange
from memfin.rag.http.protocol import AnyAnswer, QueryError, QueryRequest

SPOKEN: Final = "RAG protocol"


class HttpRag:
    """A system that answers questions at an address.

    Args:
        url: where questions are posted, without credentials.
        timeout: seconds that a question may take, at most.
        environ: where the token, ``MEMFIN_AGENT_API_KEY``, is read from; None is the process's own
            environment.

    Raises:
        UsageError: the URL is unusable.

    Attributes:
        reference, model: the URL, as the artifacts of a run call the system.
        version, inputs, total_usage: None and empty; what a service depends on is its own affair, and what
            its answers say that they took is added up where they are asked for.
    """

    def __init__(self, url: str, *, timeout: float = 120.0, environ: Mapping[str, str] | None = None) -> None:
        self._service = JsonService(url, what="system", protocol=SPOKEN, limit=timeout, environ=environ)
        self.reference = self.model = self._service.url
        self.version: str | None = None
        self.inputs: dict[str, Any] = {}
        self.total_usage: ModelUsage | None = None

    async def query(self, question: str) -> Any:
        """Return the answer as it came.

        Raises:
            TransportError: the call failed on its way and may be made again.
            CallFailed: the system failed, the service refused, or its answer is no object.
        """
        request = QueryRequest(question=question)
        answer = await self._service.call("POST", None, request, AnyAnswer, QueryError)
        return {name: value for name, value in dict(answer).items() if value is not msgspec.UNSET}

    def parameter_changes(self) -> list[ParameterChange]:
        """Return nothing: models behind a service are its own affair."""
        return []

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        await self._service.close()
