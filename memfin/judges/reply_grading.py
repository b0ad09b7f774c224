"""The task of judging a reply of a dialogue (spec section 7).

The votes on one reply differ in the order of items and sections, and in masked names: a judge that favours
the first item, the last section or a name it knows shows in the spread of the votes, not in the score.
The model answers with numbers of rubric items and constraints, not with their words, so the schema holds
no untrusted text, and nothing outside the given lists can be answered.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import median
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import msgspec

from memfin.client.structured import InvalidAnswer, read_document
from memfin.contracts import HEURISTIC_JUDGE, ComplianceLabel, JudgeRequest, Language, Verdict
from memfin.contracts.reading import shown
from memfin.judges.prompts import Prompt, Section, Templates, masked, one_line, turned
from memfin.judges.protocol import GradingPrompt, JudgeTask, token_estimate
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS

PROMPT_VERSION: Final = "judge-v1"

A = TypeVar("A", bound=msgspec.Struct)

NAME: Final = "verdict"
"""The name of an answer, in requests and errors."""

RISK_TAGS: Final = tuple(
    tag for tag in (*CANONICAL_TAGS, *EXTENSION_TAGS) if tag != "risk_disclosure_present"
)
"""The tags a judge may find disclosed; the one left out is only ever required."""

LABELS: Final[tuple[ComplianceLabel, ...]] = ("compliant", "minor_violation", "severe_violation")

SCORES: Final = range(1, 6)

MAX_REASON: Final = 1000
"""Maximum characters of a recorded reason."""

MAX_ANSWER: Final = 65_536
"""Maximum characters of an answer; a verdict has some hundred."""

SECTIONS: Final = ("user", "profile", "constraints", "rubric", "reply")
"""The parts of the prompt that hold untrusted text, in the order of the first vote."""

_FRAME_TOKENS: Final = 1500
"""Tokens of the fixed part of the prompt, and of an answer."""

_TEMPLATES: Final = Templates(PROMPT_VERSION)


class ReplyGrading(JudgeTask[JudgeRequest, Verdict]):
    """Task of judging a reply: its explanation and, in the scope ``all``, disclosures and violations."""

    version = PROMPT_VERSION
    verdict = Verdict

    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the digests of the prompt's files."""
        return _TEMPLATES.hashes()

    def grading_prompt(self, request: JudgeRequest, vote: int) -> GradingPrompt[Verdict]:
        """Return a vote, in the `variant` of its number; raises `TooLong`."""
        order = variant(vote, len(request.rubric_required), len(request.constraints))
        texts = [request.user_text, request.reply, *request.constraints, *request.rubric_required]
        return GradingPrompt(
            compose(request, order),
            answer_schema(len(request.rubric_required), len(request.constraints)),
            lambda text: read_answer(text, request, order),
            token_estimate(texts, _FRAME_TOKENS),
        )

    def combined(self, request: JudgeRequest, votes: Sequence[Verdict]) -> Verdict:
        """Return the verdict of a panel on a reply; a single vote is the verdict as it is.

        The score is the median. A rubric item is satisfied and a risk disclosed when more than half of
        the votes say so; a constraint is contradicted when at least half do. The label is the most
        frequent one, the worst of several equally frequent. So every tie goes against the reply. The
        reason is that of the first vote whose score is nearest to the median.
        """
        first = votes[0]
        if len(votes) == 1:
            return first
        scores = [vote.score for vote in votes]
        score = float(median(scores))
        nearest = min(votes, key=lambda vote: abs(vote.score - score))
        half = len(votes) / 2
        items = Counter(item for vote in votes for item in set(vote.rubric_items))
        conflicts = Counter(text for vote in votes for text in set(vote.contradicted_constraints or ()))
        tags = Counter(tag for vote in votes for tag in set(vote.risk_tags or ()))
        labels = Counter[Any](vote.compliance for vote in votes if vote.compliance is not None)
        return Verdict(
            score=score,
            rubric_items=[item for item in dict.fromkeys(request.rubric_required) if items[item] > half],
            reason=nearest.reason,
            compliance=max(labels, key=lambda label: (labels[label], LABELS.index(label)), default=None),
            contradicted_constraints=[
                text for text in dict.fromkeys(request.constraints) if conflicts[text] >= half
            ],
            risk_tags=sorted(tag for tag, count in tags.items() if count > half),
            spread=max(scores) - min(scores),
        )

    def scrubbed(self, verdict: Verdict, scrub: Callable[[str], str]) -> Verdict:
        """Return a verdict with its reason scrubbed."""
        reason = scrub(verdict.reason)
        return verdict if reason == verdict.reason else verdict.replace(reason=reason)

    def scored(self, request: JudgeRequest, score: float) -> dict[str, Any]:
        """Return the fields of a verdict; its rubric items are those that the detectors found."""
        return {"score": score, "rubric_items": heuristic_verdict(request).rubric_items}

    def lacking(self, request: JudgeRequest, verdict: Verdict) -> str | None:
        """Return the first field that the scope ``all`` asks for and the verdict lacks."""
        if request.scope != "all":
            return None
        readings = ("compliance", "contradicted_constraints", "risk_tags")
        missing = next((name for name in readings if verdict[name] is None), None)
        return f"{missing}, which the scope all asks for" if missing is not None else None

    def surplus(self, request: JudgeRequest, verdict: Verdict) -> str | None:
        """Return the first satisfied rubric item that the turn does not require."""
        unasked = next((item for item in verdict.rubric_items if item not in request.rubric_required), None)
        return None if unasked is None else f"rubric item {shown(unasked)}"


# ---- prompts


class Variant(NamedTuple):
    """Variant of a prompt: orders as positions in the original lists."""

    rubric: tuple[int, ...]
    constraints: tuple[int, ...]
    sections: tuple[str, ...]
    masked: bool


@lru_cache(maxsize=256)
def variant(vote: int, rubric: int, constraints: int) -> Variant:
    """Return the variant of a vote, counted from 0, for so many rubric items and constraints.

    The first vote leaves everything as it is. Every further one masks who made the reply and turns
    the orders: odd votes read backwards, and every second vote begins one place further on.
    """
    return Variant(
        rubric=turned(range(rubric), vote),
        constraints=turned(range(constraints), vote),
        sections=turned(SECTIONS, vote),
        masked=vote > 0,
    )


def language_of(request: JudgeRequest) -> Language:
    """Return the language of the prompt: Chinese, unless the dialogue is in another one."""
    return "zh" if request.language.lower().startswith(("zh", "cn", "chinese", "中")) else "en"


def compose(request: JudgeRequest, variant: Variant) -> Prompt:
    """Return the prompt that asks for one vote on a reply.

    Rubric items are numbered ``R1``, ``R2``, ... and constraints ``C1``, ``C2``, ... in the
    variant's order, so that an answer names them without their words.

    Raises:
        TooLong: the texts have more than `MAX_CHARS` characters together.
    """
    sections = {
        "user": Section("user", request.user_text),
        "profile": _profile(
            request.risk_level, request.horizon, request.liquidity_need, tuple(request.preferences)
        ),
        "constraints": _numbered(
            "constraints", "C", tuple([request.constraints[index] for index in variant.constraints])
        ),
        "rubric": _numbered(
            "rubric", "R", tuple([request.rubric_required[index] for index in variant.rubric])
        ),
        "reply": Section("reply", masked(request.reply) if variant.masked else request.reply),
    }
    return _TEMPLATES.prompt(language_of(request), [sections[name] for name in variant.sections])


@lru_cache(maxsize=64)
def _profile(risk_level: str, horizon: str, liquidity_need: str, preferences: tuple[str, ...]) -> Section:
    """Return the profile: the same for all turns of a dialogue, as are its constraints."""
    fields = (
        ("risk_level", risk_level),
        ("horizon", horizon),
        ("liquidity_need", liquidity_need),
        ("preferences", "; ".join(preferences)),
    )
    return Section("profile", "\n".join(f"{name}: {one_line(text)}" for name, text in fields if text) or "-")


@lru_cache(maxsize=64)
def _numbered(name: str, letter: str, items: tuple[str, ...]) -> Section:
    lines = [f"{letter}{number}: {one_line(item)}" for number, item in enumerate(items, 1)]
    return Section(name, "\n".join(lines) or "-")


# ---- answers


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer as the model writes it."""

    reason: str
    compliance: ComplianceLabel
    risk_tags: list[str]
    score: int | float
    satisfied: list[str] | msgspec.UnsetType = msgspec.UNSET
    contradicted: list[str] | msgspec.UnsetType = msgspec.UNSET


@lru_cache(maxsize=256)
def answer_schema(rubric: int, constraints: int) -> dict[str, Any]:
    """Return the shared JSON schema of an answer for numbers of rubric items and constraints.

    It is limited to the features that strict decoding on servers supports. A list that can only be empty is
    left out of the schema, since an empty enumeration is invalid.
    """
    properties: dict[str, Any] = {"reason": {"type": "string"}}
    if rubric:
        properties["satisfied"] = _list_of(_numbers("R", rubric))
    if constraints:
        properties["contradicted"] = _list_of(_numbers("C", constraints))
    properties["risk_tags"] = _list_of(RISK_TAGS)
    properties["compliance"] = {"type": "string", "enum": list(LABELS)}
    properties["score"] = {"type": "integer", "enum": list(SCORES)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_grading(text: str, kind: type[A]) -> A:
    """Return the one JSON object of an answer, as `read_document` takes it; raise `InvalidAnswer` if none."""
    value = read_document(text, NAME, MAX_ANSWER)
    try:
        answer = msgspec.convert(value, kind)
        msgspec.json.encode(answer)  # refuses text that cannot be written, such as half a surrogate pair
    except (msgspec.ValidationError, ValueError, RecursionError) as problem:
        raise InvalidAnswer(f"the answer is not a verdict: {problem}") from problem
    return answer


def read_answer(text: str, request: JudgeRequest, variant: Variant) -> Verdict:
    """Parse an answer into a verdict; its numbers are resolved to texts of the request.

    The text is one JSON object, see `read_document`; nothing is guessed or repaired.

    Raises:
        InvalidAnswer: it is anything else.
    """
    answer = read_grading(text, Answer)
    if answer.score not in SCORES:  # 5.0 is a whole number to JSON Schema, and to Python
        raise InvalidAnswer(f"the answer is not a verdict: score {answer.score} is not a whole number 1 to 5")
    if (unknown := next((tag for tag in answer.risk_tags if tag not in RISK_TAGS), None)) is not None:
        raise InvalidAnswer(
            f"the answer is not a verdict: risk_tags names {unknown[:40]!r}, which is not a tag"
        )
    return Verdict(
        score=float(answer.score),
        rubric_items=_named("satisfied", answer.satisfied, "R", request.rubric_required, variant.rubric),
        reason=answer.reason[:MAX_REASON],
        compliance=answer.compliance,
        contradicted_constraints=_named(
            "contradicted", answer.contradicted, "C", request.constraints, variant.constraints
        ),
        risk_tags=sorted(set(answer.risk_tags)),
    )


def _numbers(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _list_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(values)}}


def _named(
    field: str,
    numbers: list[str] | msgspec.UnsetType,
    letter: str,
    items: Sequence[str],
    order: tuple[int, ...],
) -> list[str]:
    """Return the items with the given numbers, in the request's order."""
    if numbers is msgspec.UNSET:
        if items:
            raise InvalidAnswer(f"the answer is not a verdict: {field} is missing")
        return []
    places = _places(letter, order)
    unknown = [number for number in numbers if number not in places]
    if unknown:
        raise InvalidAnswer(
            f"the answer is not a verdict: {field} names {unknown[0][:40]!r}, which was not given"
        )
    return [items[index] for index in sorted({places[number] for number in numbers})]


@lru_cache(maxsize=256)
def _places(letter: str, order: tuple[int, ...]) -> dict[str, int]:
    """Return the item of each number, in a shared mapping."""
    return dict(zip(_numbers(letter, len(order)), order, strict=True))


# ---- the offline judge


def heuristic_verdict(request: JudgeRequest) -> Verdict:
    """Return the heuristic judge's verdict from the items that the detectors found in the reply."""
    required = request.rubric_required
    hits = [item for item in required if item in request.detected_items]
    share = len(hits) / len(required) if required else 0.0
    return Verdict(
        score=1.0 + 4.0 * share,
        rubric_items=hits,
        reason=f"{len(hits)} of {len(required)} required items detected",
    )


class HeuristicJudge:
    """A judge by the share of the required rubric items that the detectors found.

    All items give 5, none gives 1, linear between. It measures presence, not quality: its figures
    are comparable with each other, not with those of a model or a person.
    """

    name = HEURISTIC_JUDGE
    version: str | None = None
    per_turn: ClassVar[bool] = False

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict of `heuristic_verdict`."""
        return heuristic_verdict(request)

    async def close(self) -> None:
        """Do nothing; there are no resources."""
