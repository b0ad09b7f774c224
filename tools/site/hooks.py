"""MkDocs hooks of the documentation site: pages in two languages, and pages from other folders.

Pages are written for readers of the repository, where Chinese ones are in ``docs/zh`` and links lead to
files. The site has one tree for each language, with the same addresses.
"""

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any, Final

from markdown.extensions.toc import unique  # type: ignore[import-untyped]
from mkdocs.structure.files import File  # type: ignore[import-not-found]
from pymdownx.slugs import slugify  # type: ignore[import-not-found]

ROOT: Final = Path(__file__).resolve().parents[2]
ELSEWHERE: Final = {
    "readme.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "dataset-sample.md": "memfin/data/datasets/README.md",
    "benchmark-sample.md": "memfin/data/rag/README.md",
}
"""Pages whose source is outside of ``docs``."""
CHINESE: Final = {"readme.md": "README.zh-CN.md"}
API: Final = """# Public names

Signatures and docstrings of what `import memfin` gives, made from the source at each build.
[Python API](python-api.md) has an example for each, and the functions of the other modules.

::: memfin
    options:
      members: {names}
"""
_FENCE: Final = r"^(?P<fence>`{3,}).*?^(?P=fence) *$"
_LINK: Final = re.compile(
    _FENCE + r"|`[^`\n]*`|\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)]*)?\)",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(_FENCE + r"|^(?P<level>#+) (?P<title>[^\n]+)$", re.MULTILINE | re.DOTALL)
_SWITCH: Final = re.compile(r"\A(# .+\n)\n\[(?:English|中文)\]\([^)]*\)\n")
_slug: Final = slugify(case="lower")


def on_config(config: Any) -> None:
    """List every decision in the navigation, and name its sections in the language of the site."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("*.md"))
    config.nav[-1] = {"Decisions": [f"adr/{name}" for name in decisions]}
    config.nav = _named(config.nav, config.extra.get("sections", {}))


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that come from other folders."""
    notebooks = [f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")]
    for uri in (*ELSEWHERE, *notebooks, "api.md"):
        files.append(File.generated(config, uri, content=""))
    return files


def on_page_read_source(page: Any, config: Any) -> str:
    """Read the page in the language of the site, or in English with a note."""
    uri = page.file.src_uri
    if uri == "api.md":
        tree = ast.parse((ROOT / "memfin" / "__init__.py").read_text("utf-8"))
        listed = (ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign))
        names = next(text for text in listed if text.startswith("__all__ = ")).removeprefix("__all__ = ")
        names = names.replace("'__version__', ", "")
        return _noted(API.format(names=names), config)
    source = _source(uri, config)
    text = _markdown(source)
    if not _is_chinese(config):
        return text
    english = ROOT / _english(uri)
    return _noted(text, config) if source == english else _with_anchors(text, _markdown(english))


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Lead links to pages of the site, and take away the link to the other language."""
    folder = _source(page.file.src_uri, config).relative_to(ROOT).parent
    pages = {
        posixpath.normpath(str(path)): uri
        for uri in (file.src_uri for file in files.documentation_pages())
        for path in (_english(uri), _source(uri, config).relative_to(ROOT))
    }

    def lead(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0]
        path = posixpath.normpath(posixpath.join(str(folder), match["target"]))
        uri = pages.get(path) or path.removeprefix("docs/")
        if uri.startswith("zh/"):  # the other site, which this build does not know
            return f'<a href="{uri.replace(".md", ".html")}">{match["text"]}</a>'
        if not path.startswith("docs/") and path not in pages:  # a file that the site has not
            return f"{match['text']} (`{path}`)"
        start = posixpath.dirname(page.file.src_uri) or "."
        text = match["text"]
        if re.fullmatch(r"[\w-]+\.md", text):
            text = _source(uri, config).read_text("utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{text}]({posixpath.relpath(uri, start)}{match['anchor'] or ''})"

    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    return _LINK.sub(lead, _SWITCH.sub(r"\1", markdown))


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Lead the language switch to the same page."""
    return _switched(output, page.file.dest_uri, config)


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """Lead the language switch of the page for unknown addresses to the start page."""
    del template_name
    return _switched(output_content, "index.html", config)


def _switched(output: str, here: str, config: Any) -> str:
    top = "../" * here.count("/")
    for language, other in {"en": "../", "zh": "zh/"}.items():
        is_own = language == config.theme["language"]
        output = output.replace(f"https://{language}.invalid/", top + ("" if is_own else other) + here)
    return output


def _is_chinese(config: Any) -> bool:
    return bool(config.theme["language"] == "zh")


def _english(uri: str) -> str:
    notebook = f"docs/{uri}".replace(".md", ".ipynb")
    return ELSEWHERE.get(uri) or (notebook if (ROOT / notebook).exists() else f"docs/{uri}")


def _source(uri: str, config: Any) -> Path:
    english = _english(uri)
    chinese = CHINESE.get(uri) or english.replace("docs/", "docs/zh/", 1)
    return ROOT / (chinese if _is_chinese(config) and (ROOT / chinese).exists() else english)


def _named(nav: Any, names: dict[str, str]) -> Any:
    if isinstance(nav, list):
        return [_named(entry, names) for entry in nav]
    if isinstance(nav, dict):
        return {names.get(name, name): _named(value, names) for name, value in nav.items()}
    return nav


def _noted(text: str, config: Any) -> str:
    note = config.extra["note"]
    return re.sub(r"\A(# .+\n)", rf'\1\n!!! note ""\n    {note}\n', text) if note else text


def _markdown(source: Path) -> str:
    """Return a page's text; a notebook's cells with their outputs."""
    text = source.read_text("utf-8")
    if source.suffix != ".ipynb":
        return text
    parts = []
    for cell in json.loads(text)["cells"]:
        body = "".join(cell["source"])
        parts.append(body if cell["cell_type"] == "markdown" else f"```python\n{body}\n```")
        for output in cell.get("outputs", ()):
            shown = "".join(output.get("text") or output["data"]["text/plain"]).rstrip("\n")
            parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(parts)


def _with_anchors(chinese: str, english: str) -> str:
    """Give the headings of a translation the anchors of the original too, which links of other pages name."""
    taken: set[str] = set()
    titles = (match["title"] for match in _HEADING.finditer(english) if match["title"])
    anchors = (unique(_slug(re.sub(r"[`*]|\]\(.*?\)", "", title), "-"), taken) for title in titles)

    def anchored(match: re.Match[str]) -> str:
        anchor = next(anchors, None) if match["title"] else None
        own = _slug(match["title"] or "", "-")
        return f'{match[0]} <a id="{anchor}"></a>' if anchor not in (None, own) else match[0]

    return _HEADING.sub(anchored, chinese)
