"""The template environment of the reports and the words of its filters."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from memfin.report import glossary

if TYPE_CHECKING:
    from jinja2 import Environment

_MINUTE: Final = 60
_SECOND_MS: Final = 1000


@cache
def environment(escape: Callable[[str], str] | None = None) -> "Environment":
    """Return the template environment of the reports; templates are compiled once a process.

    With ``escape`` every expression passes through that function unless it is marked safe; without
    it jinja2's HTML escaping is on. Either way a template cannot forget to escape.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - only a report needs it

    engine = Environment(
        loader=FunctionLoader(template_source),
        autoescape=escape is None,  # noqa: S701 - `finalize` escapes where this does not
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # a marked string is a subclass of str and stays as it is
        finalize=(lambda value: escape(value) if type(value) is str else value) if escape else None,
    )
    engine.globals |= {
        "metrics": glossary.METRICS,
        "sources": glossary.SOURCES,
        "notes": glossary.NOTES,
        "value": glossary.format_value,
        "interval": glossary.format_interval,
    }
    engine.filters |= {"duration": duration, "milliseconds": milliseconds}
    return engine


def template_source(name: str) -> str | None:
    """Return the text of a packaged template, or None when there is none of that name."""
    path = files("memfin") / "data" / "templates" / name
    return path.read_text("utf-8") if path.is_file() else None


def duration(seconds: float) -> str:
    """Write a duration given in seconds in the units a reader would use."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h {minutes:02d} min {rest:02d} s" if hours else f"{minutes} min {rest:02d} s"


def milliseconds(value: float) -> str:
    """Write a latency given in milliseconds."""
    return duration(value / _SECOND_MS) if value >= _SECOND_MS else f"{value:.3g} ms"
