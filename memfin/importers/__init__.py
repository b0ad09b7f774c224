"""Importers of recorded conversations as traces of the contract."""
