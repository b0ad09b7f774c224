"""Models behind an OpenAI-compatible endpoint as agents, ``--agent openai:MODEL``."""

from memfin.agents.openai.agent import OpenAIAgent, OpenAIAgents
from memfin.agents.openai.tools import Tool

__all__ = ["OpenAIAgent", "OpenAIAgents", "Tool"]
