"""Words for the acts of a simulated client: templates, or a model whose words are checked by the sheet."""

import hashlib
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

from memfin.client.errors import RequestError
from memfin.clients.machine import ActKind, State, advance, begin, outcome
from memfin.contracts import ClientOutcome, Record, TurnPair, TurnTrace
from memfin.contracts.clients import ClientSheet
from memfin.contracts.dataset import TurnTags
from memfin.dataset import detect_language
from memfin.ledger.matching import gives, mentions
from memfin.text.quantities import quantities

ATTEMPTS: Final = 3
MAX_CHARS: Final = 800  # of a model's words
_FILE: Final = Path(__file__).parents[1] / "data" / "prompts" / "client-words.toml"


class Brief(Record):
    """An act as a model gets it: what the client means to say, and the faults of the last attempt.

    ``curt`` clients are losing patience. The agent's words never reach the model.
    """

    language: Literal["zh", "en"]
    words: str
    curt: bool = False
    faults: list[str] = []


Model = Callable[[Brief], Awaitable[str]]
"""Words an act; raises `RequestError` where it can not."""

_IMPATIENT: Final[frozenset[ActKind]] = frozenset({"again", "unknown", "decide", "object", "push"})


def is_curt(sheet: ClientSheet, state: State) -> bool:
    """Return True if the client has used up half of its patience and says so."""
    return state.act.kind in _IMPATIENT and 2 * state.spent >= sheet.patience


def from_templates(sheet: ClientSheet, state: State, key: str) -> str:
    """Return the words of a state's act; ``key`` draws the variants. An end has none."""

    def draw(variants: Sequence[str], what: str) -> str:
        digest = hashlib.sha256(f"{key}\0{state.turn}\0{what}".encode()).digest()
        return variants[int.from_bytes(digest[:8], "big") % len(variants)]

    if state.ended:
        return ""
    words = _words()[sheet.language]
    tells = {each.fact.id: each for each in sheet.tells}
    told = [tells[name] for name in state.act.facts]
    unasked = state.act.kind == "tell" and all(each.how == "after" for each in told)
    opening = "add" if unasked else state.act.kind
    said = [draw(words[opening], opening).replace("{goal}", sheet.goal)]
    said += [
        draw(each.says or words["fact"], each.fact.id)
        .replace("{name}", each.name)
        .replace("{value}", each.fact.value)
        for each in told
    ]
    if is_curt(sheet, state):
        said.append(draw(words["curt"], "curt"))
    return ("" if sheet.language == "zh" else " ").join(said)


@cache
def _words() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the variants of every act by language."""
    return tomllib.loads(_FILE.read_text("utf-8"))


def faults(sheet: ClientSheet, state: State, text: str) -> list[str]:
    """Return why a text may not be said in a state: what it discloses, leaves out, denies or invents."""
    found = ["is empty"] if not text.strip() else []
    if len(text) > MAX_CHARS:
        found.append(f"is longer than {MAX_CHARS} characters")
    if text.strip() and detect_language(text) != sheet.language:
        found.append(f"is not in {'Chinese' if sheet.language == 'zh' else 'English'}")
    found += [
        f"does not tell {each.name}: {each.fact.value}"
        for each in sheet.tells
        if each.fact.id in state.act.facts
        and not gives(text, each.fact.value, each.fact.kind, each.fact.aliases)
    ]
    found += [
        f"discloses {each.name}"
        for each in sheet.tells
        if each.fact.id not in state.told
        and mentions(text, each.fact.value, each.fact.kind, each.fact.aliases)
    ]
    found += [f"says the answer {each}" for each in sheet.answers if mentions(text, each, "text")]
    told = [each for each in sheet.tells if each.fact.id in state.told]
    known = [
        sheet.goal,
        *(words for each in told for words in (each.name, each.fact.value, *each.fact.aliases)),
    ]
    allowed = {(each.kind, each.low, each.high) for words in known for each in quantities(words)}
    found += [
        f"invents {text[each.start : each.end]}"
        for each in quantities(text)
        if (each.kind, each.low, each.high) not in allowed
    ]
    return found


class SimulatedClient:
    """Gives the client's turns of one dialogue; its state is a function of the turns so far.

    ``errors`` maps the turns that are charged to the simulator to the last reasons: words of the model were
    refused, or those of the template do not fit the sheet.
    """

    def __init__(self, sheet: ClientSheet, dialog_id: str, seed: int, model: Model | None = None) -> None:
        self.errors: dict[int, list[str]] = {}
        self._sheet = sheet
        self._turns: list[TurnTrace] = []
        self._states = [begin(sheet)]
        self._key = f"{seed}\0{dialog_id}"
        self._model = model

    def state(self, turns: Sequence[TurnTrace]) -> State:
        """Return the state of the client after these turns."""
        return self._after(turns)[-1]

    def outcome(self, turns: Sequence[TurnTrace]) -> ClientOutcome:
        """Return how the dialogue of these turns has ended."""
        states = self._after(turns)
        said = zip(turns, states, strict=False)  # the last state has no words
        misspoken = [turn.turn_pair_id for turn, state in said if faults(self._sheet, state, turn.user_text)]
        return outcome(states).replace(misspoken=misspoken)

    def _after(self, turns: Sequence[TurnTrace]) -> list[State]:
        """Return the states of a dialogue, that of its goal first; a reply is read once."""
        if self._turns != list(turns[: len(self._turns)]):  # the dialogue has begun again
            self._turns, self._states = [], [begin(self._sheet)]
        for turn in turns[len(self._turns) :]:
            reply = turn.pred_assistant_text if turn.turn_status == "ok" else None
            self._states.append(advance(self._sheet, self._states[-1], reply))
            self._turns.append(turn)
        return self._states

    async def next_turn(self, turns: Sequence[TurnTrace]) -> TurnPair | None:
        """Return the client's next turn, None when it has ended the dialogue."""
        state = self.state(turns)
        if state.ended:
            return None
        return TurnPair(
            turn_pair_id=state.turn,
            user_turn_abs_idx=2 * state.turn - 2,
            gt_assistant_abs_idx=2 * state.turn - 1,
            user_text=await self._text(state),
            gt_assistant_text="",
            gt_turn_tags=TurnTags(
                facts_required_gt=[each for each in self._sheet.uses if each in state.told]
                if state.act.kind in ("decide", "object")
                else []
            ),
        )

    async def _text(self, state: State) -> str:
        plain = from_templates(self._sheet, state, self._key)
        reasons = faults(self._sheet, state, plain)
        self.errors.pop(state.turn, None)
        if self._model is not None:
            brief = Brief(language=self._sheet.language, words=plain, curt=is_curt(self._sheet, state))
            for _ in range(ATTEMPTS):
                try:
                    text = await self._model(brief.replace(faults=reasons))
                except RequestError as problem:
                    reasons = [f"the model failed: {problem}"]
                    break
                reasons = faults(self._sheet, state, text)
                if not reasons:
                    return text
        if reasons:
            self.errors[state.turn] = reasons
        return plain
