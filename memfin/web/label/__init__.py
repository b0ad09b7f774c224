"""Pages on which people label turns of a run."""
