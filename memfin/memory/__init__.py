"""The governed memory layer: what an agent remembers of a person, with whose consent, and for how long."""

from memfin.memory.store import MemoryStore

__all__ = ["MemoryStore"]
