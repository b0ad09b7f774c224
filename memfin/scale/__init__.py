"""Runs beyond one process: shards, their merging, and engines that run them."""
