"""Judging answers: what a judge is shown, what it is asked, and what its marks amount to (spec section 7)."""
