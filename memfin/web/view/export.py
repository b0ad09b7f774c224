"""Static export of the viewer: the same pages as files that open without a server."""

import hashlib
import json
import posixpath
import re
import sqlite3
from collections.abc import Callable
from functools import partial
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from memfin.errors import MemfinError, RunFault, UsageError
from memfin.language import Language, use_language
from memfin.version import __version__
from memfin.web.pages import Refusal, not_found
from memfin.web.view.application import ASSETS, asset_text, page_routes, problem_words, render
from memfin.web.view.index import Indexes
from memfin.web.view.serving import catalog_of
from memfin.web.view.views import Views

MARKER: Final = "memfin-view.json"
"""File by which an export is recognised, and replaced by the next one."""

_PLAIN: Final = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)\Z)[a-z0-9_][a-z0-9_-]{0,63}")
_FORM: Final = re.compile(r"<form\b.*?</form>", re.DOTALL)
_ANCHOR: Final = re.compile(r"<a\b.*?</a>", re.DOTALL)
_LIVE: Final = re.compile(r"""\s(?:data-)?(?:hx|sse)-[\w:.-]+=(?:"[^"]*"|'[^']*')""")
_LINK: Final = re.compile(r'\s(href|src)="([^"]*)"')
_TURNS: Final = re.compile(r"(/runs/[^/]+)/turns")
_COMPARED: Final = ("a", "b")
"""Fields that name the runs of a comparison, and filter nothing."""


class Export(NamedTuple):
    """Numbers of an export: pages, bytes of all files, and what pages of failures say, by their paths."""

    pages: int
    size: int
    problems: dict[str, str]


class _Address(NamedTuple):
    path: str
    query: str = ""


def export_pages(
    runs: Path, out: Path, language: Language = "en", on_page: Callable[[int, int], None] = lambda *_: None
) -> Export:
    """Write the pages of runs into a directory, which is new, empty or an earlier export.

    The files are written beside it and take its place at the end: until then it stays as it was.

    ``runs`` is the directory of runs or that of a single one; ``on_page`` is called after each page with the
    numbers of pages written and known so far.

    Raises:
        UsageError: there are no such runs, or the directory holds something else.
        RunFault: the file system refuses, or an index cannot be built.
    """
    catalog, start = catalog_of(runs)
    place = out.resolve()
    if runs.resolve().is_relative_to(place):
        raise UsageError(f"--export {out}: the runs are inside; name another directory")
    if place.exists() and not place.is_dir():
        raise UsageError(f"--export {out}: not a directory")
    if place.exists() and not (place / MARKER).is_file() and any(place.iterdir()):
        raise UsageError(f"--export {out}: has files that are no export; name a new or empty directory")
    if not place.parent.is_dir():
        raise UsageError(f"--export {out}: there is no directory {place.parent}")
    try:
        with (
            TemporaryDirectory(prefix="memfin-view-") as spare,
            TemporaryDirectory(
                prefix=f".{place.name}.", dir=place.parent, ignore_cleanup_errors=True
            ) as beside,
            use_language(language),
        ):
            site = _Site(Views(catalog, Indexes(Path(spare))), _Address(start), Path(beside, "new"))
            exported = site.write(on_page)
            replace_directory(place, Path(beside))
    except (OSError, sqlite3.Error) as problem:
        raise RunFault(f"export in {out}: {getattr(problem, 'strerror', None) or problem}") from problem
    return exported


def replace_directory(out: Path, beside: Path) -> None:
    """Put the directory ``new`` of another in the place of ``out``, which comes back if that fails."""
    exists = out.exists()
    if exists:
        out.rename(beside / "old")
    try:
        (beside / "new").rename(out)
    except BaseException:
        if exists:
            (beside / "old").rename(out)
        raise


class _Site:
    """Crawl of the pages from the first one; each is written once, with links to the files of others."""

    def __init__(self, views: Views, start: _Address, out: Path) -> None:
        self._routes = [
            (re.compile(re.sub(r"\{(\w+)[^}]*\}", r"(?P<\1>[^/]+)", path)), view)
            for path, view in page_routes(views)
        ]
        self._out = out
        self._files = {start: "index.html"}
        self._waiting = [start]
        self._problems: dict[str, str] = {}

    def write(self, on_page: Callable[[int, int], None]) -> Export:
        size = pages = 0
        while self._waiting:
            here = self._waiting.pop()  # the last link first: one page of a list after the other
            if (name := self._files[here]) in ASSETS:
                size += self._save(name, asset_text(name))
                continue
            text = _LIVE.sub("", _FORM.sub(lambda form: "".join(_ANCHOR.findall(form[0])), self._page(here)))
            size += self._save(self._files[here], _LINK.sub(partial(self._link, here), text))
            pages += 1
            on_page(pages, len(self._files))
        size += self._save(MARKER, json.dumps({"memfin_version": __version__, "pages": pages}) + "\n")
        return Export(pages, size, self._problems)

    def _save(self, name: str, text: str) -> int:
        path = self._out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.write_bytes(text.encode())

    def _page(self, here: _Address) -> str:
        try:
            for pattern, view in self._routes:
                if found := pattern.fullmatch(here.path):
                    fields = {name: unquote(value) for name, value in found.groupdict().items()}
                    return render(*view(dict(parse_qsl(here.query)), **fields), None)
            raise not_found()
        except (Refusal, MemfinError) as problem:
            words = self._problems[here.path] = problem_words(problem)
            return render("problem", {"words": words}, None)

    def _link(self, here: _Address, link: re.Match[str]) -> str:
        """Return an attribute with the file that it leads to; nothing for what only a server can answer."""
        parts = urlsplit(unescape(link[2]))
        target = here if link[2].startswith("#") else self._target(here, parts.path, parts.query)
        if parts.scheme or parts.netloc or target is None:
            return ""
        if target not in self._files:
            self._files[target] = _file(target)
            self._waiting.append(target)
        folder = posixpath.dirname(self._files[here])
        file = "" if link[2].startswith("#") else posixpath.relpath(self._files[target], folder)
        return f' {link[1]}="{escape(file + (parts.fragment and "#" + parts.fragment))}"'

    def _target(self, here: _Address, path: str, query: str) -> _Address | None:
        """Return the page that a link leads to, None for combined filters and for what is no page.

        Dialogues are the same under all filters, and the turns of a run without one are on its page.
        """
        path = path or here.path
        if path.removeprefix("/") in ASSETS:
            return _Address(path)
        if not any(pattern.fullmatch(path) for pattern, _ in self._routes):
            return None
        fields = {name: value for name, value in parse_qsl(query) if (name, value) != ("page", "1")}
        if "/dialogs/" in path:
            fields = {name: value for name, value in fields.items() if name in _COMPARED}
        filters = fields.keys() - {"page", *_COMPARED}
        if "q" in filters or len(filters) > 1:
            return None
        if (turns := _TURNS.fullmatch(path)) and not filters:
            path = turns[1]
        return _Address(path, urlencode(sorted(fields.items())))


def _file(address: _Address) -> str:
    """Return the path of the file of a page, one that case-insensitive disks and Windows tell apart, too."""
    name = address.path.removeprefix("/")
    if name in ASSETS:
        return name
    *folders, last = (name or "runs").split("/")
    if address.query:
        last += f"?{address.query}"
    return "/".join(map(_name, (*folders, last))) + ".html"


def _name(text: str) -> str:
    """Return a plain name as it is, and another one shortened and with a hash behind ``~``."""
    if _PLAIN.fullmatch(text):
        return text
    words = re.sub(r"[^a-z0-9]+", "-", unquote(text).lower())[:40].strip("-")
    return f"{words}~{hashlib.sha256(text.encode()).hexdigest()[:24]}"
