"""MemFin: scoring."""
