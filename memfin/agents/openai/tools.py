"""Tools that a model may call: Python functions, offered with a JSON Schema and called with what fits it."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.sandbox.calls import CallFailed
from memfin.sandbox.references import one_line
from memfin.sandbox.signatures import arguments_form, object_schema

MAX_RESULT_CHARS: Final = 50_000  # of a tool's result that the model gets
EXCERPT: Final = 500  # characters that the trace keeps


class Tool(Record):
    """A function that the model may call.

    Attributes:
        function: called with the model's arguments as keywords; may be a coroutine function. A plain
            one runs in a thread. What it returns is text or has a JSON form.
        description: what it does, for the model; None takes the function's docstring.
        parameters: JSON Schema of the arguments, an object; None makes it of the signature, and the
            arguments are then checked against that.
    """

    function: Callable[..., Any]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class BoundTool:
    """A tool under its name: how it is offered, and how arguments become keywords."""

    def __init__(self, name: str, tool: Tool | Callable[..., Any]) -> None:
        """Take a tool; raise `UsageError` when no schema can be made of its signature."""
        tool = tool if isinstance(tool, Tool) else Tool(function=tool)
        if not callable(tool.function):
            raise UsageError(f"tool {name!r}: expected a function, got {type(tool.function).__name__}")
        self.name = name
        self.function = tool.function
        self._form: type[msgspec.Struct] | None = None
        parameters = tool.parameters
        if parameters is None:
            self._form = _form(name, tool.function)
            parameters = object_schema(self._form)
        description = tool.description or inspect.getdoc(tool.function) or name
        self.offer: dict[str, Any] = {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }

    def keywords(self, arguments: str) -> dict[str, Any]:
        """Return the model's arguments as keywords; raise `CallFailed` when they do not fit."""
        given = arguments_of(arguments)
        if not isinstance(given, dict):
            raise CallFailed("the arguments are no JSON object")
        if self._form is None:
            return given
        try:
            form = msgspec.convert(given, self._form)
        except msgspec.ValidationError as problem:
            raise CallFailed(f"the arguments do not fit: {problem}") from problem
        return {name: getattr(form, name) for name in form.__struct_fields__}


def bind_tools(tools: Mapping[str, Tool | Callable[..., Any]] | None) -> dict[str, BoundTool]:
    """Return the tools by name; raise `UsageError` when one cannot be offered."""
    return {name: BoundTool(name, tool) for name, tool in (tools or {}).items()}


def tools_hash(tools: Mapping[str, BoundTool]) -> str | None:
    """Return the SHA-256 of what the model is offered, None when that is nothing."""
    if not tools:
        return None
    offers = msgspec.json.encode([tools[name].offer for name in sorted(tools)], order="deterministic")
    return hashlib.sha256(offers).hexdigest()


def arguments_of(arguments: str) -> dict[str, Any] | str:
    """Return a call's arguments as the trace keeps them: an object, or the text that is none."""
    if not arguments.strip():
        return {}
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments
    return given if isinstance(given, dict) else arguments


def result_text(result: object) -> str:
    """Return a tool's result as the model gets it; raise `CallFailed` when it has no JSON form."""
    try:
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise CallFailed(f"the result has no JSON form: {problem}") from problem
    if len(text) > MAX_RESULT_CHARS:
        return f"{text[:MAX_RESULT_CHARS]}... ({len(text)} characters, the rest is left out)"
    return text


def _form(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Return a struct with a field for each parameter of the function."""
    try:
        form = arguments_form(function, name)
        object_schema(form)
    except Exception as problem:
        raise UsageError(
            f"tool {name!r}: no schema can be made of its signature ({one_line(str(problem))}); give "
            "Tool(function, description, parameters)"
        ) from problem
    return form
