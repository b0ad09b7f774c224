"""Import of recorded conversations, and export of runs."""
