"""Recognition of Python objects as agents: factories, answering functions, instances, framework objects."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, Protocol

from memfin.agents.protocol import Observer, Session
from memfin.errors import UsageError
from memfin.sandbox.calls import is_async
from memfin.sandbox.references import check_signature, describe, kind_of, positional_parameters

Factory = Callable[[Session, Observer], Any]

EXPECTED: Final = (
    "a class, or a factory function (session, observer), that gives an object with a method "
    "reply(user_text); a function (text) or (text, history) that answers; an object with reply; "
    "a LangChain runnable or LangGraph graph; (client, model) of openai; a solver or agent of inspect_ai; "
    "docs/agents.md shows each"
)

_MODEL_CLIENT: Final = (
    "is a client of openai and names no model; give (client, 'MODEL') or "
    "functools.partial(client.chat.completions.create, model='MODEL')"
)
_SOLVER: Final = "is no solver or agent of inspect_ai; give one that @solver or @agent has decorated"

_TEXT_NAMES: Final = frozenset({"text", "user_text", "message", "question", "prompt", "query"})
_HISTORY_NAMES: Final = frozenset({"history", "messages"})
_FRAMEWORKS: Final = frozenset({"langgraph", "langchain_core", "openai", "inspect_ai"})


class SupportsInvoke(Protocol):
    """A LangChain runnable or a LangGraph graph."""

    @property
    def ainvoke(self) -> Callable[..., Any]:
        """The asynchronous call."""
        ...


class FunctionAgent:
    """One dialogue with a function that answers, which gets the history if it takes one.

    The words of a turn without a reply are not part of the history.
    """

    def __init__(self, function: Callable[..., Any], *, takes_history: bool) -> None:
        self._function = function
        self._takes_history = takes_history
        self._history: list[dict[str, str]] = []
        self._pending: str | None = None
        self.reply = self._reply_on_loop if is_async(function) else self._ask

    async def commit(self, assistant_text: str) -> None:
        """Add the turn's user text and its effective reply to the history."""
        if self._pending is not None:
            self._history.append({"role": "user", "content": self._pending})
            self._pending = None
        self._history.append({"role": "assistant", "content": assistant_text})

    async def _reply_on_loop(self, user_text: str) -> Any:
        return await self._ask(user_text)

    def _ask(self, user_text: str) -> Any:
        self._pending = user_text
        if not self._takes_history:
            return self._function(user_text)
        return self._function(user_text, [dict(message) for message in self._history])


def factory_of(label: str, value: Any) -> Factory:
    """Return the factory of a run's agents for an object of any accepted form.

    ``label`` begins the error.

    Raises:
        UsageError: the object has none of the forms.
    """
    if not isinstance(value, type):
        if hasattr(value, "__registry_info__"):
            return _solver_agents(label, value)
        reply = getattr(value, "reply", None)
        if callable(reply):
            takes_history = _takes_history(label, reply)
            if takes_history is None:
                check_signature(f"{label}: reply", reply, ("user_text",), EXPECTED)
            return _function_agents(reply, takes_history=bool(takes_history))
        if (framework := _framework(value)) is not None:
            return _framework_agents(label, framework, value)
        if _framework(getattr(getattr(value, "func", value), "__self__", None)) == "openai":
            raise UsageError(f"{label}: {_MODEL_CLIENT}")
        if not callable(value):
            raise UsageError(f"{label}: {kind_of(value)} is not callable; expected {EXPECTED}")
        if (takes_history := _takes_history(label, value)) is not None:
            return _function_agents(value, takes_history=takes_history)
    check_signature(label, value, ("session", "observer"), EXPECTED)
    factory: Factory = value
    return factory


def completions_of(value: object) -> tuple[Any, Callable[..., Any], dict[str, Any]] | None:
    """Return a client of openai, its ``create`` and parameters, of a pair or a partial; None for others."""
    if isinstance(value, tuple) and len(value) == 2 and _framework(value[0]) == "openai":  # noqa: PLR2004
        client, model = value
        return client, client.chat.completions.create, {"model": model}
    if isinstance(value, functools.partial) and not value.args:
        owner: Any = getattr(value.func, "__self__", None)
        if type(owner).__name__ in {"Completions", "AsyncCompletions"} and _framework(owner) == "openai":
            return owner._client, value.func, dict(value.keywords)  # noqa: SLF001 - there is no other way
    return None


def _takes_history(label: str, function: Callable[..., Any]) -> bool | None:
    """Return True if a function answers (text, history), False if (text), None if it is no such function."""
    parameters = positional_parameters(function)
    names = [each.name for each in parameters]
    required = [each for each in parameters if each.default is each.empty]
    if names[:2] == ["state", "generate"]:
        raise UsageError(f"{label}: {_SOLVER}")
    if not required or {"session", "observer"} & {*names}:
        return None
    named = not _HISTORY_NAMES.isdisjoint(names[1:2])
    second = len(required) > 1 or named
    if second and not named and names[0] not in _TEXT_NAMES and required[0].annotation not in (str, "str"):
        return None  # two parameters of other names are those of a factory
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{label}: yields its reply in parts; return the whole reply")
    check_signature(label, function, ("text", "history")[: 1 + second], EXPECTED)
    return second


def _function_agents(function: Callable[..., Any], *, takes_history: bool) -> Factory:
    async def create(session: Session, observer: Observer) -> FunctionAgent:
        del session, observer
        return FunctionAgent(function, takes_history=takes_history)

    return create


def _framework(value: object) -> str | None:
    """Return the package of a framework that an object belongs to, by the modules of its class's bases."""
    packages = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    return next((each for each in packages if each in _FRAMEWORKS), None)


def _framework_agents(label: str, framework: str, value: Any) -> Factory:
    """Return the agents of an object of a framework by its adapter, which is imported only now."""
    if framework == "openai":
        raise UsageError(f"{label}: {_MODEL_CLIENT}")
    if framework == "inspect_ai":
        raise UsageError(f"{label}: {_SOLVER}")
    if not hasattr(value, "ainvoke"):
        compiled = "; compile the graph first: graph.compile()" if hasattr(value, "compile") else ""
        raise UsageError(f"{label}: a {type(value).__name__} of {framework} cannot be called{compiled}")
    try:
        if framework == "langgraph":
            from memfin.agents.adapters.langgraph import graph_agent  # noqa: PLC0415 - needs its package

            return graph_agent(value)
        from memfin.agents.adapters.langchain import runnable_agent  # noqa: PLC0415 - needs its package
    except ImportError as problem:
        raise UsageError(f"{label}: its adapter cannot be imported: {describe(problem)}") from problem
    keeps = any(base.__name__ == "RunnableWithMessageHistory" for base in type(value).__mro__)
    return runnable_agent(value, own_history=keeps)


def _solver_agents(label: str, value: Any) -> Factory:
    """Return the agents of an object that a decorator of inspect_ai has registered."""
    try:
        from memfin.agents.adapters.inspect_ai import solver_agent  # noqa: PLC0415 - needs its package

        return solver_agent(value)
    except ImportError as problem:
        raise UsageError(f"{label}: its adapter cannot be imported: {describe(problem)}") from problem
    except ValueError as problem:
        raise UsageError(f"{label}: {problem}") from problem
