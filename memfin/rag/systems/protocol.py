"""The interface of a system under test: a question in, an answer with its evidence out (spec section 9).

A factory is called with the loaded `memfin.rag.document.Document`, or None where the benchmark has none::

    class MyRag:
        def __init__(self, document):
            self.index = build(document)

        async def query(self, question):
            return {"answer": "...", "citation": [{"page": 2, "quote": "..."}]}

``memfin bench --rag mypackage.mymodule:MyRag`` then asks it.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from memfin.contracts import ModelUsage, ParameterChange, Record
from memfin.contracts.rag import RagAnswer


class RagReply(Record):
    """An answer together with what it took of a language model."""

    answer: RagAnswer
    usage: ModelUsage | None = None


@runtime_checkable
class RagSystem(Protocol):
    """A system under test.

    ``query`` returns a `RagAnswer`, a mapping of its fields, a string, or a `RagReply`. It may be a plain
    function: it then runs in a worker thread, and a system is made for each worker of the run. An
    asynchronous system is made once and asked several questions at a time. An optional ``close()`` is
    called when the run is over.
    """

    def query(self, question: str) -> Any:
        """Answer a question about the document."""


@runtime_checkable
class KnownSystem(Protocol):
    """A system that says what the artifacts of a run need to know of it.

    Attributes:
        reference, model, version: what the system is called, and its version where it has one.
    """

    reference: str
    model: str
    version: str | None

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Settings that the answers depend on; no secrets."""
        ...

    @property
    def total_usage(self) -> ModelUsage | None:
        """What a language model took so far, failed questions included; None where none is known of."""

    def parameter_changes(self) -> list[ParameterChange]:
        """Return which parameters the model has refused so far."""
        ...
