"""Execution of untrusted user code: imports by reference, bounded calls, threads."""
