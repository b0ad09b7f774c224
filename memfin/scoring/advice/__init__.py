"""Advice: the words of dealing, and whether a reply advises a thing, takes it up later or turns it down."""
