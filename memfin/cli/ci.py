"""Results for CI servers: a JUnit XML file, and annotations and the step summary of GitHub Actions."""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from memfin.cli.output import note
from memfin.contracts import RunConfig
from memfin.errors import GateFailed, MemfinError, RunFault, UsageError
from memfin.runtime.bench_gates import gate_texts
from memfin.runtime.gates import GatedValue
from memfin.sandbox.references import describe, one_line

SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"


class Case(NamedTuple):
    """A dialogue, a question or an epoch, with the reason why it failed or was skipped."""

    name: str
    seconds: float = 0.0
    failed: str | None = None
    skipped: str | None = None


class Outcome(NamedTuple):
    """Results of a complete run, benchmark or soak.

    ``failed_gates`` has a line per gate that did not pass; ``warning`` is about failed turns; ``kind`` is
    the class name of the cases.
    """

    run_id: str
    config: RunConfig
    dataset: str
    values: Mapping[str, GatedValue]
    failed_gates: Sequence[str]
    warning: str | None
    kind: str
    cases: Iterable[Case]

    def gates(self) -> dict[str, str | None]:
        """Return all gates by name, with the line of each that did not pass.

        A line that belongs to no option, such as that of a run without any answer, is its own name.
        """
        names = gate_texts(self.config)
        found: dict[str, str | None] = dict.fromkeys(names)
        for line in self.failed_gates:
            found[next((name for name in names if line.startswith(f"{name}: ")), line)] = line
        return found

    def figures(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the value and the interval of each headline value, fit to be shown."""
        for name, found in self.values.items():
            if ".macro." not in name:
                missing = found.not_measured is not None
                value = f"not measured: {found.not_measured}" if missing else f"{found.value:.6g}"
                bounds = None if missing else found.interval
                yield name, value, "" if bounds is None else f"{bounds[0]:.4g} to {bounds[1]:.4g}"


class CiOutput:
    """Writer of the results of one command; ``wanted`` is True if anything is to be written."""

    def __init__(self, junit: str | None, *, github: bool) -> None:
        """Prepare; nothing is written yet.

        Raises:
            UsageError: the JUnit file cannot be created.
        """
        self.wanted = junit is not None or github
        self._github = github
        self._junit = None if junit is None else Path(junit).absolute()
        self._shown = False
        if self._junit is not None:
            nearest = next(parent for parent in self._junit.parents if parent.exists())
            if self._junit.is_dir() or not os.access(nearest, os.W_OK) or not nearest.is_dir():
                raise UsageError(f"--junit {junit}: no file can be created there; name another file")

    def show_fault(self, problem: Exception) -> None:
        """Write that the command ended early, in place of the results unless they are written."""
        line = str(problem) if isinstance(problem, MemfinError | click.ClickException) else describe(problem)
        if self._github:
            _annotate("error", "memfin stopped", line)
        if not self._shown:
            with suppress(RunFault):  # the problem itself is reported
                self._write_junit("memfin", {}, [("command", Case("memfin", failed=line))], fault=True)

    def show(self, outcome: Outcome) -> None:
        """Write the JUnit file, the annotations and the step summary, as far as each is wanted.

        Raises:
            RunFault: the file system refused the JUnit file.
        """
        if not self.wanted:
            return
        self._shown = True
        if self._github:
            for line in outcome.failed_gates:
                _annotate("error", "Gate failed", line)
            if outcome.warning is not None:
                _annotate("warning", "Failed turns", outcome.warning)
            _append_summary(step_summary(outcome))
        about = {"run_id": outcome.run_id, "agent": outcome.config.agent, "dataset": outcome.dataset}
        properties = about | {name: value for name, value, _ in outcome.figures()}
        properties |= {f"{name}.ci95": interval for name, _, interval in outcome.figures() if interval}
        cases = [("gate", Case(name, failed=line)) for name, line in outcome.gates().items()]
        cases += [(outcome.kind, case) for case in outcome.cases] if self._junit is not None else []
        self._write_junit(outcome.run_id, properties, cases)

    def _write_junit(
        self, name: str, properties: Mapping[str, str], cases: Iterable[tuple[str, Case]], fault: bool = False
    ) -> None:
        if self._junit is None:
            return
        from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite  # noqa: PLC0415 - rare

        suite, xml, content, tests = TestSuite(one_line(name)), JUnitXml(), io.BytesIO(), []
        for key, value in properties.items():
            suite.add_property(key, one_line(value))
        for kind, case in cases:
            test = TestCase(one_line(case.name), f"memfin.{kind}", round(case.seconds, 3))
            if case.failed is not None:
                test.result = [(Error if fault else Failure)(one_line(case.failed), kind)]
            elif case.skipped is not None:
                test.result = [Skipped(one_line(case.skipped))]
            tests.append(test)
        suite.add_testcases(tests)
        xml.add_testsuite(suite)
        xml.write(content)
        try:
            self._junit.parent.mkdir(parents=True, exist_ok=True)
            self._junit.write_bytes(content.getvalue())
        except OSError as problem:
            raise RunFault(f"--junit {self._junit}: {problem.strerror or problem}") from problem


def with_ci(*, variables: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command ``--junit`` and ``--github``, and the argument ``ci``."""
    junit, github = (f"MEMFIN_{name}" if variables else None for name in ("JUNIT", "GITHUB"))
    results = "JUnit XML to write, with a test case per gate and per dialogue, question or epoch."
    marks = "Annotations of GitHub Actions for failed gates, faults and failed turns, and a step summary."

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--junit", type=click.Path(), envvar=junit, metavar="FILE", help=results)
        @click.option("--github", is_flag=True, envvar=github, help=marks)
        @wraps(command)
        def wrapped(*args: Any, junit: str | None, github: bool, **kwargs: Any) -> Any:
            ci = CiOutput(junit, github=github)
            try:
                return command(*args, ci=ci, **kwargs)
            except (GateFailed, click.exceptions.Exit):
                raise
            except Exception as problem:
                ci.show_fault(problem)
                raise

        return wrapped

    return decorate


def step_summary(outcome: Outcome) -> str:
    """Return the verdict, the gates, and the headline values with their intervals, as Markdown."""
    from memfin.report.render import escape_markdown  # noqa: PLC0415 - loads slowly

    def row(*cells: str) -> str:
        return f"| {' | '.join(escape_markdown(one_line(cell)) for cell in cells)} |"

    warning = "" if outcome.warning is None else f"; warning: {outcome.warning}"
    about = f"{outcome.config.agent} on {outcome.dataset}{warning}"
    gates = outcome.gates()
    failed = sum(line is not None for line in gates.values())
    verdict = (
        f"{failed} of {len(gates)} gates failed" if failed else f"{len(gates)} of {len(gates)} gates passed"
    )
    title = f"### MemFin: {escape_markdown(outcome.run_id)}: {verdict if gates else 'no gates'}"
    lines = [title, "", f"Agent: {escape_markdown(about)}", ""]
    lines += ["| Gate | Result |", "| --- | --- |"] if gates else []
    for name, line in gates.items():
        lines.append(row(name, "passed" if line is None else f"failed: {line.removeprefix(f'{name}: ')}"))
    lines += [""] if gates else []
    lines += ["| Value | | 95 % interval |", "| --- | ---: | ---: |"]
    lines += [row(*cells) for cells in outcome.figures()]
    return "\n".join([*lines, "", ""])


def _annotate(level: str, title: str, message: str) -> None:
    """Print a workflow command on stderr, which GitHub reads as it reads stdout; titles are ours."""
    escaped = one_line(message).replace("%", "%25")  # there are no line ends left
    click.echo(f"::{level} title={title}::{escaped}", err=True)


def _append_summary(text: str) -> None:
    path = os.environ.get(SUMMARY_VARIABLE) or os.devnull
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        note(f"warning: {SUMMARY_VARIABLE} {path}: {problem.strerror or problem}")
