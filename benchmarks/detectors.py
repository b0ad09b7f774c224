"""Time of all content detectors for a distinct 600-character Chinese reply, on one core.

``detectors.py [REPLIES.jsonl...]`` takes the ``text`` of each row (labelled replies) or what the agent says
in its ``turns`` (datasets and traces; without files the built-in sample), cuts distinct stretches of 600
characters out of them and times ``read_content`` on each. Nothing is remembered between replies, so every
stretch pays the full price.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from memfin.scoring.content import content_scanner, read_content

LENGTH = 600
ROUNDS = 15


def texts(names: list[str]) -> Iterator[str]:
    """Yield the replies of the files, or of the built-in sample dialogues."""
    sources = [Path(name).read_bytes() for name in names] or [
        (files("memfin") / "data" / "datasets" / "sample.jsonl").read_bytes()
    ]
    for source in sources:
        for line in source.split(b"\n"):
            if line.strip():
                row = json.loads(line)
                yield row.get("text") or "\n".join(map(reply_of, row.get("turns", [])))


def reply_of(turn: dict[str, str]) -> str:
    """Return what the agent says in a turn of a dataset or of a trace; "" for a turn of the user."""
    if "role" in turn:
        return turn["text"] if turn["role"] == "assistant" else ""
    return turn.get("pred_assistant_text") or ""


def main() -> None:
    """Print the best and the median time a reply."""
    whole = "\n".join(text for text in texts(sys.argv[1:]) if len(text) > 100)
    replies = sorted({whole[low : low + LENGTH] for low in range(0, len(whole) - LENGTH, LENGTH)})
    if not replies:
        sys.exit("too little text: give files with longer replies")
    content_scanner()
    for reply in replies[:20]:
        read_content(reply)
    gc.disable()
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for reply in replies:
            read_content(reply)
        rounds.append((time.process_time() - began) / len(replies) * 1e6)
    print(f"{len(replies)} distinct replies of {LENGTH} characters, {ROUNDS} rounds")
    print(f"best {min(rounds):.1f} us, median {statistics.median(rounds):.1f} us a reply")


if __name__ == "__main__":
    main()
