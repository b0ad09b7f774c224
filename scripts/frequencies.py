"""Print the file of frequencies, counted over replies (see `memfin.scoring.patterns.frequencies`).

``frequencies.py FILE.jsonl...`` reads the replies of labelled files, recorded traces and datasets: each
text under ``text``, but for what a user says.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from memfin.scoring.patterns.frequencies import count
from memfin.scoring.text.language import analyze

REPLIES = ("text", "reply", "assistant_text")
SHORTEST = 12


def replies(value: Any) -> Iterator[str]:
    """Yield the replies in a decoded line."""
    if isinstance(value, dict):
        for name, held in value.items():
            if isinstance(held, str):
                if name in REPLIES and value.get("role") != "user":
                    yield held
            else:
                yield from replies(held)
    elif isinstance(value, list):
        for held in value:
            yield from replies(held)


def is_chinese(text: str) -> bool:
    """Say whether at least a quarter of the characters are Chinese."""
    return sum("\u4e00" <= sign <= "\u9fff" for sign in text) * 4 > len(text)


def main() -> None:
    """Print the counts of the files named."""
    lines = (line for name in sys.argv[1:] for line in Path(name).read_bytes().splitlines() if line.strip())
    texts = {analyze(text).norm for line in lines for text in replies(json.loads(line))}
    longer = [text for text in texts if len(text) >= SHORTEST]
    languages = {
        "chinese": count(filter(is_chinese, longer), longest=3, rarest=5, share=0.6),
        "english": count((text for text in longer if not is_chinese(text)), longest=5, rarest=5, share=0.4),
    }
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(languages), indent=0) + b"\n")


if __name__ == "__main__":
    main()
