"""Agent references."""

import functools
import sys
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.bounds import EchoAgent, OracleAgent
from memfin.agents.builtin import BuiltinAgent
from memfin.agents.memory_context import resolve_memory
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import AgentSettings
from memfin.agents.registry import check_observer_factory, resolve_agent
from memfin.agents.replay import ReplayOptions, open_session, replay_dialog
from memfin.dataset import normalize_dialog
from memfin.errors import UsageError
from memfin.sandbox.references import MAX_LINE, describe, import_reference, kind_of, one_line, package_version
from tests.support import each_case

DIALOG = normalize_dialog(
    {
        "dialog_id": "d",
        "profile_gt": {},
        "turns": [
            {"role": "user", "text": "question"},
            {"role": "assistant", "text": "reference", "turn_tags": {}},
        ],
    }
)


def refusal(agent: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolve_agent(agent)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize(("reference", "kind"), [("builtin", BuiltinAgent), ("echo", EchoAgent)])
def test_builtin_references(reference: str, kind: type) -> None:
    source = resolve_agent(reference)
    assert source.factory_for(DIALOG) is kind
    assert (source.reference, source.model_name, source.version) == (
        reference,
        reference,
        memfin.__version__,
    )


async def test_only_the_oracle_looks_into_the_dialogue() -> None:
    source = resolve_agent("oracle")
    result = await replay_dialog(DIALOG, 1, source.factory_for(DIALOG), ReplayOptions(run_id="r"))
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["reference"]
    session = open_session(DIALOG, ReplayOptions(run_id="r"))
    assert isinstance(await source.factory_for(DIALOG)(session, TurnObserver()), OracleAgent)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of an importable package ``adviser``."""
    path = tmp_path / "adviser"
    path.mkdir()
    (path / "__init__.py").write_text("__version__ = '3.1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "adviser"]:
        monkeypatch.delitem(sys.modules, name)
    return path


def test_a_python_reference_imports_its_factory(package: Path) -> None:
    (package / "model.py").write_text("class Make:\n    @staticmethod\n    def new(s, o): return 'agent'\n")
    source = resolve_agent("adviser.model:Make.new")
    assert source.factory_for(DIALOG)(None, None) == "agent"  # type: ignore[arg-type]
    assert (source.reference, source.version) == ("adviser.model:Make.new", "3.1")


def test_a_factory_object_is_named_after_its_place(package: Path) -> None:
    (package / "model.py").write_text("def create(s, o): pass\n")
    factory = import_reference("agent", "adviser.model:create", "")
    source = resolve_agent(factory)
    assert source.factory_for(DIALOG) is factory
    assert (source.reference, source.version) == ("adviser.model:create", "3.1")
    partial = functools.partial(EchoAgent)
    assert resolve_agent(partial).reference == "functools:partial"


@each_case("agent", ["", "nonsense", "adviser:", ":create", "Builtin", " echo"])
def test_an_unknown_form_is_refused_with_the_known_ones(agent: str) -> None:
    message = refusal(agent)
    assert message.startswith(f"agent {agent!r}: unknown reference; known forms: builtin, oracle, echo")


def test_a_misspelt_reference_is_answered_by_the_nearest_form(package: Path) -> None:
    assert refusal("bultin").endswith(" or pkg.module:factory; did you mean 'builtin'?")
    assert "did you mean" not in refusal("nonsense")


def test_a_file_is_answered_by_its_module_and_an_unknown_name_by_those_there_are(package: Path) -> None:
    (package / "model.py").write_text(
        "import json\nfrom pathlib import Path\n"
        "def create(s, o): pass\nclass Model: pass\ndef _private(): pass\n"
    )
    for agent in ("adviser/model.py:Model", "./adviser/model:Model", "adviser.model.py:Model"):
        assert refusal(agent).endswith(" name the module without .py and slashes: adviser.model:Model")
    assert refusal("adviser.model:Modle").endswith(
        ": module 'adviser.model' has no 'Modle'; it has create, Model"
    )


@each_case("setting", [{"system": "s"}, {"memory": "builtin"}, {"temperature": 1.0}, {"max_tokens": 5}])
@each_case("agent", ["builtin", "http://127.0.0.1:1", EchoAgent])
def test_settings_for_models_are_refused_for_other_agents(agent: Any, setting: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_agent(agent, AgentSettings(**setting))
    assert f"setting agent_{next(iter(setting))}: is for agents of the form openai:MODEL" in str(
        refused.value
    )


@pytest.mark.parametrize("agent", [None, 5, ["builtin"]])
def test_an_object_of_no_accepted_form_is_refused_with_the_accepted_ones(agent: object) -> None:
    message = refusal(agent)
    assert f"{kind_of(agent)} is not callable; expected a class, or a factory function" in message
    assert "a function (text) or (text, history) that answers; an object with reply; a Lang" in message


class Answers:
    """Takes other arguments than a factory gets."""

    def __init__(self, text: str) -> None:
        self.text = text

    def reply(self, user_text: str) -> str:
        return self.text


class Bare:
    """Takes no arguments at all."""

    def reply(self, user_text: str) -> str:
        return user_text


class Made:
    """A factory that is an object."""

    def __init__(self, agent: Any = EchoAgent) -> None:
        self.agent = agent

    def __call__(self, session: Any, observer: Any) -> Any:
        return self.agent(session, observer)

    def two_more(self, session: Any, observer: Any, retries: int, /, *, key: str) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("agent", "taken"),
    [
        (lambda: EchoAgent, "()"),
        (Answers, "(text)"),
        (Bare, "()"),
        (functools.partial(Answers, "x"), "()"),
        (functools.partial(Made(), None), "(observer)"),
        (Made().two_more, "(session, observer, retries, /, *, key)"),
    ],
)
def test_a_factory_that_takes_other_arguments_is_refused_with_what_was_expected(
    agent: Any, taken: str
) -> None:
    message = refusal(agent)
    assert f": takes {taken} and is called with (session, observer); expected a class" in message
    assert "gives an object with a method reply(user_text)" in message


def through(factory: Any) -> Any:
    """Return a decorated factory that brings the observer itself."""

    @functools.wraps(factory)
    def wrapper(session: Any, observer: Any) -> Any:
        return factory(session)

    return wrapper


class Unreadable:
    """A factory whose signature cannot be computed."""

    @property
    def __signature__(self) -> Any:
        raise RuntimeError("no signature")

    def __call__(self, session: Any, observer: Any) -> Any:
        return EchoAgent(session, observer)


async def make(session: Any, observer: Any, *, model: str = "m") -> Any:
    return EchoAgent(session, observer)


@pytest.mark.parametrize(
    "factory",
    [
        EchoAgent,
        make,
        Made(),
        Unreadable(),
        lambda *arguments, **others: EchoAgent(*arguments),
        lambda session, observer, more=None, **others: EchoAgent(session, observer),
        functools.partial(make, model="n"),
        functools.partial(Made.__call__, Made()),
        through(lambda session: EchoAgent(session, TurnObserver())),
    ],
)
async def test_factories_of_any_kind_that_take_a_session_and_an_observer_are_taken(factory: Any) -> None:
    source = resolve_agent(factory)
    result = await replay_dialog(DIALOG, 1, source.factory_for(DIALOG), ReplayOptions(run_id="r"))
    assert [turn.pred_assistant_text for turn in result.trace.turns] == ["question"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("raise BaseException('odd')", "BaseException: odd"),
        ("def (", "SyntaxError: invalid syntax"),
        ("x = '\\x00'\nraise RuntimeError('\\ud800')", "RuntimeError: ⟨U+D800⟩"),
    ],
)
def test_a_module_that_does_not_import_is_refused_with_the_reason(
    package: Path, body: str, reason: str
) -> None:
    (package / "model.py").write_text(body)
    message = refusal("adviser.model:create")
    prefix = "agent 'adviser.model:create': module 'adviser.model' cannot be imported: "
    assert message.startswith(prefix + reason)


def test_a_module_that_is_not_there_is_refused() -> None:
    assert "No module named 'not_there_at_all'" in refusal("not_there_at_all:create")
    assert "cannot be imported" in refusal(".relative:create")
    assert "cannot be imported" in refusal("a\0b:create")


def test_ctrl_c_while_importing_is_not_taken_for_an_import_error(package: Path) -> None:
    (package / "model.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        resolve_agent("adviser.model:create")


def test_an_attribute_that_is_missing_or_not_callable_is_refused(package: Path) -> None:
    (package / "model.py").write_text("number = 5\n")
    assert refusal("adviser.model:create").endswith("module 'adviser.model' has no 'create'")
    assert refusal("adviser.model:number.create").endswith("module 'adviser.model' has no 'number.create'")
    assert refusal("adviser.model:a..b").endswith("has no 'a..b'")
    assert ": an object of type int is not callable; expected a class" in refusal("adviser.model:number")


def test_an_attribute_that_cannot_be_computed_is_refused(package: Path) -> None:
    (package / "model.py").write_text("def __getattr__(name):\n    raise ImportError('extra is missing')\n")
    assert refusal("adviser.model:create").endswith(
        "'create' cannot be looked up: ImportError: extra is missing"
    )


def test_version_is_that_of_the_package_where_it_has_one(package: Path) -> None:
    (package / "model.py").write_text("__version__ = 'not this'\ncreate = print\n")
    assert package_version("adviser.model") is None  # not imported
    import_reference("agent", "adviser.model:create", "")
    assert package_version("adviser.model") == "3.1"
    sys.modules["adviser"].__version__ = 5  # type: ignore[attr-defined]
    assert package_version("adviser") is None


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@each_case(
    ("error", "line"),
    [
        (ValueError("a\n\tb\u2028c\r\n"), "ValueError: a b c"),
        (ValueError(""), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError("\ud800"), "ValueError: ⟨U+D800⟩"),
        (MuteError(), "MuteError"),
    ],
)
def test_errors_are_described_in_one_line(error: BaseException, line: str) -> None:
    assert describe(error) == line


def test_long_texts_are_cut() -> None:
    assert len(one_line("x" * 10**7)) == MAX_LINE
    assert len(describe(ValueError("\ud800" * 10**6))) == MAX_LINE


@pytest.mark.parametrize("memory", [lambda: None, lambda session, more: None, 3])
def test_a_memory_of_the_wrong_shape_is_refused_when_the_run_is_planned(memory: Any) -> None:
    with pytest.raises(UsageError, match=r"agent memory.*expected"):
        resolve_memory(memory)


@pytest.mark.parametrize("factory", [lambda session: None, TurnObserver()])
def test_an_observer_factory_of_the_wrong_shape_is_refused(factory: Any) -> None:
    with pytest.raises(UsageError, match=r"observer_factory.*expected a subclass of TurnObserver"):
        check_observer_factory(factory)
