"""Runs the notebooks of the documentation and compares their outputs: ``make test-notebook``.

``--write`` saves the outputs instead.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import nbformat  # type: ignore[import-not-found]
from nbclient import NotebookClient  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[1]


def shown(notebook: Any) -> list[list[str]]:
    """Return the text of the outputs of each cell."""
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", ())]
        for cell in notebook.cells
    ]


def main() -> int:
    """Run each notebook from top to bottom; fail on an exception or on other outputs than the file has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="save the outputs")
    write = parser.parse_args().write
    failed = 0
    for path in sorted((ROOT / "docs").glob("**/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        expected = shown(notebook)
        resources = {"metadata": {"path": str(ROOT)}}
        NotebookClient(notebook, timeout=60, coalesce_streams=True, resources=resources).execute()
        if write:
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)
            nbformat.write(notebook, path)
            continue
        for cell, before, now in zip(notebook.cells, expected, shown(notebook), strict=True):
            if before != now:
                failed += 1
                print(f"{path.relative_to(ROOT)}: other outputs of\n{cell.source}\n", file=sys.stderr)
                print("in the file:", *before, "now:", *now, sep="\n", file=sys.stderr)
        print(f"{path.relative_to(ROOT)}: {len(notebook.cells)} cells, {failed} with other outputs")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
