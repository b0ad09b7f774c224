"""Patterns as data: their files, their grammar, how they are compiled, and which literals announce them."""
