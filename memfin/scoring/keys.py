"""Memory keys: their resolution, their hits in the memory of a turn, and their recoverability.

Implements the resolver contract of the trace schema (section 6) and its hit rule. Besides the literal hit
there are the *guarded* hit, which does not take a chance 高 somewhere in the context for the client's
liquidity need, and the *recoverability* of a key, which distinguishes a failed memory from a fact that
the agent never received.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from memfin.contracts import Dialog, HistoryMode, ResolvedKey, TurnTrace
from memfin.contracts.base import KeySource
from memfin.contracts.turn_eval import Recoverability, Resolver
from memfin.dataset import align_turn_pairs

# At most nine digits: no dialogue is longer, and int() refuses absurdly long ones with an exception.
_LEVEL_KEY: Final = re.compile(r"profile_gt\.(risk_level_gt|horizon_gt|liquidity_need_gt)")
_LIST_KEY: Final = re.compile(r"profile_gt\.(constraints_gt|preferences_gt)\[([0-9]{1,9})\]")
_HISTORY_KEY: Final = re.compile(r"history_turn_index:([0-9]{1,9})")

_HISTORY_FIELD: Final = "history"
_LIST_RESOLVERS: Final[Mapping[str, Resolver]] = {
    "constraints_gt": "constraints_gt",
    "preferences_gt": "preferences_gt",
}

GUARDED_LENGTH: Final = 2
"""Targets of at most this many characters need their field's name beside them to count as guarded hits."""

_FIELD_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "risk_level_gt": ("风险", "投资者", "投资风格", "risk", "Risk", "investor"),
    "horizon_gt": ("期限", "周期", "投资时间", "持有", "horizon", "Horizon"),
    "liquidity_need_gt": ("流动性", "变现", "liquidity", "Liquidity"),
    "constraints_gt": ("约束", "限制", "红线", "禁止", "禁忌", "constraint", "Constraint", "forbidden"),
    "preferences_gt": ("偏好", "喜好", "喜欢", "倾向", "青睐", "关注", "prefer", "Prefer"),
    _HISTORY_FIELD: ("user", "User", "用户", "客户", "human", "Human"),
}
_PHRASE_END: Final = re.compile(r"[。，；！？、,;!?|\n\r]")
_ENTRY_END: Final = re.compile(r"[。；;|\n\r]")
_ENTRY_SEPARATOR: Final = re.compile(r"[、,，/\s\[\]{}\"'“”()（）]+")
_NEXT_LABEL: Final = re.compile(r"[:：=]")
# Between a field's name and its value there is room for 需求比较 or `_need": "`, not for a clause.
_REACH_AFTER: Final = 10
_REACH_BEFORE: Final = 4
_LABEL_REACH: Final = 12
_ENTRY_LENGTH: Final = 200
_ENTRY_REACH: Final = _LABEL_REACH + 1 + _ENTRY_LENGTH
_ENTRY_LABEL: Final = re.compile(rf"[^:：=。；;|\n\r]{{0,{_LABEL_REACH}}}[:：=]")


class _Facts(NamedTuple):
    """The data that keys resolve against: true profile, texts of all turns, places of the user's turns."""

    profile: Mapping[str, Any]
    texts: Sequence[str]
    user_positions: Sequence[int]


def _text_of(turn: object) -> str:
    if isinstance(turn, Mapping):
        text = turn.get("text")
        text = turn.get("content") if text is None else text
    else:
        text = getattr(turn, "text", None)
    return text if isinstance(text, str) else ""


def _role_of(turn: object) -> object:
    return turn.get("role") if isinstance(turn, Mapping) else getattr(turn, "role", None)


def _facts_of(dialog_obj: Dialog | Mapping[str, Any]) -> _Facts:
    turns: Sequence[object]
    if isinstance(dialog_obj, Dialog):
        truth = dialog_obj.profile_gt
        profile: object = {name: getattr(truth, name) for name in truth.__struct_fields__}
        turns = dialog_obj.turns
    else:
        profile = dialog_obj.get("profile_gt")
        given = dialog_obj.get("turns")
        turns = given if isinstance(given, list | tuple) else ()
    return _Facts(
        profile if isinstance(profile, Mapping) else {},
        [_text_of(turn) for turn in turns],
        [position for position, turn in enumerate(turns) if _role_of(turn) == "user"],
    )


class _Resolution(NamedTuple):
    """A resolved key, the profile field it asks for, and the 0-based position of a history key's turn."""

    key: ResolvedKey
    field: str
    position: int | None = None


def _unresolved(key: str) -> _Resolution:
    return _Resolution(ResolvedKey(key=key, resolvable=False, target_text=None, resolver="unresolved"), "")


def _resolution(
    key: str, target: object, resolver: Resolver, field: str, position: int | None
) -> _Resolution:
    # An empty target is a substring of everything; it shows nothing and cannot be checked.
    if not isinstance(target, str) or not target.strip():
        return _unresolved(key)
    resolved = ResolvedKey(key=key, resolvable=True, target_text=target, resolver=resolver)
    return _Resolution(resolved, field, position)


def _resolve(key: str, facts: _Facts) -> _Resolution:
    if match := _LEVEL_KEY.fullmatch(key):
        return _resolution(key, facts.profile.get(match[1]), "profile_field", match[1], None)
    if match := _LIST_KEY.fullmatch(key):
        values, index = facts.profile.get(match[1]), int(match[2])
        if isinstance(values, list | tuple) and index < len(values):
            return _resolution(key, values[index], _LIST_RESOLVERS[match[1]], match[1], None)
    elif match := _HISTORY_KEY.fullmatch(key):
        number = int(match[1])
        if 1 <= number <= len(facts.user_positions):
            position = facts.user_positions[number - 1]
            return _resolution(key, facts.texts[position], "history_user_turn", _HISTORY_FIELD, position)
        if 1 <= number <= len(facts.texts):
            text = facts.texts[number - 1]
            return _resolution(key, text, "history_abs_turn", _HISTORY_FIELD, number - 1)
    return _unresolved(key)


def resolve_memory_required_key(
    key: str, dialog_obj: Dialog | Mapping[str, Any], turn_pair_id: int
) -> ResolvedKey:
    """Resolve a required memory key to the text that shows it was remembered.

    ``dialog_obj`` is a `Dialog` or a plain object of the dataset. List indices count from 0;
    ``history_turn_index:n`` means the n-th user turn, and where there are not that many the n-th of
    all turns, both counted from 1. Whatever else, an index out of range or an empty target included,
    comes back with ``resolvable`` false and resolver ``unresolved``. ``turn_pair_id`` belongs to the
    contract's signature; no key form depends on it. (Trace schema section 6, metrics contract section 5.)
    """
    del turn_pair_id
    return _resolve(key, _facts_of(dialog_obj)).key


class MemorySources(NamedTuple):
    """The three places where a remembered value may show up at a turn.

    ``question`` is the client's message of the turn. It is no memory: a target that it holds is looked for
    outside the copies of it that the agent reported.
    """

    short_term: str
    long_term: Sequence[str]
    profile: str
    question: str = ""

    def hits(self, target: str) -> list[KeySource]:
        """Name the sources that hold the target literally, in the order of the trace schema."""
        memory = self.without_question(target)
        found: list[KeySource] = []
        if target in memory.short_term:
            found.append("short_term")
        for content in memory.long_term:
            if target in content:
                found.append("long_term")
                break
        if target in memory.profile:
            found.append("profile")
        return found

    def without_question(self, target: str) -> "MemorySources":
        """Return the sources in which the target counts: without copies of a question that holds it."""
        question = self.question
        if not question or target not in question:
            return self
        short_term, *long_term, profile = (text.replace(question, "\n") for text in self.texts())
        return MemorySources(short_term, long_term, profile)

    def texts(self) -> Iterator[str]:
        """Yield the text of every source."""
        yield self.short_term
        yield from self.long_term
        yield self.profile


_NOTHING: Final = MemorySources("", (), "")


def memory_sources(turn_trace: TurnTrace | Mapping[str, Any]) -> MemorySources:
    """Return what the agent's memory put before the model at this turn, if it was observed."""
    if isinstance(turn_trace, TurnTrace):
        recall = turn_trace.recall
        if recall is None:
            return _NOTHING
        texts = [item.content for item in recall.items]
        question = turn_trace.user_text.strip()
        return MemorySources(recall.short_term_context, texts, recall.profile_context, question)
    plain = turn_trace.get("recall")
    if not isinstance(plain, Mapping):
        return _NOTHING
    items = plain.get("items") or ()
    return MemorySources(
        plain.get("short_term_context") or "",
        [item.get("content") or "" for item in items if isinstance(item, Mapping)],
        plain.get("profile_context") or "",
        (turn_trace.get("user_text") or "").strip(),
    )


def detect_key_hits_from_memory_sources(
    target_text: str, turn_trace: TurnTrace | Mapping[str, Any]
) -> list[KeySource]:
    """Name the memory sources of a turn that hold the target as a literal substring.

    Sources are ``short_term`` (recall.short_term_context), ``long_term`` (any recall.items content) and
    ``profile`` (recall.profile_context), in this order; an empty target is held by none. Copies of the
    client's message of this turn do not count.
    (Trace schema section 6, metrics contract section 5.)
    """
    return memory_sources(turn_trace).hits(target_text) if target_text else []


def _entry_holds(text: str, after_name: int, target: str) -> bool:
    """Return True if the name that ends at ``after_name`` labels an entry that lists exactly the target."""
    label = _ENTRY_LABEL.match(text, after_name)
    if label is None:
        return False
    entry = text[label.end() : label.end() + _ENTRY_LENGTH]
    if end := _ENTRY_END.search(entry):
        entry = entry[: end.start()]
    if following := _NEXT_LABEL.search(entry):
        # "风险: 稳健, 流动性: 高" holds two entries; the words before the second label are its name.
        parts = list(_ENTRY_SEPARATOR.finditer(entry, 0, following.start()))
        entry = entry[: parts[-1].start()] if parts else ""
    return any(target in (value, value.removesuffix("型")) for value in _ENTRY_SEPARATOR.split(entry))


def _beside(text: str, start: int, end: int, target: str) -> bool:
    """Return True if the target stands right before or behind the name at ``[start, end)``, in one phrase."""
    behind = end + _REACH_AFTER + len(target)
    if text.find(target, end, behind) >= 0 and target in _PHRASE_END.split(text[end:behind], maxsplit=1)[0]:
        return True
    before = max(0, start - _REACH_BEFORE - len(target))
    return text.find(target, before, start) >= 0 and target in _PHRASE_END.split(text[before:start])[-1]


def guarded_hit(target: str, field: str, sources: MemorySources) -> bool:
    """Return True if a literal hit of the target is one of its field, too.

    ``field`` is the profile field the key asks for, or ``history``. Targets of more than two
    characters speak for themselves. A shorter one counts only beside a name of its field inside one
    phrase, or as an entry that such a name labels; a short turn of the history only as a labelled line.
    """
    sources = sources.without_question(target)
    if len(target) > GUARDED_LENGTH:
        return any(target in text for text in sources.texts())
    return any(
        target in text and any(_named_in(text, name, target, field) for name in _FIELD_NAMES[field])
        for text in sources.texts()
    )


def _named_in(text: str, name: str, target: str, field: str) -> bool:
    """Return True if any occurrence of the name stands beside the target or labels it."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        nearest = text.find(target, max(0, start - _REACH_BEFORE - len(target)))
        if nearest < 0:
            return False
        if nearest > end + _ENTRY_REACH:
            # Both may be frequent in a long context, but seldom close: skip the names in between.
            start = text.find(name, nearest - _ENTRY_REACH - len(name))
            continue
        if _entry_holds(text, end, target):
            return True
        if field != _HISTORY_FIELD and _beside(text, start, end, target):
            return True
        start = text.find(name, end)
    return False


class KeyHit(NamedTuple):
    """The result of one resolvable key at one turn."""

    sources: list[KeySource]
    guarded: bool
    recoverability: Recoverability


class DialogKeys:
    """The memory keys of one dialogue, prepared once so that a turn costs the same however long it is.

    ``history_mode`` says which replies the agent was shown: in ``forced`` the reference replies of
    earlier turns stand in its history, in ``free`` only its own do.
    """

    def __init__(self, dialog: Dialog, history_mode: HistoryMode = "free") -> None:
        self._facts = _facts_of(dialog)
        self._resolutions: dict[str, _Resolution] = {}
        self._first_shown: dict[str, float] = {}
        self._shown = self._shown_turns(dialog, history_mode)

    @staticmethod
    def _shown_turns(dialog: Dialog, history_mode: HistoryMode) -> dict[int, int]:
        """Map the position of every turn the agent gets to see to that of the user turn that reveals it."""
        shown: dict[int, int] = {}
        for pair in align_turn_pairs(dialog):
            shown[pair.user_turn_abs_idx] = pair.user_turn_abs_idx
            if history_mode == "forced":
                shown[pair.gt_assistant_abs_idx] = pair.user_turn_abs_idx
        return shown

    def _resolution(self, key: str) -> _Resolution:
        found = self._resolutions.get(key)
        if found is None:
            found = self._resolutions[key] = _resolve(key, self._facts)
        return found

    def resolve(self, key: str) -> ResolvedKey:
        """Resolve a key; see `resolve_memory_required_key`."""
        return self._resolution(key).key

    def _first_shown_at(self, value: str) -> float:
        """Return the position of the user turn at which the value was first shown, infinite for never."""
        first = self._first_shown.get(value)
        if first is None:
            texts = self._facts.texts
            positions = (revealed for position, revealed in self._shown.items() if value in texts[position])
            first = self._first_shown[value] = min(positions, default=float("inf"))
        return first

    def recoverability(self, key: str, user_turn_abs_idx: int) -> Recoverability:
        """Return True if the agent could know the key's target at the turn of that 0-based position.

        ``recoverable``: shown to it at an earlier turn. ``self_reference``: a history key that points
        at the very turn. ``unrevealed``: anything else. History keys are judged by position, profile
        keys by the earlier texts that hold the value.
        """
        return self._recoverability(self._resolution(key), user_turn_abs_idx)

    def _recoverability(self, resolution: _Resolution, user_turn_abs_idx: int) -> Recoverability:
        if resolution.position is None:
            target = resolution.key.target_text
            revealed = self._first_shown_at(target) if target else float("inf")
        elif resolution.position == user_turn_abs_idx:
            return "self_reference"
        else:
            revealed = self._shown.get(resolution.position, float("inf"))
        return "recoverable" if revealed < user_turn_abs_idx else "unrevealed"

    def hit(
        self, key: str, sources: MemorySources, user_turn_abs_idx: int, earlier: Sequence[TurnTrace] = ()
    ) -> KeyHit | None:
        """Look for a key's target in the memory sources of a turn; None for a key that does not resolve.

        What the memory of one of the ``earlier`` turns held counts in copies of the question, too.
        """
        resolution = self._resolution(key)
        target = resolution.key.target_text
        if target is None:
            return None
        found = sources.hits(target)
        reported = sources._replace(question="")
        if (
            not found
            and (copies := reported.hits(target))
            and any(memory_sources(turn).hits(target) for turn in reversed(earlier))
        ):
            sources, found = reported, copies
        guarded = bool(found) and (
            len(target) > GUARDED_LENGTH or guarded_hit(target, resolution.field, sources)
        )
        return KeyHit(found, guarded, self._recoverability(resolution, user_turn_abs_idx))
