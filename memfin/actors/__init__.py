"""Actors: the stages of a run's pipeline and the messages between them."""
