"""One run on several processes or machines: shards, the engines that work on them, and their merge."""
