"""MemFin: report."""
