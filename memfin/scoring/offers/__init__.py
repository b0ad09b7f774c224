"""Forbidden things that a reply offers, by their name, by a figure, or by a turn of phrase."""
