"""Ledger of a client's facts: what holds at a turn, and what a reply and a store did with it."""
