"""Simulated clients: a state machine decides what the client does, templates or a model word it."""
