"""The report of a soak: what changed over its epochs."""
