"""The viewer of runs: read-only pages of every turn, its findings and its recalled memory."""
