"""Built-in agent: an offline adviser with memory, a client profile and a compliance check."""

from memfin.agents.builtin.agent import BuiltinAgent
from memfin.agents.builtin.agents import BuiltinAgents

__all__ = ["BuiltinAgent", "BuiltinAgents"]
