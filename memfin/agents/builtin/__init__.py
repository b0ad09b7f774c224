"""The adviser that ships with MemFin: offline, deterministic, honest about what it does not know."""
