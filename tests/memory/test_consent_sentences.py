"""The consent sentences of the pages name what the store keeps, how long, and which tasks read it."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from tomllib import loads
from typing import Any, Final, get_args

from memfin.contracts.base import Language
from memfin.contracts.memory import (
    ChangeSummary,
    ConsentScope,
    ConsentScopes,
    ContextFields,
    Route,
    SliceName,
)
from memfin.memory import MemoryStore
from memfin.memory.contexts import KEPT
from memfin.memory.errors import ConsentRequired
from memfin.memory.sensitive import find_sensitive
from memfin.memory.slices import CONSENT, DRIFT_DAYS, SLICES, THREADS_NAMED
from memfin.web.memory.pages.texts import texts
from tests.memory.memory_disks import tree
from tests.memory.memory_world import EVERYTHING, SECOND, Clock, everything_said, open_store
from tests.support import each_case

SCOPES: Final[tuple[ConsentScope, ...]] = get_args(ConsentScope)
ROUTES: Final[tuple[Route, ...]] = get_args(Route)
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
USER: Final = "li"
NOTHING: Final = EVERYTHING.replace(**dict.fromkeys(SCOPES, False))
SAID: Final = {name: getattr(everything_said("said"), name) for name in ContextFields.__struct_fields__}
HOURS: Final = int(KEPT.total_seconds() // 3600)
WORDS: Final = Path(__file__).parents[2] / "memfin" / "data" / "templates" / "memory"

# Kinds of records: the place of their files, and how the sentences name them.
KINDS: Final[Mapping[str, tuple[str, Mapping[Language, str]]]] = {
    "task": ("user_contexts/li/_task/", {"en": "what you say for the task", "zh": "单次任务中您提供的内容"}),
    "profile": ("user_contexts/li/_profile/", {"en": "back: <fields>", "zh": "此项：<fields>"}),
    "item": (
        "user_contexts/li/_items/",
        {
            "en": "items to remember outside of threads, with their earlier texts",
            "zh": "不属于任何主题的记忆条目及其修改前的文字",
        },
    ),
    "thread item": (
        "user_contexts/li/_thread/[^/]+/_items/",
        {"en": "its items to remember, with their earlier texts", "zh": "该主题的记忆条目及其修改前的文字"},
    ),
    "context": (
        "user_contexts/li/_thread/",
        {
            "en": "what you say when you save or refresh it (<fields>)",
            "zh": "您在保存或更新主题时提供的内容（<fields>）",
        },
    ),
    "refresh": ("threads/li/[^/]+/", {"en": "its refreshes", "zh": "历次更新"}),
    "title": (
        "threads/li/",
        {"en": "title and topic (also without this permission)", "zh": "标题和议题（未同意此项时也保留）"},
    ),
    "feedback": ("feedback/li/", {"en": "back: your feedback", "zh": "此项：您的反馈"}),
    "drift": (
        "persona_drift/li/",
        {"en": "the record of your changes of mind, which quotes", "zh": "观点变化记录，其中引用"},
    ),
    "candidate": ("training_candidates/li/", {"en": "the ids of results", "zh": "结果的编号"}),
    "hint": ("hints/li/", {"en": "the time of the last hint", "zh": "上次向您显示提示的时间"}),
}
# Ends of records, and how the sentences name them.
ENDS: Final[Mapping[str, Mapping[Language, str]]] = {
    "revocation": {"en": "Kept until you take this back:", "zh": "保留到您撤回此项："},
    "time": {
        "en": f"Kept for {HOURS} hours after a task ends, even after you take your consent back:",
        "zh": f"任务结束后保留 {HOURS} 小时，撤回授权后也一样：",
    },
    "thread": {"en": "Kept until you delete the thread:", "zh": "保留到您删除该主题："},
    "account": {"en": "Kept until your account is deleted:", "zh": "保留到账户删除："},
}


@cache
def recall(language: Language) -> Any:
    """Return the words that the sentences are completed with."""
    return loads((WORDS / f"texts.{language}.toml").read_text("utf-8"))["recall"]


def sentences(language: Language, scope: ConsentScope) -> list[str]:
    hint: str = texts(language)["scopes"][scope]["hint"]
    return re.split(r"(?<=[.。])\s?", hint)


def naming(language: Language, kind: str) -> list[tuple[ConsentScope, str]]:
    """Return the sentences that name a kind of record, with their scopes."""
    kept = recall(language)["fields"]
    fields = ".*".join(kept[name] for name in ("language_preference", *list(SAID)[1:4]))
    phrase = re.escape(KINDS[kind][1][language]).replace("<fields>", f"{fields}.*")
    found: list[tuple[ConsentScope, str]] = [
        (scope, each) for scope in SCOPES for each in sentences(language, scope) if re.search(phrase, each)
    ]
    assert "<fields>" not in KINDS[kind][1][language] or all(kept[name] in found[0][1] for name in SAID)
    return found


def live(root: Path, scopes: ConsentScopes = EVERYTHING) -> tuple[MemoryStore, Clock, str]:
    """Do everything that leaves a record, as far as the scopes allow it; return the thread's id."""
    store = open_store(root, clock := Clock())
    consent = store.grant_consent(USER, scopes)
    context: dict[str, Any] = {"save_user_context": True, "consent_id": consent.consent_id, "context": SAID}
    thread = store.save_thread(USER, "snap", "title", {"type": "theme", "name": "rates"})

    def save() -> None:
        nonlocal thread
        thread = store.save_thread(USER, "snap", "title", {"type": "theme", "name": "rates"}, **context)

    def refresh() -> None:
        for thesis in ("gold will rise", "silver falls instead"):
            clock.now += SECOND
            changes = ChangeSummary(changed_inferences=[thesis] * 9)
            store.refresh_thread(USER, thread.thread_id, main_thesis=thesis, change_summary=changes)

    def rate() -> None:
        for rating in ("thumbs_up", "not_helpful"):
            clock.now += SECOND
            store.record_feedback(USER, "snapshot:snap", {"asset": "gold"}, rating, "comment")

    def task() -> None:
        started = store.start_task(USER, "snapshot", fields=everything_said("of-the-task"))
        store.end_task(USER, str(started.context.task_id))

    def remember(place: str | None) -> None:
        item = store.items.add(USER, "earlier", thread_id=place)
        store.items.update(USER, item.item_id, "later")

    steps: list[Callable[[], object]] = [
        lambda: store.take_hint(USER),
        save,
        refresh,
        rate,
        task,
        lambda: remember(None),
        lambda: remember(thread.thread_id),
        lambda: store.review_profile(USER, SAID),
    ]
    for step in steps:
        with suppress(ConsentRequired):
            step()
    return store, clock, thread.thread_id


def on_disk(root: Path) -> set[str]:
    """Return the kinds of the records in a data root, consents aside."""
    names = [name for name in tree(root) if not name.startswith("consents/")]
    return {next(kind for kind, (place, _) in KINDS.items() if re.match(place, name)) for name in names}


@cache
def lives() -> tuple[dict[str, set[ConsentScope]], dict[str, str]]:
    """Return the scopes that each kind of record needs, and what ends it."""
    needs: dict[str, set[ConsentScope]] = {kind: set() for kind in KINDS}
    ends: dict[str, str] = {}
    with TemporaryDirectory() as room:
        for scope in SCOPES:
            root = Path(room, scope)
            live(root, EVERYTHING.replace(**{scope: False}))[0].close()
            for kind in KINDS.keys() - on_disk(root):
                needs[kind].add(scope)
        for kind, needed in needs.items():
            root = Path(room, kind)
            store, clock, _ = live(root)
            assert on_disk(root) == KINDS.keys()
            for scope in needed or SCOPES:
                store.revoke_consent(USER, scope=scope)
            found = [on_disk(root)]
            clock.now += KEPT
            store.expire()
            found.append(on_disk(root))
            for header in store.list_threads(USER):
                store.delete_thread(USER, header.thread_id)
            found.append(on_disk(root))
            store.delete_user(USER)
            found.append(on_disk(root))
            store.close()
            ends[kind] = next(end for end, left in zip(ENDS, found, strict=True) if kind not in left)
    return needs, ends


@each_case("language", LANGUAGES)
def test_the_sentence_of_a_scope_names_the_records_that_are_on_disk_with_it_alone(language: Language) -> None:
    needs, _ = lives()
    assert {kind for kind, scopes in needs.items() if not scopes} == {"title", "hint"}
    for kind, scopes in needs.items():
        named = [scope for scope, _ in naming(language, kind)]
        assert len(named) == 1, (kind, named)
        assert not scopes or named == list(scopes), kind


@each_case("language", LANGUAGES)
def test_a_record_is_on_disk_as_long_as_its_sentence_says(language: Language) -> None:
    _, ends = lives()
    assert set(ends.values()) == ENDS.keys()
    for kind, end in ends.items():
        ((_, sentence),) = naming(language, kind)
        assert [each for each, words in ENDS.items() if words[language] in sentence] == [end], kind


@each_case("language", LANGUAGES)
def test_the_sentence_of_a_scope_names_the_tasks_that_read_its_records(language: Language) -> None:
    words = recall(language)
    for scope in SCOPES:
        with TemporaryDirectory() as room:
            store, _, thread_id = live(Path(room), NOTHING.replace(**{scope: True}))
            if scope == "save_to_profile":  # drift needs feedback, and that another scope
                store.workspace.files.save(store.workspace.paths.drift_record(USER, "drift_9"), b"{}")
            read: set[tuple[str, Route]] = set()
            of_threads: dict[str, str] = {}
            for route in ROUTES:
                asked = store.load_memory_slices(USER, route, thread_id, prompt="compare with my threads")
                unasked = store.load_memory_slices(USER, route, thread_id)
                for each in asked.slices:
                    if each.source == "threads":
                        name = words["routes"][route]
                        always = unasked.value("S6") is not None
                        of_threads[name] = name if always else words["if_asked_for"].format(route=name)
                    elif CONSENT.get(each.source) == scope:
                        read.add((SLICES[each.name].label, route))
            assert "of-the-task" not in "".join(
                store.load_memory_slices(USER, route, thread_id).block.text for route in ROUTES
            )
            store.close()
        assert read == _reads_named(language, scope)
        about = {"en": f"{THREADS_NAMED} latest threads are read", "zh": f"最近 {THREADS_NAMED} 个主题"}[
            language
        ]
        titles = "".join(each for each in sentences(language, scope) if about in each)
        assert {name for name in words["routes"].values() if name in titles} == set(of_threads)
        assert all(name in titles for name in of_threads.values())


def _reads_named(language: Language, scope: ConsentScope) -> set[tuple[str, Route]]:
    """Return the pairs of a field and a kind of task that the sentence of a scope names."""
    words = recall(language)
    between = words["used"].format(what="", where="")
    found: set[tuple[str, Route]] = set()
    for sentence in sentences(language, scope):
        head, colon, reads = sentence.partition({"en": ": ", "zh": "："}[language])
        if not colon or not {"en": head.startswith("Read"), "zh": "用" in head}[language]:
            continue
        for group in reads.rstrip(".。").split(words["semicolon"]):
            what, _, where = group.partition(between)
            every = where == words["every_task"]
            routes: list[Route] = [route for route in ROUTES if every or words["routes"][route] in where]
            fields = [
                label for label, text in words["fields"].items() if text.format(days=DRIFT_DAYS) in what
            ]
            found.update((label, route) for label in fields for route in routes)
    return found


def test_a_candidate_for_training_holds_no_content(tmp_path: Path) -> None:
    live(tmp_path)[0].close()
    held = [data for name, data in tree(tmp_path).items() if name.startswith("training_candidates/")]
    assert held
    assert not any(word in data for data in held for word in (b"title", b"rates", b"said", b"gold"))


def test_the_settings_name_how_much_of_a_long_text_is_read() -> None:
    saved: tuple[SliceName, ...] = ("S4", "S5", "S7", "S8", "S10")
    bounds = sorted({SLICES[name].budget for name in saved})
    others = [bound * 4 for bound in bounds]  # a token is four characters, or one Chinese character
    for language in ("en", "zh"):
        words = texts(language)["settings"]["saved_text"]
        assert [int(number) for number in re.findall(r"\d+", words)] == [*bounds, *others]


@each_case(
    ("en", "zh", "example", "is_refused"),
    [
        ("phone numbers", "电话", "call me: 13800138000", True),
        ("e-mail addresses", "电子邮箱", "someone@example.com", True),
        ("id or card", "证件号", "身份证 11010519491231002X", True),
        ("card numbers", "银行卡号", "6222021234567890128", True),
        ("addresses of wallets", "钱包地址", "0x52908400098527886E0F7030069857D2E4169EE7", True),
        ("keys", "密钥", "sk-proj-Ab3dEf6hIjKl9nOpQr2tUvWx", True),
        ("passwords", "密码", "密码：hunter22", True),
        ("my name is", "我叫", "我叫李小明，想买基金", True),
        ("A name without such words", "没有这类字样的姓名", "李小明想买基金", False),
        ("a home address", "住址", "家住建国路88号502", False),
        ("the id of a chat account", "微信号", "我的微信号是 abc12345", False),
    ],
)
def test_the_settings_name_what_is_refused_and_what_is_not(
    en: str, zh: str, example: str, is_refused: bool
) -> None:
    assert bool(find_sensitive(example)) is is_refused
    languages: dict[Language, str] = {"en": en, "zh": zh}
    for language, words in languages.items():
        parts = texts(language)["hints"]["private"].partition({"en": "refused.", "zh": "拒绝。"}[language])
        assert words in parts[0 if is_refused else 2]
