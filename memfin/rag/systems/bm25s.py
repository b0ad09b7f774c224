"""System ``bm25s``: the three best passages of BM25, as a baseline without rules."""

from typing import Final

from memfin.contracts.rag import RagAnswer, RagCitation, RagEvidence
from memfin.errors import UsageError
from memfin.rag.document import Document
from memfin.rag.extraction.normalize import language_of, plain
from memfin.rag.passages import Hit, joined, passages_of
from memfin.rag.systems.protocol import KnownSystem
from memfin.text.bm25 import terms

try:
    import bm25s
except ModuleNotFoundError as problem:
    raise UsageError(f"{problem}; the system bm25s needs the extra: pip install 'memfin[bm25s]'") from problem

MAX_PASSAGES: Final = 3
_NONE: Final = {"zh": "原文没有说明。", "en": "The document does not say."}


class Bm25sRag(KnownSystem):
    """A baseline that answers with the best three passages, which are its evidence, too.

    Terms are character pairs of Chinese and words of other languages, the parameters those of the package.
    """

    reference = model = "bm25s"
    version = bm25s.__version__

    def __init__(self, document: Document) -> None:
        self._passages = passages_of(document)
        texts = [_terms(f"{passage.question}\n{passage.answer}") for passage in self._passages]
        self._index = None
        if any(texts):
            self._index = bm25s.BM25()
            self._index.index(texts, show_progress=False)

    def search(self, question: str) -> list[Hit]:
        """Rank the passages that share a term with the question."""
        if self._index is None or not (words := _terms(question)):
            return []
        scores = zip(self._passages, self._index.get_scores(words).tolist(), strict=True)
        hits = [Hit(number, passage, score) for number, (passage, score) in enumerate(scores) if score > 0]
        return sorted(hits, key=lambda hit: -hit.score)

    async def query(self, question: str) -> RagAnswer:
        """Return the best passages as the answer; decline if none shares a term with the question."""
        best = [quote for hit in self.search(question)[:MAX_PASSAGES] for quote in hit.passage.quotes()]
        if not best:
            return RagAnswer(answer=_NONE[language_of(question)], abstained=True)
        return RagAnswer(
            answer=joined(text for _, text in best),
            evidence=[RagEvidence(page=page, text=text) for page, text in best],
            citation=[RagCitation(page=page, quote=text) for page, text in best],
        )


def _terms(text: str) -> list[str]:
    return terms(plain(text))
