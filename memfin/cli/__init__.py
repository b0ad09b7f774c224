"""MemFin: cli."""
