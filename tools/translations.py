"""Update and compile the catalogs of translated texts, ``memfin/data/locale/LANGUAGE/memfin.po`` and ``.mo``.

``python tools/translations.py`` takes new texts of code, templates and glossary into the catalogs,
drops those that are gone, names what is not translated, and compiles. It needs Babel (dependency group test).
"""

import ast
import io
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from jinja2 import Environment
from jinja2.ext import extract_from_ast

PACKAGE: Final = Path(__file__).resolve().parents[1] / "memfin"
LOCALE: Final = PACKAGE / "data" / "locale"
GLOSSARY: Final = PACKAGE / "data" / "templates" / "report.toml"
FUNCTIONS: Final = ("tr", "marked")
NAMES: Final = ("name", "code", "lead", "key", "better", "scale", "denominator", "level")
"""Keys of the glossary whose values are no words."""


def extracted() -> dict[str, list[str]]:
    """Return the texts of the code, the templates and the glossary, and the files that have them."""
    texts: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for text in _of_code(ast.parse(path.read_text("utf-8"))):
            texts.setdefault(text, set()).add(path.relative_to(PACKAGE).as_posix())
    for path in (*GLOSSARY.parent.glob("report.*.j2"), *GLOSSARY.parent.glob("view/**/*.j2")):
        for _, _, message in extract_from_ast(Environment().parse(path.read_text("utf-8")), FUNCTIONS):  # noqa: S701
            first = message[0] if isinstance(message, tuple) else message
            if first:
                texts.setdefault(first, set()).add(path.name)
    for text in _words(tomllib.loads(GLOSSARY.read_text("utf-8"))):
        texts.setdefault(text, set()).add(GLOSSARY.name)
    return {text: sorted(places) for text, places in sorted(texts.items())}


def _of_code(tree: ast.AST) -> Iterator[str]:
    """Yield the literal first arguments of calls of `FUNCTIONS`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)


def _words(value: Any) -> Iterator[str]:
    """Yield the words of the glossary; names of notes are words, other keys are not."""
    if isinstance(value, dict):
        for key, each in value.items():
            if " " in key or key[:1].isupper():  # a name of notes
                yield key
            if key == "parts":
                yield from (part[1] for part in each)
            elif key not in NAMES:
                yield from _words(each)
    elif isinstance(value, list):
        for each in value:
            yield from _words(each)
    elif isinstance(value, str) and value:
        yield value


def updated(path: Path) -> Catalog:
    """Return the catalog of a file with exactly the texts of the code."""
    with path.open("rb") as file:
        old = read_po(file)
    new = Catalog(locale=path.parent.name, project="memfin", charset="utf-8", fuzzy=False)
    new.revision_date = new.creation_date = old.creation_date
    for text, places in extracted().items():
        known = old.get(text)
        new.add(text, known.string if known else "", locations=[(place, 0) for place in places])
    return new


def po(catalog: Catalog) -> bytes:
    """Return a catalog as the text of a ``.po`` file."""
    out = io.BytesIO()
    write_po(out, catalog, width=110, omit_header=False, include_lineno=False)
    return out.getvalue()


def mo(catalog: Catalog) -> bytes:
    """Return a catalog compiled."""
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def main() -> int:
    """Update and compile all catalogs; return 1 when a text has no translation."""
    missing = 0
    for path in sorted(LOCALE.glob("*/memfin.po")):
        catalog = updated(path)
        path.write_bytes(po(catalog))
        path.with_suffix(".mo").write_bytes(mo(catalog))
        for message in catalog:
            if message.id and not message.string:
                missing += 1
                print(f"{path.parent.name}: not translated: {message.id}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
