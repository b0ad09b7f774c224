"""Systems under test of the RAG suite: interface, built-in systems, and systems by reference."""

from memfin.rag.systems.protocol import RagReply, RagSystem
from memfin.rag.systems.under_test import Asked, SystemUnderTest, load_system

__all__ = ["Asked", "RagReply", "RagSystem", "SystemUnderTest", "load_system"]
