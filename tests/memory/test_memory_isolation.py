"""Two people on one root: whatever both do, in any order, neither sees or changes a byte of the other."""

import inspect
import re
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memfin.contracts.memory import ConsentScopes, ContextFields, ItemKind, Preferences
from memfin.errors import UsageError
from memfin.memory.consent import SCOPES
from memfin.memory.errors import InvalidId, MemoryRefusal, NotFound
from memfin.memory.items import Items
from memfin.memory.slices import MATRIX
from memfin.memory.store import IsolatedStore
from memfin.memory.workspace import allows
from tests.memory.memory_disks import tree
from tests.memory.memory_rooms import quick_place
from tests.memory.memory_world import EVERYTHING, Clock, everything_said, open_store, settle_in
from tests.support import length

PEOPLE = {"alice": "Mark-of-A", "bob": "Mark-of-B"}
"""Users and the mark in everything that they say."""

HOSTILE = (
    "ALICE",
    "Bob",
    "../alice",
    "alice/../bob",
    "",
    "bob\n",
    "b*",
    "ｂｏｂ",
    "a" * 65,
    "_profile",
    "_history",
)
"""Ids that are none, those of others but for case, and names of directories."""

EXAMPLES = length(8, 200)
"""How many lives of the two are tried, of 20 steps each."""

people = st.sampled_from(sorted(PEOPLE))
scopes = st.builds(
    ConsentScopes,
    create_task=st.booleans(),
    save_to_profile=st.booleans(),
    save_to_thread=st.booleans(),
    training_use_allowed=st.booleans(),
)


def other(person: str) -> str:
    return "bob" if person == "alice" else "alice"


def only_of(person: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if person in name}


def files_of_people(root: Path) -> dict[str, bytes]:
    """Return the files that are somebody's of the two; also those that hold what one of them said."""
    people_and_marks = (*PEOPLE, *PEOPLE.values())
    return {
        name: data
        for name, data in tree(root).items()
        if any(each in name or each.encode() in data for each in people_and_marks)
    }


class TwoPeople(RuleBasedStateMachine):
    """What is known of each: what they may do, and the ids that they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Path(tempfile.mkdtemp(prefix="memfin-test-", dir=quick_place()))
        self.root = self.room / "data"
        self.clock = Clock()
        self.store = open_store(self.root, self.clock)
        self.threads: dict[str, list[str]] = {name: [] for name in PEOPLE}
        self.tasks: dict[str, list[str]] = {name: [] for name in PEOPLE}
        self.deleted: set[str] = set()
        self.touched = ""
        self.before: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.room)

    def act(self, person: str, action: Callable[[], Any]) -> Any:
        """Do something in a person's name; return what came of it, None for a refusal.

        What they are told must hold no mark of the other one.
        """
        self.touched = person
        self.before = files_of_people(self.root)
        told: object
        try:
            found = action()
        except UsageError as refusal:
            found, told = None, refusal
        else:
            told = found if isinstance(found, dict) else msgspec.json.encode(found)
        assert PEOPLE[other(person)] not in str(told)
        return found

    @initialize()
    def both_have_been_here(self) -> None:
        for person, mark in PEOPLE.items():
            settle_in(self.store, person, mark)
            self.threads[person] = [each.thread_id for each in self.store.list_threads(person)]
            tasks = self.store.workspace.files.names(self.store.workspace.paths.tasks(person))
            self.tasks[person] = [name.replace("ctx_", "task_") for name in tasks]

    @rule(person=people, given=scopes, said=st.booleans())
    def grant(self, person: str, given: ConsentScopes, said: bool) -> None:
        wanted = Preferences(research_depth="quick", user_focus_reason=PEOPLE[person]) if said else None
        self.act(person, lambda: self.store.grant_consent(person, given, wanted))

    @rule(person=people, scope=st.sampled_from([None, *SCOPES]), foreign=st.booleans())
    def revoke(self, person: str, scope: Any, foreign: bool) -> None:
        of = self.store.consent_on_file(other(person) if foreign else person).consent
        consent_id = None if of is None else of.consent_id
        found = self.act(person, lambda: self.store.revoke_consent(person, consent_id, scope=scope))
        # Without an id it is one's own that is taken back.
        assert not (foreign and consent_id and found), "the other's consent was revoked"

    @rule(person=people)
    def review(self, person: str) -> None:
        self.act(person, lambda: self.store.review_profile(person, {"time_horizon": PEOPLE[person]}))

    @rule(person=people, saving=st.booleans())
    def save_thread(self, person: str, saving: bool) -> None:
        mark = PEOPLE[person]
        consent = self.store.consent_on_file(person).consent
        found = self.act(
            person,
            lambda: self.store.save_thread(
                person,
                "snap_1",
                mark,
                {"asset": mark},
                save_user_context=saving,
                consent_id=None if consent is None else consent.consent_id,
                context=everything_said(mark),
            ),
        )
        if found is not None:
            self.threads[person].append(found.thread_id)

    @rule(person=people, owner=people, data=st.data())
    def refresh_or_patch_a_thread(self, person: str, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([*self.threads[owner], "thread_none"]))
        mark = PEOPLE[person]
        action: Callable[[], Any] = data.draw(
            st.sampled_from(
                [
                    lambda: self.store.refresh_thread(
                        person,
                        thread_id,
                        user_supplied_context=ContextFields(research_style=mark),
                        main_thesis=mark,
                    ),
                    lambda: self.store.patch_thread(person, thread_id, consent_blocked=True),
                    lambda: self.store.patch_thread(person, thread_id, status="closed"),
                ]
            )
        )
        if self.act(person, action) is not None:
            assert thread_id in self.threads[person]

    @rule(person=people, owner=people, data=st.data())
    def begin_a_task(self, person: str, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([None, "thread_none", *self.threads[owner]]))
        route = data.draw(st.sampled_from(sorted(MATRIX)))
        said = everything_said(PEOPLE[person])
        started = self.act(
            person, lambda: self.store.start_task(person, route, fields=said, thread_id=thread_id)
        )
        if started is not None:
            assert thread_id is None or thread_id in self.threads[person]
            self.tasks[person].append(started.context.task_id)

    @rule(person=people, owner=people, data=st.data())
    def end_a_task(self, person: str, owner: str, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from([*self.tasks[owner], "task_none"]))
        if self.act(person, lambda: self.store.end_task(person, task_id)) is not None:
            assert task_id in self.tasks[person]

    @rule(person=people, rating=st.sampled_from(["thumbs_up", "not_helpful"]))
    def give_feedback(self, person: str, rating: str) -> None:
        mark = PEOPLE[person]
        self.act(
            person,
            lambda: self.store.record_feedback(person, "snapshot:snap_1", {"asset": mark}, rating, mark),
        )

    @rule(person=people, route=st.sampled_from(sorted(MATRIX)), owner=people, data=st.data())
    def read(self, person: str, route: Any, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([None, *self.threads[owner]]))
        self.act(
            person, lambda: self.store.load_memory_slices(person, route, thread_id, prompt="我的 thread")
        )
        self.act(person, lambda: self.store.list_threads(person))
        self.act(person, lambda: self.store.read_profile(person))

    @rule(person=people, owner=people, data=st.data())
    def look_around(self, person: str, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([*self.threads[owner], "thread_none"]))
        task_id = data.draw(st.sampled_from([*self.tasks[owner], "task_none"]))
        found = self.act(person, lambda: self.store.thread_contexts(person, thread_id))
        assert not found or thread_id in self.threads[person]
        if self.act(person, lambda: self.store.task_context(person, task_id)) is not None:
            assert task_id in self.tasks[person]
        self.act(person, lambda: self.store.drift_log(person))
        self.act(person, lambda: self.store.consent_state(person))
        self.act(person, lambda: self.store.onboarding_state(person))
        self.act(person, lambda: self.store.suggestions(person))

    @rule(person=people, owner=people, data=st.data())
    def delete_records(self, person: str, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([*self.threads[owner], "thread_none"]))
        task_id = data.draw(st.sampled_from([*self.tasks[owner], "task_none"]))
        self.act(person, lambda: self.store.show_thread(person, thread_id))
        self.act(person, lambda: self.store.list_tasks(person))
        self.act(person, lambda: self.store.list_feedback(person))
        contexts = ["ctx_none", *(each.context_id for each in self.store.thread_contexts(owner, thread_id))]
        feedback = ["feedback_none", *(each.feedback_id for each in self.store.list_feedback(owner))]
        drift = [each.drift_id for each in self.store.drift_log(owner)]
        actions: list[Callable[[], Any]] = [
            lambda: self.store.delete_thread(person, thread_id),
            lambda: self.store.delete_context(person, thread_id, data.draw(st.sampled_from(contexts))),
            lambda: self.store.delete_task(person, task_id),
            lambda: self.store.delete_feedback(person, data.draw(st.sampled_from(feedback))),
            lambda: self.store.delete_drift(person, data.draw(st.sampled_from([None, *drift]))),
        ]
        self.act(person, data.draw(st.sampled_from(actions)))

    @rule(person=people, owner=people, kind=st.sampled_from(get_args(ItemKind)), data=st.data())
    def remember_and_change_items(self, person: str, owner: str, kind: ItemKind, data: st.DataObject) -> None:
        mark = PEOPLE[person]
        thread_id = data.draw(st.sampled_from([None, "thread_none", *self.threads[owner]]))
        found = self.act(person, lambda: self.store.items.add(person, mark, kind=kind, thread_id=thread_id))
        if found is not None:
            assert thread_id is None or thread_id in self.threads[person]
        self.act(person, lambda: self.store.items.add_all(person, [f"{mark}-9"], thread_id=thread_id))
        item_ids = [each.item_id for each in self.store.items.everything(owner)]
        item_id = data.draw(st.sampled_from(["item_none", *item_ids]))
        number = data.draw(st.integers(0, 3))
        for action in (
            lambda: self.store.items.get(person, item_id),
            lambda: self.store.items.history(person, item_id),
            lambda: self.store.items.update(person, item_id, f"{mark}-{number}"),
        ):
            assert self.act(person, action) is None or person == owner
        if number == 0:
            self.act(person, lambda: self.store.items.forget(person, item_id))

    @rule(person=people, owner=people, data=st.data())
    def look_for_items(self, person: str, owner: str, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from([None, "thread_none", *self.threads[owner]]))
        mark = PEOPLE[owner]
        found = self.act(person, lambda: self.store.items.search(person, mark, thread_id=thread_id))
        found += self.act(person, lambda: self.store.items.all(person, thread_id=thread_id))
        found += self.act(person, lambda: self.store.items.everything(person))
        assert all(person in str(each) for each in found)

    @rule(person=people)
    def take_a_hint_and_offer_training(self, person: str) -> None:
        self.act(person, lambda: self.store.take_hint(person))
        self.act(person, lambda: self.store.add_candidate(person, "snapshot:snap_1"))
        self.act(person, lambda: self.store.on_consent_revoked(person))

    @rule(person=people)
    def export(self, person: str) -> None:
        package = self.act(person, lambda: self.store.export_user(person))
        assert package is None or not any(other(person) in name for name in package)
        exported = self.act(person, lambda: str(self.store.export_to(person, self.room / "out", as_zip=True)))
        if exported is not None:  # it is for those of whom nothing is known
            assert self.act(person, lambda: self.store.import_package(Path(exported))) is None
            Path(exported).unlink()

    @rule(hours=st.integers(1, 30))
    def time_passes(self, hours: int) -> None:
        self.clock.now += timedelta(hours=hours)
        self.store.expire()
        self.store.scan_drift()
        self.store.rebuild_index()
        self.touched = ""

    @rule()
    def the_process_starts_anew(self) -> None:
        self.store.close()
        self.store = open_store(self.root, self.clock)

    @rule(hostile=st.sampled_from(HOSTILE))
    def somebody_comes_with_a_hostile_id(self, hostile: str) -> None:
        before = files_of_people(self.root)
        for action in (
            lambda: self.store.grant_consent(hostile, EVERYTHING, Preferences(user_focus_reason="x")),
            lambda: self.store.revoke_consent(hostile),
            lambda: self.store.review_profile(hostile, {}),
            lambda: self.store.list_threads(hostile),
            lambda: self.store.load_memory_slices(hostile, "snapshot"),
            lambda: self.store.export_user(hostile),
            lambda: self.store.begin_task("alice", "snapshot", thread_id=hostile),
            lambda: self.store.delete_user(hostile),
        ):
            try:
                found = str(action())
            except MemoryRefusal as refusal:
                found = str(refusal)
            assert not any(mark in found for mark in PEOPLE.values())
        assert files_of_people(self.root) == before

    @precondition(lambda self: not self.deleted)
    @rule(person=people, sure=st.integers(0, 5))
    def delete(self, person: str, sure: int) -> None:
        if sure == 0 and self.act(person, lambda: self.store.delete_user(person)) is not None:
            self.deleted.add(person)

    @invariant()
    def everything_is_where_it_belongs_and_as_consent_allows(self) -> None:
        files = files_of_people(self.root)
        if self.touched:
            theirs = other(self.touched)
            assert only_of(theirs, files) == only_of(theirs, self.before)
        for person, mark in PEOPLE.items():
            for name, data in files.items():
                assert mark.encode() not in data or (person in name and person not in self.deleted), name
            consent = self.store.consent_on_file(person).consent
            profiles = self.store.workspace.files.entries(self.store.workspace.paths.profiles(person))
            assert len(profiles) == int(allows(consent, "save_to_profile"))
            items = self.store.workspace.files.entries(self.store.workspace.paths.items(person))
            assert not items or allows(consent, "save_to_profile")
            if consent is None:
                assert person in self.deleted or not files
                continue
            assert self.store.workspace.consent_versions(person) == list(range(1, consent.version))
            for number in range(1, consent.version):
                assert b"\nversion: %d\n" % number in files[f"consents/_history/{person}/{number}.yaml"]
            if consent.revoked_at is not None:
                assert self.store.workspace.files.entries(self.store.workspace.paths.drift(person)) == []


def test_the_two_do_everything_that_the_store_lets_anybody_do() -> None:
    with IsolatedStore(Clock()) as store:
        operations = {name for name, value in vars(store).items() if inspect.ismethod(value)}
        operations |= {name for name in vars(Items) if name[0] != "_" and name != "readable"}
    operations -= {"begin_task", "despite_full_disk"}  # by start_task, and by all that revokes
    done = set(re.findall(r"self\.store\.(?:items\.)?(\w+)\(", inspect.getsource(TwoPeople)))
    assert operations - done == set()


TestTwoPeople = TwoPeople.TestCase
TestTwoPeople.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("hostile", ["alice\0", "ALICE ", "..", "alice.yaml"])
def test_ids_that_are_none_reach_nothing(hostile: str, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        settle_in(store, "alice", "mark")
        for attempt in (
            lambda: store.load_memory_slices(hostile, "snapshot"),
            lambda: store.read_profile(hostile),
            lambda: store.list_threads(hostile),
            lambda: store.export_user(hostile),
            lambda: store.delete_user(hostile),
            lambda: store.end_task("alice", hostile),
        ):
            with pytest.raises((InvalidId, NotFound)):
                attempt()
