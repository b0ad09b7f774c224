"""Built-in agent: an offline adviser with memory, a client profile and a compliance check."""

from memfin.agents.builtin.agent import BuiltinAgent

__all__ = ["BuiltinAgent"]
