"""Lexicons of rules, scanned for in one pass over a reply."""
