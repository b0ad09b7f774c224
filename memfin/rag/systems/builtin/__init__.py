"""The built-in RAG system: BM25 and rules, offline and deterministic; an honest baseline."""

from memfin.rag.systems.builtin.system import BuiltinRag

__all__ = ["BuiltinRag"]
