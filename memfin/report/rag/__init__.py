"""Reports of a benchmark run: the same pages and the same care for hostile text as those of dialogues."""
