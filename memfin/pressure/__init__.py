"""Pressure: dialogues perturbed by family, and the comparison of replies to them with the originals'."""
