"""Scores and retrieval of the baselines on question sets, as a Markdown table.

    python benchmarks/rag_systems.py benchmarks/rag     every benchmark in the folder, and all together
    python benchmarks/rag_systems.py my_benchmark       one benchmark

Scores are percentages of the greatest. Retrieval is the share of the required words of facts and sets of
evidence in the first 1, 3 and 5 passages, and of the required quotes of gaps in the first one; all systems
search the same passages.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.errors import UsageError
from memfin.rag.baselines import summary_of
from memfin.rag.benchmark import load_benchmark
from memfin.rag.document import load_document
from memfin.rag.extraction.normalize import find_quote, fold, language_of, quote_parts
from memfin.rag.passages import Passage
from memfin.rag.scoring import DocumentIndex
from memfin.rag.systems.under_test import baseline_system

TYPES: Final = ("fact_exact", "evidence_set", "conflict_gap")
DEPTHS: Final = (("words", 1), ("words", 3), ("words", 5), ("quotes", 1))
SYSTEMS: Final = ("builtin", "bm25s", "always abstains")
HEADINGS: Final = ("questions", "system", "all", "facts", "evidence", "gaps", "@1", "@3", "@5", "gaps @1")
_ANSWERS: Final = {"zh": "原文没有说明。", "en": "The document does not say."}


class Abstains:
    """A system that declines every question, and finds no passage."""

    async def query(self, question: str) -> RagAnswer:
        """Decline."""
        return RagAnswer(answer=_ANSWERS[language_of(question)], abstained=True)


class Figures(NamedTuple):
    """Sums of a system: points by type, and required words by kind and depth, each found and of all."""

    points: Counter[str]
    greatest: Counter[str]
    found: Counter[tuple[str, int]]
    needed: Counter[tuple[str, int]]

    def add(self, other: "Figures") -> None:
        """Add the sums of another benchmark."""
        self.points.update(other.points)
        self.greatest.update(other.greatest)
        self.found.update(other.found)
        self.needed.update(other.needed)

    def cells(self) -> Iterator[str]:
        """Yield the percentages of the table; a dash where there was nothing to find."""
        scores = (self.points.total(), self.greatest.total())
        for of, greatest in (scores, *((self.points[kind], self.greatest[kind]) for kind in TYPES)):
            yield f"{100 * of / greatest:.1f}" if greatest else "-"
        for depth in DEPTHS:
            yield f"{self.found[depth] / self.needed[depth]:.2f}" if self.needed[depth] else "-"


def required(question: RagQuestion) -> tuple[str, list[str]]:
    """Return the kind of a question's required words, and the words."""
    if question.type == "conflict_gap":
        return "quotes", [question.required_quote] if question.required_quote else []
    return "words", [each.must_include for each in question.required_evidence if each.is_critical]


def holds(passages: Iterable[Passage], words: str) -> bool:
    """Return True if one of the passages has the words."""
    texts = (
        fold("\n".join(sentence.text for sentence in (*passage.asked, *passage.body))) for passage in passages
    )
    return any(next(find_quote(quote_parts(words), text), None) is not None for text in texts)


def measured(path: Path) -> dict[str, Figures]:
    """Return the figures of every system on one benchmark."""
    benchmark = load_benchmark(path)
    if benchmark.document is None:
        raise UsageError(f"{path}: the questions name no document in it")
    document = load_document(benchmark.document)
    index, questions = DocumentIndex(document), list(enumerate(benchmark.questions, 1))
    figures: dict[str, Figures] = {}
    for name in SYSTEMS:
        system: Any = Abstains() if name == SYSTEMS[-1] else baseline_system(name, document)
        groups = summary_of(system, questions, index).by_type
        points = Counter({kind: group.total_score for kind, group in groups.items()})
        greatest = Counter({kind: group.max_score for kind, group in groups.items()})
        own = figures[name] = Figures(points, greatest, Counter(), Counter())
        if (search := getattr(system, "search", None)) is None:
            continue
        for _, question in questions:
            kind, needed = required(question)
            passages = [hit.passage for hit in search(question.question)[: DEPTHS[2][1]]]
            for depth in (each for each in DEPTHS if each[0] == kind):
                own.found[depth] += sum(holds(passages[: depth[1]], words) for words in needed)
                own.needed[depth] += len(needed)
    return figures


def table(path: Path) -> Iterator[str]:
    """Yield the lines of the table for a benchmark, or for every benchmark in a folder."""
    alone = path.is_file() or (path / "questions").is_dir()
    places = [path] if alone else sorted(each.parent for each in path.glob("*/questions"))
    if not places:
        raise UsageError(f"{path}: holds no benchmark, a directory with questions/*.json")
    yield f"| {' | '.join(HEADINGS)} |"
    yield "|---|---|" + "---:|" * (len(HEADINGS) - 2)
    total = {name: Figures(Counter(), Counter(), Counter(), Counter()) for name in SYSTEMS}
    for place in places:
        for name, figures in measured(place).items():
            yield f"| {place.name} | {name} | {' | '.join(figures.cells())} |"
            total[name].add(figures)
    if len(places) > 1:
        for name, figures in total.items():
            yield f"| all | {name} | {' | '.join(figures.cells())} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, help="a benchmark, or a folder of benchmarks")
    try:
        for line in table(parser.parse_args().path):
            print(line, flush=True)
    except UsageError as problem:
        print(f"rag_systems: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
