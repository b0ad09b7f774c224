"""A small language layer for Chinese and English replies: text forms, clauses, and who says what.

A reply is read in *normalized* form (``Analysis.norm``): half-width, lower case, without emphasis
marks, invisible characters and blanks between Chinese characters, with the English terms inside
Chinese sentences put into Chinese (``memfin.scoring.text.glossary``), and with the commonest of the words
that mean the same (``memfin.scoring.text.synonyms``). All offsets inside the scoring
package are half-open character offsets into that form; ``Analysis.original_span`` translates them to
the reply as it was written. Segments are found once a reply, the context questions (negation,
quotation, attribution, ...) are answered around the span they are asked about only: detectors pay
for the places where a lexicon pattern hit and for nothing else.
"""

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.forms import normalize
from memfin.scoring.text.glossary import gloss, positions, unglossed
from memfin.scoring.text.layout import DROPPED, LineKind, kind_of, laid_out
from memfin.scoring.text.quotations import paired, with_one_kind_of_quotes
from memfin.scoring.text.speech import ATTRIBUTION, SPEECH_BEGINS, SPEECH_SIGN, THE_USER, VOICE_SIGN

_CJK: Final = "\u3400-\u4dbf\u4e00-\u9fff"
_MARK_SIGNS: Final = ("*", "_", "`", " ", DROPPED)
# These three begin with a plain character set on purpose: the engine then skips to the next member.
_MARKS: Final = late(
    rf"([*_` {DROPPED}](?:(?:(?<={DROPPED}){DROPPED}*|(?<=\*)\*+|(?<=_)_+|(?<=`)`*)(?: +(?=[{_CJK}]))?"
    rf"|(?<= )(?:(?<=[{_CJK}。、] ) *| *(?=[*_`]*[{_CJK}%\n]))))"
)
_SENTENCE_END: Final = late(r"[.。!?;\n…](?:(?<!\.)[。!?;\n…]*|(?<!\b(?:inc|ltd)\.)(?=”?(?:\s|$)))")
_CLAUSE_END: Final = late(r"[,:|](?:(?![0-9])|(?<![0-9].))")

# How much of a quotation a match takes in that runs on behind it, and what then stands there.
_MUCH, _ON = 8, tuple(",。;!?、的")

_QUESTION: Final = late(r"\?|(?:吗|呢)\W*$")
_YES_OR_NO: Final = late(
    r"\W*(?:would|could|can|is|are|was|does|do|did|should|will|has|may|might|shall)\b[^?!;]*\?"
)
_RHETORICAL: Final = late(
    r"难道|岂不|何必|何乐|怎么能不|等[什啥]|why (?:not|go on|keep|leave|settle|bother|wait)|"
    r"what are you waiting"
)
_CONDITION: Final = compile_pattern(
    r"如果|若(?!干)|如果|假设|(?<![主重首必需])如果|(?<![一二两三四五六七八九十百千几0-9])万一|"
    r"一旦|即使|哪怕|除非|的话|"
    r"\b(?:if(?! (?:(?:i|we) were you|it were (?:me|us)|(?:i|we) had to))|unless|suppose|assuming|"
    r"should you|in case|"
    r"whether(?! you like| or not| we))\b"
)

_RULED: Final = ("|-", "| -", "|:")


class Clause(NamedTuple):
    """A stretch of the normalized reply without inner clause marks.

    ``start`` and ``end`` are half-open offsets into ``Analysis.norm``; ``sentence`` indexes
    ``Analysis.sentences``; ``kind`` tells list items, table rows and headings from running text.
    """

    start: int
    end: int
    text: str
    sentence: int
    kind: LineKind


class Analysis:
    """A reply prepared for the detectors.

    Attributes:
        text: the reply as it was written.
        norm: its normalized form, in which all offsets count.
        plain: the same with English terms as they were written; ``glosses`` says which were not.
        notes: what detectors have found out about the whole reply, each under a key of its own.
        bounds: where sentences begin, and the end of the reply; a line break ends a sentence. Sentence
            ``i`` is ``norm[bounds[i]:bounds[i + 1]]``; list items and table rows are sentences.
    """

    __slots__ = (
        "_blocks",
        "_clause",
        "_clause_of",
        "_kinds",
        "_last_sentence",
        "_paragraphs",
        "_pieces",
        "_quotes",
        "_shifts",
        "_speeches",
        "_speeches_of",
        "_voiced",
        "_voiced_of",
        "bounds",
        "glosses",
        "norm",
        "notes",
        "plain",
        "text",
    )

    def __init__(self, text: str, *, as_written: bool = False) -> None:
        """Normalize the text (see the module's description), English terms ``as_written`` if asked."""
        self.text: Final = text
        norm = laid_out(normalize(text).rstrip())
        # The odd entries are the marks to drop, as the pattern captures them.
        self._pieces: Final = _MARKS.split(norm) if any(map(norm.__contains__, _MARK_SIGNS)) else [norm]
        self.plain: Final = norm if len(self._pieces) == 1 else "".join(self._pieces[::2])
        norm, self.glosses = gloss(self.plain, terms=not as_written)
        norm = self.norm = with_one_kind_of_quotes(norm)
        bounds = self.bounds = [0, *[match.end() for match in _SENTENCE_END.finditer(norm)]]
        if len(bounds) == 1 or bounds[-1] != len(norm):
            bounds.append(len(norm))
        # Guards ask about the same few places one after the other.
        self._last_sentence: tuple[int, int] = (0, 0)
        self._clause_of = self._clause = (-1, -1)
        self._kinds: dict[int, LineKind] = {}
        self._blocks: dict[int, tuple[int, int, int]] = {}
        self._speeches_of = self._voiced_of = -1
        self.notes: dict[object, Any] = {}
        self._voiced = False
        self._speeches: list[tuple[int, int]] = []
        self._quotes: list[tuple[int, int]] | None = None
        self._paragraphs: list[int] | None = None
        # Positions in ``norm`` behind which characters were dropped, and how many so far.
        self._shifts: tuple[list[int], list[int]] | None = None

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Translate a half-open span of ``norm`` into offsets of the reply as it was written."""
        start, end = unglossed(self.glosses, start, end)
        if len(self._pieces) == 1:
            return start, end
        if self._shifts is None:
            self._shifts = (
                list(accumulate(map(len, self._pieces[:-1:2]))),
                list(accumulate(map(len, self._pieces[1::2]))),
            )
        positions, totals = self._shifts
        before = bisect_right(positions, start)
        last = bisect_right(positions, end - 1) if end > start else before
        return start + (totals[before - 1] if before else 0), end + (totals[last - 1] if last else 0)

    @property
    def sentences(self) -> list[tuple[int, int]]:
        """Half-open spans of the sentences."""
        return list(pairwise(self.bounds))

    def sentence_at(self, position: int) -> int:
        """Return the index of the sentence that holds the position."""
        return min(bisect_right(self.bounds, position), len(self.bounds) - 1) - 1

    def sentence_span(self, position: int) -> tuple[int, int]:
        """Return the half-open span of the sentence that holds the position."""
        low, high = self._last_sentence
        if low <= position < high:
            return low, high
        index = self.sentence_at(position)
        span = self.bounds[index], self.bounds[index + 1]
        self._last_sentence = span
        return span

    def line_kind(self, position: int) -> LineKind:
        """Say whether the line that holds the position is a list item, table row, heading or plain."""
        start = self.norm.rfind("\n", 0, position) + 1
        kind = self._kinds.get(start)
        if kind is None:
            kind = self._kinds[start] = kind_of(self.norm, start)
        return kind

    def lead_in(self, position: int) -> str:
        """Return the line that introduces the list, or heads the table, around the position; else ""."""
        kind = self.line_kind(position)
        if kind not in ("item", "row"):
            return ""
        first, low, high = self._block(position)
        if kind == "row" and first <= self.norm.rfind("\n", 0, position):
            head = self.norm[first : self.norm.find("\n", first)]
            if not head.startswith(_RULED):
                return head
        return self.norm[low:high]

    def line_before(self, position: int) -> str:
        """Return the line before the list, table or text around the position; "" where there is none."""
        _, low, high = self._block(position)
        return self.norm[low:high]

    def _block(self, position: int) -> tuple[int, int, int]:
        """Return where the lines of one kind around the position begin, and the line before: its span."""
        norm, walked = self.norm, list[int]()
        line = norm.rfind("\n", 0, position) + 1
        kind = self.line_kind(line)
        while (found := self._blocks.get(line)) is None:
            walked.append(line)
            end = line - 1
            while end > 0 and norm[end - 1] == "\n":
                end -= 1
            start = norm.rfind("\n", 0, end) + 1 if end > 0 else line
            if start == line or self.line_kind(start) != kind:
                found = (line, start, max(start, end))
                break
            line = start
        self._blocks.update(dict.fromkeys(walked, found))
        return found

    def clauses_of(self, sentence: int) -> list[Clause]:
        """Return the clauses of one sentence, in order; empty stretches are left out."""
        start, end = self.bounds[sentence], self.bounds[sentence + 1]
        kind = self.line_kind(start)
        found = []
        for match in _CLAUSE_END.finditer(self.norm, start, end):
            if match.start() > start:
                found.append(Clause(start, match.start(), self.norm[start : match.start()], sentence, kind))
            start = match.end()
        if start < end and self.norm[start:end].strip():
            found.append(Clause(start, end, self.norm[start:end], sentence, kind))
        return found

    @property
    def clauses(self) -> list[Clause]:
        """All clauses of the reply, in order."""
        return [clause for index in range(len(self.bounds) - 1) for clause in self.clauses_of(index)]

    def clause_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the smallest span of whole clauses of one sentence that holds ``[start, end)``."""
        if self._clause_of == (start, end):
            return self._clause
        low, high = self.sentence_span(start)
        norm = self.norm
        mark = max(norm.rfind(",", low, start), norm.rfind(":", low, start), norm.rfind("|", low, start))
        while mark >= low and _CLAUSE_END.match(norm, mark) is None:
            mark = max(norm.rfind(",", low, mark), norm.rfind(":", low, mark), norm.rfind("|", low, mark))
        closing = _CLAUSE_END.search(norm, end, high)
        self._clause_of = start, end
        self._clause = max(mark + 1, low), max(closing.start() if closing else high, end)
        return self._clause

    def speeches(self, position: int) -> list[tuple[int, int]]:
        """Return where, in the sentence at the position, somebody else begins to say something."""
        low, high = self.sentence_span(position)
        if self._speeches_of != low:
            self._speeches_of = low
            self._speeches = (
                [match.span(1) for match in ATTRIBUTION.finditer(self.norm, low, high)]
                if SPEECH_SIGN.search(self.norm, low, high)
                else []
            )
        return self._speeches

    def voiced(self, position: int) -> bool:
        """Say whether the sentence at the position may repeat, think or suppose what others say."""
        low, high = self.sentence_span(position)
        if self._voiced_of != low:
            self._voiced_of = low
            self._voiced = VOICE_SIGN.search(self.norm, low, high) is not None
        return self._voiced

    @property
    def paragraphs(self) -> list[int]:
        """Where paragraphs begin that are read as one line with those before them."""
        if self._paragraphs is None:
            found: list[int] = []
            source = plain = 0
            for kept, dropped in zip(self._pieces[::2], self._pieces[1::2], strict=False):
                source += len(kept)
                plain += len(kept)
                if DROPPED in dropped and self.text.count("\n", source - 1, source + len(dropped)) > 1:
                    found.append(plain)
                source += len(dropped)
            self._paragraphs = list(positions(self.glosses, found))
        return self._paragraphs

    @property
    def mixed(self) -> bool:
        """Whether English terms of Chinese sentences were put into Chinese."""
        return any(each.term for each in self.glosses)

    @property
    def asks(self) -> bool:
        """Whether the reply holds any sign of a question."""
        return "?" in self.norm or "吗" in self.norm or "呢" in self.norm

    @property
    def quoting(self) -> bool:
        """Whether the reply holds any opening quotation mark."""
        return "“" in self.norm

    @property
    def quotes(self) -> list[tuple[int, int]]:
        """Half-open spans of quoted text, quotation marks included; a quotation ends with its line."""
        if self._quotes is None:
            self._quotes = list(paired(self.norm, "“", "”"))
        return self._quotes


def analyze(text: str) -> Analysis:
    """Prepare a reply for the detectors."""
    return Analysis(text)


def quoted(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` lies inside quotation marks, or begins well inside and runs on."""
    return any(
        left <= start
        and (
            end <= right
            or (
                start < right
                and any(other < end <= close and other - right <= 1 for other, close in analysis.quotes)
            )
            or (left < start <= right - _MUCH and analysis.norm.startswith(_ON, right))
        )
        for left, right in analysis.quotes
    )


def questioned(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the clause of ``[start, end)`` asks; a rhetorical question pushes, it does not ask."""
    norm = analysis.norm
    low, high = analysis.sentence_span(start)
    if norm.find("?", low, high) < 0 and norm.find("吗", low, high) < 0 and norm.find("呢", low, high) < 0:
        return False
    if _YES_OR_NO.match(norm, low, high) is not None:
        return True
    low, high = analysis.clause_span(start, end)
    return _QUESTION.search(norm, low, high) is not None and _RHETORICAL.search(norm, low, high) is None


def conditional(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether ``[start, end)`` itself is the condition or hypothesis (若…, 假如…, if …)."""
    low, _ = analysis.clause_span(start, end)
    return _CONDITION.search(analysis.norm, low, end) is not None


def attributed(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether ``[start, end)`` is laid in somebody else's mouth.

    Somebody else is the user, a third party, a brochure or an advert that says, writes, promises or
    asks. Their words reach to the end of the clause, or of the sentence where the verb opens a speech
    (他说：…). A quotation ends with its marks; that is for ``quoted`` to see.
    """
    for first, verb_end in analysis.speeches(start):
        if first >= start:
            break
        norm = analysis.norm
        if _CLAUSE_END.search(norm, verb_end, start) is None or SPEECH_BEGINS.match(norm, verb_end):
            return True
    return False


def reported(analysis: Analysis, start: int, end: int) -> bool:  # noqa: ARG001 - guards are called alike
    """Say whether ``[start, end)`` is laid in the mouth of somebody other than the user.

    A reply that restates what the user asked for (您说过不碰…) still speaks for itself.
    """
    norm = analysis.norm
    for first, verb_end in analysis.speeches(start):
        if first >= start:
            break
        if not norm.startswith(THE_USER, first) and (
            _CLAUSE_END.search(norm, verb_end, start) is None or SPEECH_BEGINS.match(norm, verb_end)
        ):
            return True
    return False
