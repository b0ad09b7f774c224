"""Cross-validation of the risk rules: how much of what they find hangs on single replies.

    python scripts/cross_validate.py LABELS.jsonl... [--rounds N] [--json]

In every round the labelled replies are shuffled and cut into two halves. The rules that speak on neither
reply of the first half are taken away, as if nobody had written them, and what is left is measured on the
second half; then the other way round. Rules that were made for one reply and hit no other fail this. It
cannot undo what an author read while widening a rule, so it is an upper bound of what rules written from
half of the replies would reach.
"""

import argparse
import json
import random
import statistics
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from memfin.contracts import LabelledReply
from memfin.contracts.reading import iter_jsonl
from memfin.scoring.content import read_content
from memfin.scoring.lexicons.scanner import Scanner
from memfin.scoring.risk import FIELD, canonical_risk_tag, predicted_tags
from memfin.scoring.text.language import analyze

LEXICON = "risk_tags"


class Reply(NamedTuple):
    """A labelled reply: its risk tags, and the rules that speak on it."""

    text: str
    tags: dict[str, bool]
    rules: frozenset[str]


def read_replies(paths: Sequence[Path]) -> list[Reply]:
    """Read labelled replies; tags that no rule knows are left out."""
    found = []
    for path in paths:
        for _, row in iter_jsonl(path, LabelledReply):
            tags = {
                tag: bool(label)
                for name, label in (row.risk_tags or {}).items()
                if label is not None and (tag := canonical_risk_tag(name)) is not None
            }
            rules = frozenset(hit.rule for hit in read_content(row.text).findings if hit.field == FIELD)
            found.append(Reply(row.text, tags, rules))
    return found


def micro_f1(replies: Sequence[Reply], rules: Collection[str]) -> float:
    """Return the micro F1 of the given rules alone."""
    scanner = Scanner((LEXICON,), rules)
    agreed = wrong = 0
    for reply in replies:
        tags = predicted_tags(scanner.scan(analyze(reply.text)))
        for tag, label in reply.tags.items():
            agreed += label and tag in tags
            wrong += label != (tag in tags)
    return 2 * agreed / (2 * agreed + wrong)


def halves(replies: Sequence[Reply], seed: int) -> tuple[float, float]:
    """Return the micro F1 on either half, of the rules that speak in the other."""
    mixed = random.Random(seed).sample(replies, len(replies))  # noqa: S311 - a shuffle, no secret
    middle = len(mixed) // 2
    first, second = mixed[:middle], mixed[middle:]
    return (
        micro_f1(second, {rule for reply in first for rule in reply.rules}),
        micro_f1(first, {rule for reply in second for rule in reply.rules}),
    )


def main() -> None:
    """Print the micro F1 of every half, the least and the mean of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    replies = read_replies(options.labels)
    every = frozenset(rule for reply in replies for rule in reply.rules)
    rounds = [halves(replies, seed) for seed in range(options.rounds)]
    figures = {
        "replies": len(replies),
        "all_rules": micro_f1(replies, every),
        "least": min(map(min, rounds)),
        "mean": statistics.fmean(value for pair in rounds for value in pair),
        "rounds": rounds,
    }
    if options.json:
        print(json.dumps(figures))
        return
    for number, pair in enumerate(rounds, 1):
        print(f"round {number}: {pair[0]:.3f} {pair[1]:.3f}")
    print(
        f"{len(replies)} replies; micro F1 of all rules {figures['all_rules']:.3f}, over the halves "
        f"{figures['mean']:.3f}, at least {figures['least']:.3f}"
    )


if __name__ == "__main__":
    main()
