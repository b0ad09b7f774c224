"""What asking and scoring cost: 10,000 questions of a benchmark against a system that answers at once.

Every measurement runs in a process of its own, so that peak memory is its own too, and beside a plain
asyncio floor: the same questions and answers with one JSON line each, nothing scored. Figures to look at
are milliseconds a question and ratios, not single absolute times.

    python benchmarks/rag.py            10,000 questions, a table on stdout
    python benchmarks/rag.py --quick    1,000 questions, for a first look
    python benchmarks/rag.py --check    exit 1 where a bound is not held
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

MOST_MS = 1.0
MOST_GROWTH_KIB = 1.0
MOST_RATIO = 1.3
"""The bounds that ``--check`` holds the figures to: milliseconds a question, KiB of peak memory for each
further question, and milliseconds at the largest over those at the smallest size; on a machine that does
nothing else."""

PEOPLE = ("赵明", "钱雨", "孙立", "李青", "周文", "吴航", "郑怡", "王拓")
PAGES = 8
LINES = 24


def fact(number: int) -> tuple[str, int]:
    """Return who paid how much, as the document says it on some page."""
    return PEOPLE[number % len(PEOPLE)], 1000 + 37 * (number % (PAGES * LINES))


def document() -> str:
    """Return a record of eight pages with a payment on every other line."""
    pages = []
    for page in range(1, PAGES + 1):
        lines = [f"<!-- page {page} -->"]
        for line in range(LINES):
            person, amount = fact((page - 1) * LINES + line)
            lines += [
                f"问：{person}第{line + 1}次付了多少钱？",
                f"答：那一次付了{amount}元，其余的都忘记了。",
            ]
        pages.append("\n".join(lines))
    return "\n".join(pages) + "\n"


def question(number: int) -> dict[str, Any]:
    """Return a question; the three types take turns."""
    person, amount = fact(number)
    page = number % (PAGES * LINES) // LINES + 1
    kind = ("fact_exact", "evidence_set", "conflict_gap")[number % 3]
    entry: dict[str, Any] = {
        "id": f"q{number:06}",
        "type": kind,
        "question": f"{person}那一次付了多少钱？（第{number}问）",
        "metadata": {"difficulty": "easy", "category": "monetary", "tags": ["金额", person]},
    }
    evidence = [{"page": page, "must_include": f"{amount}元"}]
    if kind == "fact_exact":
        return {**entry, "expected": {"amount_total": amount}, "required_evidence": evidence}
    if kind == "evidence_set":
        return {**entry, "expected": {"evidence_count_min": 1}, "required_evidence": evidence}
    return {
        **entry,
        "should_abstain": True,
        "required_quote": "都忘记了",
        "evidence_location": {"page": page},
    }


def write_benchmark(path: Path, size: int) -> None:
    """Write a benchmark with its document; 1,000 questions a file."""
    (path / "questions").mkdir()
    (path / "record.md").write_text(document(), "utf-8")
    for start in range(0, size, 1000):
        questions = [question(number) for number in range(start, min(start + 1000, size))]
        content = {"document": "record.md", "questions": questions}
        name = path / "questions" / f"{start:06}.json"
        name.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


class AtOnce:
    """Answers at once, from the number of the question; right three times out of four."""

    async def query(self, question: str) -> dict[str, Any]:
        """Return the next answer."""
        number = int(question.rpartition("第")[2].removesuffix("问）"))
        person, amount = fact(number)
        page = number % (PAGES * LINES) // LINES + 1
        said = amount + number % 4 // 3
        words = f"那一次付了{amount}元"
        if number % 3 == 2:
            day = f"2021年3月{number % 28 + 1}日"
            return {
                "answer": f"{person}说其余的“都忘记了”，因此无法确定用途；日期是{day}。",
                "citation": [{"page": page, "quote": "其余的都忘记了"}],
            }
        return {
            "answer": f"根据第{page}页，{person}那一次付了{said}元，即{said / 10000:.4f}万元。",
            "evidence": [{"page": page, "text": words}, {"page": page, "text": "其余的都忘记了"}],
            "citation": [{"page": page, "quote": words}],
        }


class Terse:
    """Answers at once and in few words, so that asking and writing is most of what there is to do."""

    def __init__(self, document: object) -> None:
        """Take the document and leave it."""

    async def query(self, question: str) -> str:
        """Return an answer that is right by chance."""
        return f"{1000 + 37 * (len(question) % PAGES)}元"


def peak_mib() -> float:
    """Return this process's peak resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(size: int) -> dict[str, float]:
    """Run one benchmark and return wall seconds, without and with its reading, and peak memory."""
    import memfin  # noqa: PLC0415 - the floor must not pay for it

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark"
        path.mkdir()
        write_benchmark(path, size)
        warm = memfin.BenchmarkRunner(path, runs_dir=folder, run_id="warm", limit=3)
        warm.run_benchmark(AtOnce())
        start = time.perf_counter()
        runner = memfin.BenchmarkRunner(path, runs_dir=folder, run_id="bench", individual_results=False)
        summary = runner.run_benchmark(AtOnce())
        wall = time.perf_counter() - start
        assert summary.total_tests == size, "every question is asked"  # noqa: S101 - a figure of nothing
        assert 0 < summary.overall_percentage < 100, "answers are scored"  # noqa: S101 - as above
        stats = json.loads((Path(folder) / "bench" / "run_stats.json").read_bytes())
    return {"wall": wall, "run": stats["wall_seconds"], "peak": peak_mib()}


def floor(size: int) -> dict[str, float]:
    """Ask the same questions with plain asyncio tasks, one JSON line each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark"
        path.mkdir()
        write_benchmark(path, size)
        system = AtOnce()

        async def main() -> float:
            start = time.perf_counter()
            with (Path(folder) / "out").open("w", encoding="utf-8") as out:

                async def ask(entry: dict[str, Any]) -> None:
                    answer = await system.query(entry["question"])
                    out.write(json.dumps({"id": entry["id"], "answer": answer}, ensure_ascii=False) + "\n")

                for file in sorted((path / "questions").iterdir()):
                    questions = json.loads(file.read_text("utf-8"))["questions"]
                    await asyncio.gather(*(ask(entry) for entry in questions))
            return time.perf_counter() - start

        wall = asyncio.run(main())
    return {"wall": wall, "run": wall, "peak": peak_mib()}


def command(size: int) -> dict[str, float]:
    """Return the peak memory of ``memfin bench --json`` on a tenth of the questions, then on all of them.

    The second run is held against the first, and both write their reports.
    """
    from memfin.cli.main import memfin  # noqa: PLC0415 - the others must not pay for it

    peaks = []
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:  # noqa: PTH123 - no path
        before: list[str] = []
        for number in (size // 10, size):
            path = Path(folder) / f"benchmark-{number}"
            path.mkdir()
            write_benchmark(path, number)
            words = ["bench", str(path), "--rag", "rag:Terse", "--runs-dir", folder, "--run-id", f"r{number}"]
            with redirect_stdout(nowhere):
                memfin.main([*words, "--json", "--quiet", *before], standalone_mode=False)
            before = ["--fail-on-regression", f"{folder}/r{number}"]
            peaks.append(peak_mib())
    return {"tenth": peaks[0], "peak": peaks[1]}


KINDS = {"memfin": measure, "floor": floor, "command": command}


def in_process(kind: str, size: int) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    words = [sys.executable, __file__, "--one", kind, str(size)]
    result: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return result


def main() -> None:
    """Measure and print a table; with ``--check`` exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 questions")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, size = options.one
        print(json.dumps(KINDS[kind](int(size))))
        return
    missed = measure_all((250, 1000) if options.quick else (1000, 10_000))
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


def measure_all(sizes: tuple[int, int]) -> list[str]:
    """Print the table and return what is over its bound."""
    print(f"{'measurement':44} {'memfin':>12} {'run alone':>12} {'floor':>12} {'peak MiB':>9}")
    each: list[float] = []
    peaks: list[float] = []
    missed: list[str] = []
    for size in sizes:
        ours, plain = in_process("memfin", size), in_process("floor", size)
        each.append(ours["wall"] / size * 1000)
        peaks.append(ours["peak"])
        name = f"{size} questions, ms a question"
        alone, least = ours["run"] / size * 1000, plain["wall"] / size * 1000
        print(f"{name:44} {each[-1]:12.3f} {alone:12.3f} {least:12.3f} {ours['peak']:9.1f}")
        if each[-1] > MOST_MS:
            missed.append(f"{name}: {each[-1]:.3f}, at most {MOST_MS}")
    ratio = each[1] / each[0]
    print(f"{'most over fewest questions, ratio':44} {ratio:12.2f}")
    if ratio > MOST_RATIO:
        missed.append(f"cost a question grows with their number: {ratio:.2f}, at most {MOST_RATIO}")
    whole = in_process("command", sizes[1])
    for name, grown, further in (
        ("run", peaks[1] - peaks[0], sizes[1] - sizes[0]),
        ("command", whole["peak"] - whole["tenth"], sizes[1] - sizes[1] // 10),
    ):
        growth = grown * 1024 / further
        print(f"{f'{name}: peak memory a further question, KiB':44} {growth:12.2f}")
        if growth > MOST_GROWTH_KIB:
            missed.append(f"memory a question ({name}): {growth:.2f} KiB, at most {MOST_GROWTH_KIB}")
    return missed


if __name__ == "__main__":
    main()
