"""MemFin: journal."""
