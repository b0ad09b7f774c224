"""Import of recorded conversations, and export of records as tables."""
