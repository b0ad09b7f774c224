"""MemFin: metrics."""
