"""Models behind an OpenAI-compatible endpoint as agents, ``--agent openai:MODEL``."""
