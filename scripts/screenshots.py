"""Make the pictures of the documentation: ``python -m scripts.screenshots`` writes docs/images/*.png.

It evaluates the built-in oracle, serves the run with ``memfin view``, and needs the browser of the tests.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.web.browsers import chromium

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
FILTER: Final = "failed=m4_compliance.severe_violation_rate"
PAGES: Final = {
    "view-turns": f"turns?{FILTER}",
    "view-dialogue": f"dialogs/en-boundary-sure-thing?{FILTER}#t3",
}


def main() -> None:
    """Write the pictures."""
    memfin = [sys.executable, "-m", "memfin"]
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = [*memfin, "run", "--agent", "oracle", "--runs-dir", folder, "--run-id", "example", "--quiet"]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        words = [*memfin, "view", folder, "--port", "0"]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server,  # noqa: S603 - ours
            chromium(Path(folder), javascript=True) as browser,
        ):
            try:
                url = server.stdout.readline().split()[-1] if server.stdout else ""
                browser.set_window_size(1280, 1000)
                for name, path in PAGES.items():
                    browser.get(f"{url}runs/example/{path}")
                    browser.save_screenshot(str(IMAGES / f"{name}.png"))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
