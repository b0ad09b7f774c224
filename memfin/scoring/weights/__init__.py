"""Weights: which share of the money a reply puts where, by shares, amounts, ratios, parts and remainders."""
