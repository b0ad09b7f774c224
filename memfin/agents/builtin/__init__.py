"""The adviser that ships with MemFin: offline, deterministic, honest about what it does not know."""

from memfin.agents.builtin.agent import BuiltinAgent

__all__ = ["BuiltinAgent"]
