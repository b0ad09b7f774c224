"""MemFin: runtime."""
