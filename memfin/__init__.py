"""MemFin: the evaluation runtime for financial-advice agents that remember."""

__version__ = "0.1.0"
