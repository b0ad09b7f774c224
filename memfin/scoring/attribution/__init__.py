"""Whose word and whose doing: what a reply says itself, and what it quotes, denies, refutes or only tells."""
