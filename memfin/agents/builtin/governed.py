"""What the adviser keeps of a client in the governed memory layer, and what the layer gives back for a turn.

Each dialogue has a store of its own, gone with the agent. Its client consents to profile and thread: the
language is the profile's, what she says about herself is kept in the dialogue's thread, and each turn is
a ``pre_execution`` task, the route on which an answer has to suit a client's position and constraints
(memory design §6.3). What the layer refuses to keep, such as a card number among her words, it does not
give back either.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from memfin.agents.builtin.profile import ClientProfile, position_lines
from memfin.agents.builtin.rules import ProfileRules
from memfin.contracts import Language, Record
from memfin.contracts.memory import ConsentScopes, ContextFields, Preferences
from memfin.memory.errors import MemoryRefusal
from memfin.memory.isolated import IsolatedStore
from memfin.memory.sensitive import find_sensitive
from memfin.memory.slices import LoadedMemory

_CLIENT: Final = "client"
_CONSENT: Final = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
)
_BEGIN: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LONGEST: Final = 120
"""Characters of one thing that a client said; as many as a profile keeps fit into a field of the layer."""

_JOIN: Final = {"zh": "；", "en": "; "}
_REFRESHES: Final = 16
"""Changes that one thread takes: refreshing costs as much as there was before, so then a new one begins."""


class Said(Record):
    """What a client said of herself, and in which language, one thing an item."""

    language: Language
    position: list[str] = []
    constraints: list[str] = []

    def fields(self) -> ContextFields:
        """Return it as the fields of a context."""
        return ContextFields(
            language_preference=self.language,
            user_stated_position_context=_JOIN[self.language].join(self.position) or None,
            constraints=self.constraints,
        )

    def without_refused(self) -> "Said":
        """Return it without the items that by themselves would be refused."""
        return self.replace(
            position=[text for text in self.position if not find_sensitive(text)],
            constraints=[text for text in self.constraints if not find_sensitive(text)],
        )


class GovernedMemory:
    """The memory layer of one dialogue.

    Its time moves one second with every look at the clock, so that equal dialogues leave equal stores.
    """

    def __init__(self, language: Language) -> None:
        self._now = _BEGIN
        founded = _founded(language)
        self._store = IsolatedStore(self._tick, founded.files)
        self._consent_id = founded.consent_id
        self._said = self._kept = Said(language=language)
        self._loaded: LoadedMemory | None = None
        self._thread_id = ""
        self._refreshes = 0

    def keep(self, profile: ClientProfile, language: Language, rules: ProfileRules) -> None:
        """Keep in the thread what is known about the client now, as far as the layer takes it."""
        said = _said(profile, language, rules)
        if said == self._said:
            return
        self._said, self._loaded = said, None
        nothing = Said(language=language)
        less: tuple[Callable[[], Said], ...] = (lambda: said, said.without_refused, lambda: nothing)
        for part in less:
            self._kept = part()
            with suppress(MemoryRefusal):
                self._save(self._kept.fields())
                return

    def load(self) -> LoadedMemory:
        """Return what the layer gives a turn: the block to inject, and what it is made of.

        The store has no other writers, so it is asked again only after something was kept.
        """
        if self._loaded is None:
            task = self._kept.fields().replace(language_preference=None)
            thread_id = self._thread_id or None
            self._loaded = self._store.load_memory_slices(_CLIENT, "pre_execution", thread_id, task)
        return self._loaded

    def _save(self, fields: ContextFields) -> None:
        if self._thread_id and self._refreshes < _REFRESHES:
            self._store.refresh_thread(_CLIENT, self._thread_id, user_supplied_context=fields)
            self._refreshes += 1
            return
        saved = self._store.save_thread(
            _CLIENT,
            "dialogue",
            "dialogue",
            {"type": "dialogue"},
            save_user_context=True,
            consent_id=self._consent_id,
            context=fields,
        )
        if self._thread_id:
            self._store.patch_thread(_CLIENT, self._thread_id, status="closed")
        self._thread_id, self._refreshes = saved.thread_id, 0

    def _tick(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


class _Founded(NamedTuple):
    """A store whose client has consented: the id of the consent, and the files."""

    consent_id: str
    files: Mapping[str, bytes]


@cache
def _founded(language: Language) -> _Founded:
    """Return how a dialogue's store begins, which is the same for all that begin in a language.

    All that a store reads from files later is read here, once.
    """
    store = IsolatedStore(lambda: _BEGIN)
    consent = store.grant_consent(_CLIENT, _CONSENT, Preferences(language_preference=language))
    files = store.contents()
    words = "1,000,000 of what I own, and no more than that, may be lost in any one year that is to come"
    said = ContextFields(user_stated_position_context=words, constraints=[words])
    header = store.save_thread(_CLIENT, "dialogue", "dialogue", {})
    store.refresh_thread(_CLIENT, header.thread_id, user_supplied_context=said)
    return _Founded(consent.consent_id, MappingProxyType(files))


def _said(profile: ClientProfile, language: Language, rules: ProfileRules) -> Said:
    """Return what a client said of herself; the newest first, for a budget cuts from the end."""
    constraints = [found.words for found in reversed(profile.constraints)]
    return Said(
        language=language,
        position=[line[:_LONGEST] for line in position_lines(profile, rules)],
        constraints=[words[:_LONGEST] for words in constraints],
    )
