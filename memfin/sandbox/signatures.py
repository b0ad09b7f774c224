"""JSON Schemas of functions that models call, made from their signatures."""

import inspect
from collections.abc import Callable, Collection
from typing import Any, get_type_hints

import msgspec


def arguments_form(
    function: Callable[..., Any], name: str = "", *, given: Collection[str] = ()
) -> type[msgspec.Struct]:
    """Return a struct with a field for each parameter, but for those that the caller has `given`.

    Raises:
        TypeError: a parameter cannot be given by keyword, or there is no JSON Schema of its type.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    fields = [_field(each, hints.get(each.name, Any)) for each in parameters if each.name not in given]
    return msgspec.defstruct(name or function.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a struct with the object itself at its root."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    top = {key: value for key, value in parts.pop(root["$ref"].rpartition("/")[2]).items() if key != "title"}
    return {**top, "$defs": parts} if parts else top


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"parameter {parameter.name!r} cannot be given by keyword")
    name, default = parameter.name, parameter.default
    return (name, hint) if default is parameter.empty else (name, hint, default)
