"""Words for the acts of a simulated client: templates, or a model whose words are checked by the sheet."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from memfin.clients.machine import Act, ActKind, State, advance, begin
from memfin.contracts import TurnPair, TurnTrace
from memfin.contracts.clients import ClientSheet
from memfin.contracts.dataset import TurnTags
from memfin.ledger.matching import mentions
from memfin.text.quantities import quantities

ATTEMPTS: Final = 3

Model = Callable[[str], Awaitable[str]]
"""Words an act: gets what the client means to say. The agent's words never reach it."""

_WORDS: Final[Mapping[str, Mapping[ActKind, Sequence[str]]]] = {
    "zh": {
        "goal": ("你好,{goal}", "您好。{goal}", "我想咨询一下:{goal}"),
        "tell": ("跟您说明一下。", "好的,我告诉您。", "是这样的。"),
        "unknown": ("这个我说不上来。", "这一点我也不清楚。"),
        "withhold": ("这个我不方便说。", "这件事我不想谈。"),
        "decide": ("该说的我都说了,请给我一个明确的建议。", "那么您的建议是什么?"),
        "object": ("这没有照顾到我的情况。", "我觉得这不符合我说的。"),
        "push": ("您还没有回答我的问题。", "请说得具体一些。"),
        "accept": ("好的,就这样,谢谢。", "明白了,谢谢您。"),
        "leave": ("算了,我再看看别的。", "那就不麻烦您了,再见。"),
    },
    "en": {
        "goal": ("Hello. {goal}", "Good day. {goal}", "I would like some advice. {goal}"),
        "tell": ("Let me tell you.", "Sure.", "Here is how it is."),
        "unknown": ("I could not say.", "That I do not know."),
        "withhold": ("I would rather not say.", "I do not want to talk about that."),
        "decide": ("You know all that matters; please advise me clearly.", "So what do you advise?"),
        "object": ("That leaves out what I told you.", "That does not fit my situation."),
        "push": ("You have not answered my question yet.", "Please be more specific."),
        "accept": ("Good, that settles it. Thank you.", "I see, thank you."),
        "leave": ("Never mind, I will look elsewhere.", "Then I will leave it at that. Goodbye."),
    },
}  # fmt: skip


def from_templates(sheet: ClientSheet, act: Act, key: str) -> str:
    """Return the words of an act; ``key`` draws the variant."""
    variants = _WORDS[sheet.language][act.kind]
    drawn = int.from_bytes(hashlib.sha256(f"{key}\0{act.kind}".encode()).digest()[:8], "big")
    facts = {each.fact.id: each for each in sheet.tells}
    pattern, space = ("我的{}是{}。", "") if sheet.language == "zh" else ("My {} is {}.", " ")
    said = [pattern.format(facts[each].name, facts[each].fact.value) for each in act.facts]
    return space.join([variants[drawn % len(variants)].format(goal=sheet.goal), *said])


def faults(sheet: ClientSheet, state: State, text: str) -> list[str]:
    """Return why a text may not be said in a state: what it discloses, leaves out or invents."""
    found = [
        f"does not tell {each.fact.id}"
        for each in sheet.tells
        if each.fact.id in state.act.facts
        and not mentions(text, each.fact.value, each.fact.kind, each.fact.aliases)
    ]
    found += [
        f"discloses {each.fact.id}"
        for each in sheet.tells
        if each.fact.id not in state.told
        and mentions(text, each.fact.value, each.fact.kind, each.fact.aliases)
    ]
    found += ["says the answer" for each in sheet.answers if mentions(text, each, "text")]
    told = [each.fact for each in sheet.tells if each.fact.id in state.told]
    known = [sheet.goal, *(words for fact in told for words in (fact.value, *fact.aliases))]
    allowed = {(each.kind, each.low, each.high) for words in known for each in quantities(words)}
    found += [
        f"invents {text[each.start : each.end]}"
        for each in quantities(text)
        if (each.kind, each.low, each.high) not in allowed
    ]
    return found


class SimulatedClient:
    """Gives the client's turns of one dialogue; its state is a function of the turns so far.

    ``errors`` maps the turns whose words of the model were refused to the last reasons.
    """

    def __init__(self, sheet: ClientSheet, dialog_id: str, seed: int, model: Model | None = None) -> None:
        self.errors: dict[int, list[str]] = {}
        self._sheet = sheet
        self._key = f"{seed}\0{dialog_id}"
        self._model = model

    def state(self, turns: Sequence[TurnTrace]) -> State:
        """Return the state of the client after these turns."""
        state = begin(self._sheet)
        for turn in turns:
            state = advance(
                self._sheet, state, turn.pred_assistant_text if turn.turn_status == "ok" else None
            )
        return state

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
        plain = from_templates(self._sheet, state.act, f"{self._key}\0{state.turn}")
        if self._model is None:
            return plain
        reasons: list[str] = []
        for _ in range(ATTEMPTS):
            text = await self._model(plain)
            reasons = faults(self._sheet, state, text) if text.strip() else ["is empty"]
            if not reasons:
                return text
        self.errors[state.turn] = reasons
        return plain
