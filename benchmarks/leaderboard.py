"""The table of docs/leaderboard.md: agents with and without memory on the shipped clients.

    python benchmarks/leaderboard.py                       all agents, the table on standard output
    python benchmarks/leaderboard.py --only echo,oracle    some of them
    python benchmarks/leaderboard.py --write               the table goes into both pages

Each agent is run by ``memfin run`` in a process of its own, and its figures are read from the run's rows. An
agent that does not run, such as one whose library is not installed, has its reason in the place of figures.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.memory_model import served
from memfin.contracts.ledger import FactReading, ProbeReading
from memfin.dataset import CLIENTS

HERE: Final = Path(__file__).parent
DOCS: Final = HERE.parent / "docs"
PAGES: Final = {"en": DOCS / "leaderboard.md", "zh": DOCS / "zh" / "leaderboard.md"}
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
LIBRARY: Final = (
    "openai:rules --agent-system none --probe-fork session --workers-dialog 1"
    " --fail-on-error 0 --agent-memory"
)
AGENTS: Final = {
    "echo": "echo",
    "oracle": "oracle",
    "builtin": "builtin",
    "EveryWord": "memory_agents:EveryWord",
    "Window": "memory_agents:Window",
    "Bm25": "memory_agents:Bm25",
    "DoNothing": "memory_agents:DoNothing",
    "AlwaysRefusing": "memory_agents:AlwaysRefusing",
    "mem0": f"{LIBRARY} memory_libraries:mem0",
    "LangMem": f"{LIBRARY} memory_libraries:LangMem",
}
HEADS: Final = {
    "en": "agent,used,stale,foreign,revoked,planted,abstained,probed right,same,1 later,2 later,3+ later",
    "zh": "智能体,使用,过时,他人,撤回,植入,弃答,探测正确,同一会话,隔 1 次,隔 2 次,隔 3 次及以上",
}
DISTANCES: Final = 4


class Row(msgspec.Struct):
    """What the table needs of a row of turn_eval.jsonl."""

    facts: list[FactReading] = []
    probes: list[ProbeReading] = []


def share(values: Iterable[bool]) -> str:
    """Return the share of true values with their number, a dash for none."""
    given = [*values]
    return f"{sum(given) / len(given):.3f} ({len(given)})" if given else "-"


def figures(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the cells of an agent's line, in the order of the heads."""
    rows = [*rows]
    facts = [fact for row in rows for fact in row.facts]
    probes = [probe for row in rows for probe in row.probes]
    yield share(fact.used for fact in facts if fact.needed and fact.state in {"active", "foreign"})
    for states in ({"updated"}, {"foreign"}, {"withdrawn", "expired"}, {"planted"}):
        # Somebody else's value is right where the turn needs it: then no stage is to blame.
        wrong = [fact.used for fact in facts if fact.state in states and fact.stage is not None]
        yield str(sum(wrong)) if facts else "-"
    yield share(fact.abstained for fact in facts if fact.needed and fact.state in {"withdrawn", "expired"})
    yield share(probe.correct for probe in probes)
    for far in range(DISTANCES):
        yield share(
            probe.correct
            for probe in probes
            if probe.sessions is not None and min(probe.sessions, DISTANCES - 1) == far
        )


def run(agent: str, clients: Path, directory: Path, url: str) -> list[str]:
    """Return the cells of an agent's line, or the reason for there being none; ``url`` is the model's."""
    command = [
        sys.executable, "-m", "memfin", "run", str(clients), "--quiet",
        "--runs-dir", str(directory), "--run-id", "run", "--agent", *agent.split(),
    ]  # fmt: skip
    settings = {
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]),
        "MEMFIN_AGENT_BASE_URL": url,
        "MEM0_TELEMETRY": "False",
        "OPENROUTER_API_KEY": "",  # mem0 would send everything there
        "MEM0_DIR": str(directory / "mem0"),
    }
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return [(done.stderr.strip().splitlines() or ["no output"])[-1].replace("|", "/")]
    decoder = msgspec.json.Decoder(Row)
    rows = (directory / "run" / "turn_eval.jsonl").read_bytes().splitlines()
    return [*figures(decoder.decode(row) for row in rows)]


def table(lines: dict[str, list[str]], language: str) -> str:
    """Return the lines as a table in Markdown."""
    heads = HEADS[language].split(",")
    out = [heads, ["---"] * len(heads)]
    for name, cells in lines.items():
        out.append([f"`{name}`", *cells, *[""] * (len(heads) - 1 - len(cells))])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in out)


def main() -> None:
    """Run the agents and show or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(AGENTS), help="names of agents, separated by commas")
    parser.add_argument("--dataset", type=Path, default=CLIENTS)
    parser.add_argument("--write", action="store_true", help="put the table into the pages")
    options = parser.parse_args()
    lines: dict[str, list[str]] = {}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as directory, served() as url:
            lines[name] = run(AGENTS[name], options.dataset, Path(directory), url)
    for language, page in PAGES.items():
        made = table(lines, language)
        if not options.write:
            sys.stdout.write(made + "\n")
            continue
        before, _, rest = page.read_text("utf-8").partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
