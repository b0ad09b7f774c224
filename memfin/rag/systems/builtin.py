"""Built-in RAG systems: the baseline, offline and deterministic, and the oracle."""

from typing import Any, Final, NamedTuple

from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence, RagQuestion
from memfin.rag import passages
from memfin.rag.document import Document
from memfin.rag.extraction import answers
from memfin.rag.extraction.facts import PartialDate, find_dates, find_facts
from memfin.rag.extraction.normalize import language_of, plain
from memfin.rag.passages import Hit, Passage, Sentence, Unit, vocabulary
from memfin.rag.systems.protocol import KnownSystem
from memfin.text.clauses import clauses
from memfin.version import __version__

MIN_SUPPORT: Final = 0.5  # share of a question that a passage meets to support an answer
MIN_VALUE_SUPPORT: Final = 0.35  # the same for a typed value or a list
NEAR: Final = 0.6  # score of passages that are read beside the best one, as a share of its
_SAME_KIND: Final = 0.2  # bonus of a passage whose own question asks for the same kind of value
_TYPED: Final = frozenset((*answers.CHOOSERS, "person", "place", "organization", "clock", "id"))


class _Question(NamedTuple):
    """A question with the kind of its answer, its indicator words, and its weighted units."""

    text: str
    kind: str
    signs: frozenset[str]
    units: tuple[Unit, ...] = ()

    def kin(self, text: str, table: str) -> bool:
        """Return True if a text has a pattern of the question's kind."""
        pattern = vocabulary().patterns[table].get(self.kind)
        return pattern is not None and pattern.search(plain(text).lower()) is not None

    def share(self, sentence: Sentence) -> float:
        """Return the share of the question that a sentence meets."""
        return passages.share(passages.stemmed(sentence.text), self.units)


def read_question(text: str) -> _Question:
    """Read the kind of answer that a question asks for."""
    words, patterns = plain(text).lower(), vocabulary().patterns
    kind = next((kind for kind, pattern in patterns["kinds"].items() if pattern.search(words)), "text")
    signs = (sign for sign, pattern in patterns["signs"].items() if pattern.search(words))
    return _Question(text, kind, frozenset(signs))


class BuiltinRag(KnownSystem):
    """A baseline that answers from one document; the same question always gets the same answer."""

    reference = model = "builtin"
    version = __version__

    def __init__(self, document: Document) -> None:
        self._index = passages.PassageIndex(passages.passages_of(document))
        no_name = vocabulary().patterns["signs"]["no_name"]
        names = _entities("person", plain(document.text))
        self._names = {name for name in names if not no_name.search(name[1:])}

    @property
    def inputs(self) -> dict[str, Any]:
        """Settings that the answers depend on besides the document, for the fingerprint."""
        return {"words_sha256": vocabulary().sha256}

    async def query(self, question: str) -> RagAnswer:
        """Return the answer with its evidence, or an abstention with the nearest words."""
        units = self._index.weighted(passages.units_of(question, self._names_in(question)))
        asked = read_question(question)._replace(units=tuple(units))
        hits: list[Hit] = []
        for hit in self._index.search(units):
            bonus = hit.passage.is_pair and asked.kin(hit.passage.question, "kinds")
            if hit.score:
                hits.append(hit._replace(score=hit.score + _SAME_KIND * bonus))
        hits.sort(key=lambda hit: -hit.score)
        return self._answer(asked, hits) if hits else _reply(asked, [], "none")

    def _answer(self, asked: _Question, hits: list[Hit]) -> RagAnswer:
        best, kind = hits[0], asked.kind
        near = [hit for hit in hits if hit.score >= NEAR * best.score]
        is_typed, is_list = kind in _TYPED, kind == "list"
        supported = best.score >= (MIN_VALUE_SUPPORT if is_typed or is_list else MIN_SUPPORT)
        if kind == "conflict":
            return _reply(asked, [quote for hit in hits[:3] for quote in hit.passage.quotes()[:1]], "unknown")
        if is_list and supported:
            listed = sorted(near[:6], key=lambda hit: hit.number)
            return _reply(asked, [quote for hit in listed for quote in hit.passage.quotes()])
        if not is_list and (unknown := self._unknown(asked, near)) is not None:
            return _reply(asked, [unknown], "unknown")
        found = None
        if supported:
            found = self._value(asked, hits) if is_typed else self._words(asked, best.passage)
        return found or _reply(asked, best.passage.quotes()[:1], "none")

    def _words(self, asked: _Question, passage: Passage) -> RagAnswer:
        """Return yes or no, or the nearest sentence of a passage."""
        sentence = max(passage.body or passage.asked, key=asked.share)
        if asked.kind == "text":
            return _reply(asked, [sentence], text=sentence.text)
        says = answers.leading_polarity(plain(passage.answer)) if passage.is_pair else None
        if says is None and (says := answers.polarity(sentence.text)) is None:
            return _reply(asked, [sentence], "unknown")
        return _reply(asked, passage.quotes(), boolean=says)

    def _unknown(self, asked: _Question, near: list[Hit]) -> Sentence | None:
        """Return the sentence with which the document leaves the question open, if any.

        It has a clause that speaks of what is asked for (哪一天想不起来了), unless a clause with a value
        is nearer to the question; or it stands in the best passage, which gives no value.
        """
        details = "details" in asked.signs
        for hit in near:
            body, best = hit.passage.body, hit is near[0]
            open_ones = sorted(filter(_is_unknown, body), key=asked.share, reverse=True)
            if open_ones and asked.kind not in _TYPED:
                return open_ones[0] if best and (details or body[0] in open_ones) else None
            for each in open_ones:
                parts = [Sentence(each.page, part) for part in clauses(each.text)]
                left = [part for part in parts if _is_unknown(part) and asked.kin(part.text, "topics")]
                given = [asked.share(part) for part in parts if self._values(asked, part.text)]
                if left and max(map(asked.share, left)) >= max(given, default=0.0):
                    return each
            if open_ones and best and (details or not any(self._values(asked, each.text) for each in body)):
                return open_ones[0]
        return None

    def _value(self, asked: _Question, hits: list[Hit]) -> RagAnswer | None:
        """Return the nearest value of the asked kind in the best passages, a record's questions last."""
        found: list[tuple[float, Any, Sentence, Hit]] = []
        for hit in hits[:4]:
            weights = [(sentence, 1.0) for sentence in hit.passage.body]
            weights += [(sentence, 0.45) for sentence in hit.passage.asked if hit.passage.is_pair]
            for sentence, weight in weights:
                if values := self._values(asked, sentence.text):
                    score = hit.score * (0.5 + 0.5 * asked.share(sentence)) * weight
                    found.append((score, values[0], sentence, hit))
        best = max(found, key=lambda each: each[0], default=None)
        return None if best is None else self._typed(asked, *best[1:])

    def _values(self, asked: _Question, text: str) -> list[Any]:
        """Return the values of the asked kind in a sentence, without those that the question names."""
        words = plain(text)
        if (choose := answers.CHOOSERS.get(asked.kind)) is not None:
            read = answers.ReadAnswer(text.replace("是不是", "是"), asked.text)
            chosen = choose(read)
            values = list(chosen.candidates) if chosen.value is None else [chosen.value]
            if asked.kind == "amount" and "total" in asked.signs and chosen.value is None and values:
                return [sum(values)]
            known = {fact.value for fact in read.asked}
            return [value for value in values if value not in known]
        if asked.kind == "person":
            found = self._names_in(words)
        elif asked.kind in ("place", "organization"):
            found = _entities(asked.kind, words)
        else:
            facts = find_facts(words, names=False)
            times = [text for fact in facts if fact.kind == "time"]
            found = times if asked.kind == "clock" else [fact.value for fact in facts if fact.kind == "id"]
        return [value for value in found if value not in asked.text]

    def _names_in(self, text: str) -> list[str]:
        """Return the names of persons in the document that a text has, in its order."""
        found = [name for name in self._names if name in text]
        longest = [name for name in found if not any(name != other and name in other for other in found)]
        return sorted(longest, key=lambda name: (text.index(name), name))

    def _typed(self, asked: _Question, value: Any, sentence: Sentence, hit: Hit) -> RagAnswer:
        quotes = [sentence]
        if sentence in hit.passage.asked:  # the answer affirms the words of the question
            quotes += hit.passage.quotes()
        typed: dict[str, Any] = {"text": sentence.text}
        if asked.kind == "amount":
            typed = {"amount": value}
        elif asked.kind == "breakdown":
            total = sum(value) if "total" in asked.signs else None
            typed = {"amount_breakdown": list(value), "amount": total}
        elif asked.kind == "count" and value.is_integer():
            typed = {"count": int(value)}
        elif asked.kind == "date":
            typed = {"date": self._dated(value, hit).iso()}
        elif asked.kind == "range":
            first, last = (self._dated(end, hit).iso() for end in value)
            typed = {"date_range": RagAnswerRange(start=first, end=last)}
        elif asked.kind not in ("clock", "count"):
            typed = {"entity": value, "text": value}
        return _reply(asked, quotes, **typed)

    def _dated(self, date: PartialDate, hit: Hit) -> PartialDate:
        """Complete a date without a year by the year in the words before it."""
        for passage in reversed(self._index.passages[: hit.number + 1] if date.year is None else ()):
            years = [found.value.year for found in find_dates(plain(f"{passage.question}\n{passage.answer}"))]
            if passage.is_pair and any(years):
                return date._replace(year=[year for year in years if year][-1])
        return date


def _entities(kind: str, words: str) -> list[str]:
    pattern = vocabulary().patterns["entities"][kind]
    return ["".join(match.groups("")) for match in pattern.finditer(words)]


def _is_unknown(sentence: Sentence) -> bool:
    words = plain(sentence.text)
    unknown = vocabulary().patterns["signs"]["unknown"]
    return bool(answers.signs_of_not_knowing(words) or unknown.search(words.lower()))


def _reply(asked: _Question, quotes: list[Sentence], abstains: str = "", **typed: Any) -> RagAnswer:
    words = vocabulary().templates[language_of(asked.text)]
    lead = words.get(abstains or str(typed.get("boolean")), "")
    quoted = "；".join(words["found"].format(page=each.page, quote=each.text) for each in quotes)
    return RagAnswer(
        answer=f"{lead}{quoted}",
        evidence=[RagEvidence(page=each.page, text=each.text) for each in quotes],
        citation=[RagCitation(page=each.page, quote=each.text) for each in quotes],
        abstained=bool(abstains),
        **typed,
    )


_DECLINED: Final = "原文没有给出答案，无法回答。"


class Oracle(KnownSystem):
    """Answers each question as its file expects it; scores 100 % where the file is sound."""

    reference = model = "oracle"
    version = __version__
    sees_truth = True

    async def query(self, question: RagQuestion) -> RagAnswer:
        """Answer a question with the expected answer."""
        return right_answer(question)


def right_answer(question: RagQuestion) -> RagAnswer:
    """Return the answer that the benchmark expects to a question."""
    if question.type == "conflict_gap":
        return _conflict_gap(question)
    expected = question.expected
    required = question.required_evidence
    breakdown = expected.breakdown()
    period = expected.date_range
    quotes = list(dict.fromkeys((each.page, each.must_include) for each in required))
    words = expected.key_points or [text for _, text in quotes] or [expected.text_answer or "-"]
    return RagAnswer(
        answer="；".join(words),
        amount=expected.amount_total,
        amount_breakdown=list(breakdown) if breakdown is not None else None,
        date=expected.date,
        date_range=None if period is None else RagAnswerRange(start=period.start, end=period.end),
        count=expected.count,
        text=expected.text_answer,
        boolean=expected.boolean_answer,
        entity=expected.entity,
        evidence=[RagEvidence(page=page, text=text) for page, text in quotes],
        citation=[RagCitation(page=page, quote=text) for page, text in quotes],
        abstained=False,
    )


def _conflict_gap(question: RagQuestion) -> RagAnswer:
    place = question.evidence_location
    quotes = [text for text in (question.required_quote, *question.additional_quotes) if text]
    words = "；".join(quotes)
    return RagAnswer(
        answer=f"{_DECLINED}{words}" if question.should_abstain else words or question.question,
        citation=[RagCitation(page=None if place is None else place.page, quote=text) for text in quotes],
        abstained=question.should_abstain,
    )
