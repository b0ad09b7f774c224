"""Systems under test of the RAG suite: their interface, and how references become systems."""

from memfin.rag.systems.protocol import RagReply, RagSystem
from memfin.rag.systems.under_test import Asked, SystemUnderTest, load_system

__all__ = ["Asked", "RagReply", "RagSystem", "SystemUnderTest", "load_system"]
