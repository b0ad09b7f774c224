"""Extraction of typed values, facts, yes and no, and abstentions from Chinese and English answers."""
