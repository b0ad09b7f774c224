"""Runs beyond one process and one machine."""
