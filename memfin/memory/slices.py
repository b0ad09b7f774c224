"""Memory slices: reads allowed per route, and the block that goes into its prompt (memory design §6).

`plan_reads` decides which sources may be read, `assemble` makes the block of the records. Each slice is one
line, ``name: value``; texts of people are JSON strings, and characters of tags become full-width forms.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from memfin.contracts import Record
from memfin.contracts.memory import (
    ConsentScope,
    ConsentScopes,
    ContextFields,
    ItemKind,
    MemoryItem,
    Route,
    SliceAttributes,
    SliceName,
    ThreadHeader,
    UserContext,
)
from memfin.errors import UsageError
from memfin.memory.boundaries import CLOSING, OPENING
from memfin.memory.tables import load_table
from memfin.memory.tokens import estimate_tokens, fitted_items, fitted_text
from memfin.text.lines import flat, visible

Condition = Literal["offered", "asked_for", "of_thread", "drifted"]
Source = Literal["task", "thread", "profile", "threads", "drift", "thread_items", "items", "default"]


class RoutePlan(Record, forbid_unknown_fields=True):
    """The slices of one route, in the order of injection; optional ones also need their condition."""

    required: tuple[SliceName, ...]
    optional: dict[SliceName, Condition] = {}


class SliceForm(Record, forbid_unknown_fields=True):
    """One slice, as defined in the data file."""

    label: str
    sources: tuple[Source, ...]
    budget: int
    default: str | None = None
    written: bool = False
    united: bool = False
    kind: ItemKind | None = None


class _Tables(Record, forbid_unknown_fields=True):
    routes: dict[Route, RoutePlan]
    slices: dict[SliceName, SliceForm]
    consent: dict[Source, ConsentScope]


_TABLES: Final = load_table("slices.toml", _Tables)
MATRIX: Final[Mapping[Route, RoutePlan]] = _TABLES.routes
SLICES: Final[Mapping[SliceName, SliceForm]] = _TABLES.slices  # in the order of injection
CONSENT: Final[Mapping[Source, ConsentScope]] = _TABLES.consent
OF_THREAD: Final[frozenset[Source]] = frozenset({"thread", "thread_items"})
INJECTION_FORMAT: Final = 1  # of the text of `injected`; docs/memory.md says what may change within it
THREADS_NAMED: Final = 3  # active threads that S6 names, the last ones touched
DRIFT_DAYS: Final = 30  # days back that S9 counts drift signals
_OBJECT_NAMES: Final = ("name", "symbol", "ticker", "title", "id")
_NUMBER: Final = r"(?!\s?=?\s?[-+±]?[¥￥$€£]?\s?[0-9０-９零〇一二两三四五六七八九十百半])"
_BRACKETS: Final = re.compile(rf"[<>]{_NUMBER}|[\[\]]")
_WIDE: Final = dict(zip("<>[]", "＜＞［］", strict=True))
_NAME: Final = "user_context"
_HARMLESS_NAME: Final = "user context"


def wanted_slices(route: Route, *, prompt: str = "", of_thread: bool = False) -> tuple[SliceName, ...]:
    """Return the slices that a route wants for one task, in order; drift counts as met."""
    plan = MATRIX[route]
    met: dict[Condition, bool] = {
        "offered": True,
        "drifted": True,
        "of_thread": of_thread,
        "asked_for": "asked_for" in plan.optional.values() and refers_to_threads(prompt),
    }
    wanted = {*plan.required, *(name for name, condition in plan.optional.items() if met[condition])}
    return tuple(name for name in SLICES if name in wanted)


def refers_to_threads(prompt: str) -> bool:
    """Return True if a prompt, Chinese or English, mentions the user's own threads."""
    return any(pattern.search(prompt) for pattern in _patterns())


class _References(Record):
    parts: dict[str, str]
    patterns: dict[str, list[str]]


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    table = load_table("references.toml", _References)
    return tuple(
        re.compile(re.sub(r"<<(\w+)>>", lambda found: table.parts[found[1]], text), re.IGNORECASE)
        for texts in table.patterns.values()
        for text in texts
    )


class UserContextBlock(Record):
    """Text that memory adds to a system prompt; its own type, created only by `block_of`."""

    text: str


def block_of(lines: Iterable[str]) -> UserContextBlock:
    """Return the block of the slices' lines, made by `line_of` (memory design §6.2)."""
    return UserContextBlock(text="\n".join((OPENING, *lines, CLOSING)))


def injected(system_prompt: str, block: UserContextBlock) -> str:
    """Return a system prompt with memory at its end, right before the user's message (§6.4)."""
    if not isinstance(system_prompt, str):
        raise TypeError(f"memory is added to a prompt of type str, not to {type(system_prompt).__name__}")
    if OPENING in system_prompt or CLOSING in system_prompt:
        raise UsageError(f"the system prompt holds {OPENING} already: inject memory once, into the prompt")
    return f"{system_prompt}\n\n{block.text}" if system_prompt else block.text


def line_of(label: str, value: str | int | Sequence[str], *, quoted: bool) -> str:
    """Return a slice's line; ``quoted`` for users' text, which has been `escaped`."""
    return f"{label}: {msgspec.json.encode(value).decode() if quoted else value}"


def escaped(text: str) -> str:
    """Escape a user's text: one line without tags, control tokens and invisible characters."""
    text = flat(visible(text, spell=lambda _: ""))
    text = _BRACKETS.sub(lambda found: _WIDE[found.group()], text)
    # Full-width and other forms of the tag's name count as the name.
    if _NAME in (plain := unicodedata.normalize("NFKC", text).casefold()):
        text = _BRACKETS.sub(lambda found: _WIDE[found.group()], plain.replace(_NAME, _HARMLESS_NAME))
    return text.strip()


class LoadedSlice(Record):
    """One slice as it is injected: its source, its value after escaping and fitting, its line, its tokens."""

    name: SliceName
    source: Source
    value: str | int | tuple[str, ...]
    line: str
    tokens: int


class LoadedMemory(Record):
    """The memory of a task: the block to inject, and the slices loaded, missing and blocked (§6.6)."""

    route: Route
    slices: tuple[LoadedSlice, ...]
    block: UserContextBlock
    attributes: SliceAttributes

    def value(self, name: SliceName) -> str | int | tuple[str, ...] | None:
        """Return the value of a slice, None where it is not loaded."""
        return next((loaded.value for loaded in self.slices if loaded.name == name), None)


class ReadPlan(Record):
    """Slices of a route, in order, and the sources that consent opens and closes for them."""

    route: Route
    wanted: tuple[SliceName, ...]
    open: frozenset[Source]
    closed: frozenset[Source]
    thread_id: str | None = None


class Material(Record):
    """Records read for a plan; closed sources stay empty. ``thread`` holds its contexts, oldest first.

    ``items`` holds those of the thread and of no thread: the notes with the most relevant first.
    """

    profile: UserContext | None = None
    thread: Sequence[UserContext] = ()
    threads: Sequence[ThreadHeader] = ()
    drift_signals: int = 0
    items: Sequence[MemoryItem] = ()
    thread_blocked: bool = False


def plan_reads(
    route: Route, scopes: ConsentScopes | None, *, prompt: str = "", thread_id: str | None = None
) -> ReadPlan:
    """Plan the reads of a task on a route (memory design §6.3, §6.5)."""
    wanted = wanted_slices(route, prompt=prompt, of_thread=thread_id is not None)
    stored: set[Source] = {source for name in wanted for source in SLICES[name].sources if source in CONSENT}
    allowed: set[Source] = {source for source in stored if scopes is not None and scopes[CONSENT[source]]}
    return ReadPlan(
        route=route,
        wanted=wanted,
        open=frozenset(allowed if thread_id is not None else allowed - OF_THREAD),
        closed=frozenset(stored - allowed),
        thread_id=thread_id,
    )


def assemble(plan: ReadPlan, material: Material, task: ContextFields | None = None) -> LoadedMemory:
    """Return the block and its attributes from the records read and the fields of the task (§6.4).

    A slice without a value is named as blocked where consent closes one of its sources, else as missing. One
    that the task gives and its route does not read is named as unread.
    """
    closed = plan.closed | (OF_THREAD if material.thread_blocked else set())
    open_ = plan.open - closed
    loaded: list[LoadedSlice] = []
    missing: list[SliceName] = []
    blocked: list[SliceName] = []
    for name in plan.wanted:
        found = _found(name, open_, material, task)
        condition = MATRIX[plan.route].optional.get(name)
        if found and condition == "of_thread" and found[0] != "thread":  # §6.3
            found = None
        made = _made(name, *found) if found else None
        if made is not None:
            loaded.append(made)
        elif closed.intersection(SLICES[name].sources):
            blocked.append(name)
        elif condition != "drifted":
            missing.append(name)
    return LoadedMemory(
        route=plan.route,
        slices=tuple(loaded),
        block=block_of(each.line for each in loaded),
        attributes=SliceAttributes(
            slices_loaded=[each.name for each in loaded],
            slices_skipped_missing=missing,
            slices_blocked_by_consent=blocked,
            slices_given_unread=[
                name
                for name, form in SLICES.items()
                if getattr(task, form.label, None) and all(each.name != name for each in loaded)
            ],
            total_memory_tokens_estimated=sum(each.tokens for each in loaded),
        ),
    )


def _found(
    name: SliceName, open_: frozenset[Source], material: Material, task: ContextFields | None
) -> tuple[Source, Any] | None:
    """Return the first value among a slice's sources; a united slice adds the items of the later ones."""
    values = _values(name, open_, material, task)
    first = next(values, None)
    if first is None or not SLICES[name].united:
        return first
    source, items = first
    return source, list(dict.fromkeys([*items, *(item for _, more in values for item in more)]))


def _values(
    name: SliceName, open_: frozenset[Source], material: Material, task: ContextFields | None
) -> Iterator[tuple[Source, Any]]:
    """Yield the values of a slice's sources, in order of precedence."""
    form = SLICES[name]
    for source in form.sources:
        if source not in open_ and source in CONSENT:
            continue
        value: Any
        match source:
            case "task":
                value = task and task[form.label]
            case "thread":
                value = _newest(material.thread, form.label)
            case "profile":
                value = material.profile and _newest((material.profile,), form.label)
            case "threads":
                value = _recent(material.threads)
            case "drift":
                value = material.drift_signals
            case "thread_items" | "items":
                value = _texts(form, material.items, of_thread=source == "thread_items")
            case _:
                value = form.default
        if value:
            yield source, value


def _newest(contexts: Sequence[UserContext], field: str) -> Any:
    """Return the last value of a field among contexts, oldest first, that are not blocked."""
    open_ = (each for each in reversed(contexts) if not each.consent_blocked)
    return next((value for each in open_ if (value := each[field])), None)


def _texts(form: SliceForm, items: Sequence[MemoryItem], *, of_thread: bool) -> list[str] | str:
    """Return the texts of the items of a slice: a list, or one text with the newest first."""
    of_kind = (each for each in items if each.kind == form.kind)
    texts = [each.text for each in of_kind if (each.thread_id is not None) == of_thread]
    return texts if form.united else "; ".join(reversed(texts))


def _recent(threads: Sequence[ThreadHeader]) -> list[str]:
    """Return the latest active threads, newest first, by title and topic."""
    active = [each for each in threads if each.status == "active" and not each.consent_blocked]
    newest = sorted(active, key=lambda each: (each.updated_at, each.thread_id), reverse=True)
    return [_named(each) for each in newest[:THREADS_NAMED]]


def _named(thread: ThreadHeader) -> str:
    about = thread.cognition_object
    names = (about.get(key) for key in _OBJECT_NAMES)
    parts = (about.get("type"), next((name for name in names if isinstance(name, str) and name), None))
    known = ": ".join(part for part in parts if isinstance(part, str) and part)
    return f"{thread.title} ({known})" if known else thread.title


def _made(name: SliceName, source: Source, value: Any) -> LoadedSlice | None:
    """Return the slice of a value, escaped and within its budget; None if it is empty after that."""
    form = SLICES[name]
    label, budget, quoted = form.label, form.budget, form.written
    if isinstance(value, list):
        share = budget // THREADS_NAMED if name == "S6" else budget
        texts = [fitted_text(escaped(each), share, str) for each in value]
        items = [text for text in texts if text]
        value = tuple(fitted_items(items, budget, lambda kept: line_of(label, kept, quoted=quoted)))
    elif quoted:
        value = fitted_text(escaped(value), budget, lambda text: line_of(label, text, quoted=quoted))
    if not value:
        return None
    line = line_of(label, value, quoted=quoted)
    return LoadedSlice(name=name, source=source, value=value, line=line, tokens=estimate_tokens(line))
