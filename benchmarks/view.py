"""The viewer beside that of inspect_ai, on the same dialogues: time until a browser shows them, and memory.

    python -m benchmarks.view                1,000 dialogues of 13 turns
    python -m benchmarks.view --dialogs 100

A run of the pipeline's benchmark is exported as a log of inspect_ai, so that both servers show the same
texts. Each is asked for its list of dialogues and then for a dialogue, cold and again, in one browser. Needs
``pip install memfin[inspect] selenium psutil``, chromium and chromedriver; look at the ratios.
"""

import argparse
import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.common import WebDriverException

from benchmarks.pipeline import TURNS, ShortAgent, memory_mib, write_dataset
from memfin import evaluate

TIMEOUT = 120.0
LIST, DIALOG = "bench-0", "第2个问题"


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving(command: Sequence[str], port: int) -> Iterator[int]:
    """Run a server until it has been measured; yields its process id once it accepts connections."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + TIMEOUT
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()


def shown(browser: webdriver.Chrome, address: str, text: str) -> float:
    """Open an address and return the seconds until its page shows a text."""
    begun = time.monotonic()
    browser.get(address)
    while time.monotonic() < begun + TIMEOUT:
        try:
            if text in browser.execute_script("return document.body.innerText"):
                return time.monotonic() - begun
        except WebDriverException:
            pass  # the page is just being replaced
        time.sleep(0.02)
    raise SystemExit(f"{address}: does not show {text!r} after {TIMEOUT:.0f} s")


def measure(command: Sequence[str], port: int, pages: Sequence[tuple[str, str]]) -> list[str]:
    """Return the seconds of each page, cold and again, and the memory of the server afterwards."""
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    with serving(command, port) as pid:
        driver = webdriver.ChromeService(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=driver)
        try:
            times = []
            for path, text in pages:
                for _ in ("cold", "again"):
                    browser.get("about:blank")
                    times.append(f"{shown(browser, f'http://127.0.0.1:{port}{path}', text):.2f}")
            return [*times, f"{memory_mib(pid):.0f}"]
        finally:
            browser.quit()


def main() -> None:
    """Measure both viewers and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dialogs", type=int, default=1000)
    dialogs = parser.parse_args().dialogs
    with tempfile.TemporaryDirectory() as folder:
        dataset, logs = Path(folder, "dataset.jsonl"), Path(folder, "logs")
        write_dataset(dataset, dialogs, TURNS)
        asyncio.run(evaluate(dataset, agent=ShortAgent, runs_dir=Path(folder, "runs"), run_id="bench"))
        memfin = [sys.executable, "-m", "memfin"]
        run = Path(folder, "runs", "bench")
        subprocess.run(
            [*memfin, "export", str(run), "--to", "inspect", "--out", str(logs)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        ours, theirs = free_port(), free_port()
        rows = {
            "memfin view": measure(
                [*memfin, "view", str(run), "--port", str(ours)],
                ours,
                [("/runs/bench", LIST), ("/runs/bench/dialogs/bench-0", DIALOG)],
            ),
            "inspect view": measure(
                [sys.executable, "-m", "inspect_ai", "view", "--log-dir", str(logs), "--port", str(theirs)],
                theirs,
                [("/#/logs/bench.eval", LIST), ("/#/logs/bench.eval/samples/sample/bench-0/1", DIALOG)],
            ),
        }
    print(f"{dialogs} dialogues of {TURNS} turns, seconds until a browser shows them")
    print(f"{'':14}{'list':>8}{'again':>8}{'dialogue':>10}{'again':>8}{'MiB':>6}")
    for name, (first, second, third, fourth, memory) in rows.items():
        print(f"{name:14}{first:>8}{second:>8}{third:>10}{fourth:>8}{memory:>6}")


if __name__ == "__main__":
    main()
