"""MemFin: actors."""
