"""Imports of Python objects by reference, ``pkg.module:name``, and one-line descriptions of errors."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from memfin.errors import UsageError
from memfin.secrets import scrubber_of_environment
from memfin.text import lines

MAX_LINE: Final = 2000
"""Maximum characters of an error message."""

MAX_NAMES: Final = 20
"""Names of a module that an error lists."""

MAX_SECRET: Final = 8192
"""Characters beyond these that are scrubbed, so that no cut leaves the beginning of a key."""


def import_reference(what: str, reference: str, forms: str) -> Callable[..., Any]:
    """Import the callable of ``pkg.module:name``; raise `UsageError` as `import_object`, and for others."""
    value = import_object(what, reference, forms)
    if not callable(value):
        name = reference.partition(":")[2]
        raise UsageError(f"{what} {reference!r}: {name!r} is not callable; name a factory or a class")
    found: Callable[..., Any] = value
    return found


def import_object(what: str, reference: str, forms: str) -> Any:
    """Import the object of ``pkg.module:name``.

    ``what`` is the option the reference was given for, ``forms`` lists the valid forms.

    Raises:
        UsageError: the reference is malformed or does not import.
    """
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise unknown_reference(what, reference, forms)
    try:
        value: Any = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # importing runs user code: it may raise or exit in any way
        path = module_name.removesuffix(".py")
        why = describe(problem)
        if path != module_name or "/" in module_name:
            why = f"name the module without .py and slashes: {path.strip('./').replace('/', '.')}:{attribute}"
        raise UsageError(
            f"{what} {reference!r}: module {module_name!r} cannot be imported: {why}"
        ) from problem
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            known = ", ".join(_factories_in(sys.modules.get(module_name)))
            raise UsageError(
                f"{what} {reference!r}: module {module_name!r} has no {attribute!r}"
                + (f"; it has {known}" if known else "")
            ) from None
        except Exception as problem:  # a module may compute its attributes
            raise UsageError(
                f"{what} {reference!r}: {attribute!r} cannot be looked up: {describe(problem)}"
            ) from problem
    return value


def unknown_reference(what: str, reference: str, forms: str, installed: Sequence[str] = ()) -> UsageError:
    """Return the error of a reference of no known form; ``installed`` are the names of plugins."""
    near = get_close_matches(reference, [*re.split(r", | or ", forms), *installed], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    names = f"; installed plugins: {', '.join(installed)}" if installed else ""
    return UsageError(f"{what} {reference!r}: unknown reference; known forms: {forms}{names}{hint}")


def _factories_in(module: object) -> list[str]:
    """Return the public classes and functions that a module defines, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == getattr(module, "__name__", None)
        and not name.startswith("_")
    ][:MAX_NAMES]


def check_signature(label: str, factory: Callable[..., Any], arguments: Sequence[str], expected: str) -> None:
    """Refuse a factory that does not take the given positional arguments.

    One without a readable signature passes; its call will show. ``label`` begins the error,
    ``expected`` ends it.

    Raises:
        UsageError: the arguments do not fit the signature.
    """
    try:
        # As the function itself takes them: a decorator may well bring arguments of its own.
        signature = inspect.signature(factory, follow_wrapped=False)
    except Exception:  # noqa: BLE001 - a user object may compute its signature
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        empty = inspect.Parameter.empty
        names = [each.replace(annotation=empty, default=empty) for each in signature.parameters.values()]
        taken = inspect.Signature(names)
        raise UsageError(
            f"{label}: takes {taken} and is called with ({', '.join(arguments)}); expected {expected}"
        ) from None


def positional_parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that take positional arguments, none where they cannot be read.

    A decorated function with a bare ``*args`` has those of the function that it wraps.
    """
    taken: list[inspect.Parameter] = []
    for follow in (False, True):
        try:
            parameters = inspect.signature(call, follow_wrapped=follow).parameters.values()
        except Exception:  # noqa: BLE001 - a user object may compute its signature
            break
        taken = [each for each in parameters if each.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
        if taken:
            break
    return taken


def reference_of(value: object) -> str:
    """Return the name of an object in the artifacts of a run: ``module:name``, for an instance its class."""
    kind = type(value)
    module = getattr(value, "__module__", kind.__module__)
    return f"{module}:{getattr(value, '__qualname__', kind.__qualname__)}"


def package_version(module_name: str) -> str | None:
    """Return ``__version__`` of the imported package of a module, if any."""
    package = sys.modules.get(module_name.partition(".")[0])
    version = getattr(package, "__version__", None)
    return version if isinstance(version, str) else None


def kind_of(value: object) -> str:
    """Describe the type of a value for an error message."""
    return "None" if value is None else f"an object of type {type(value).__name__}"


def describe(error: BaseException) -> str:
    """Return the error as one line: its type, its message, no traceback."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a user class may fail in __str__
        message = ""
    return one_line(f"{type(error).__name__}: {message}" if message.strip() else type(error).__name__)


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Return text as `memfin.text.lines.one_line`, with the keys of the environment masked.

    Error messages of clients often quote the request.
    """
    known = scrubber_of_environment().scrub(text[: 2 * MAX_LINE + MAX_SECRET])
    return lines.one_line(known[: 2 * MAX_LINE], limit)
