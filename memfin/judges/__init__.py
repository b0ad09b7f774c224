"""MemFin: judges."""
