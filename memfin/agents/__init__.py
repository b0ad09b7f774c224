"""MemFin: agents."""
