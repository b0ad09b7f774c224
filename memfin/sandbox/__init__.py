"""Code that is not MemFin's: found by reference, called in threads and tasks, never trusted."""
