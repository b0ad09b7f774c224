"""A RAG system out of a model: the nearest parts of the document in its prompt, a structured answer."""

from memfin.rag.systems.openai.system import OpenAIRag

__all__ = ["OpenAIRag"]
