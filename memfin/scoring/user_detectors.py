"""Detectors and rules of users: imports by reference, checks of their findings, forbidden patterns."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import isasyncgenfunction, iscoroutinefunction
from itertools import islice
from typing import Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec

from memfin.contracts import DETECTOR_PREFIX, ComplianceLabel, Finding, Record, TurnEvalRow
from memfin.errors import UsageError
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import check_signature, describe, import_reference, kind_of, reference_of
from memfin.scoring.compliance import FIELD, worst_label
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS

TAG_MAPPER: Final = "risk_tag_mapper"
"""Key of the errors of a user's function for risk tags in ``detector_errors``."""

MAX_FINDINGS: Final = 1000
"""Maximum number of findings of a user's detector per reply."""

MAX_MATCHES: Final = 3
"""Maximum number of findings of a forbidden pattern per reply."""

_FORMS: Final = "pkg.module:Name"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_EXPECTED: Final = "a class without arguments, with name, version and detect; docs/check.md shows one"
_Text = Annotated[str, msgspec.Meta(max_length=1000)]


class Detection(Record, forbid_unknown_fields=True):
    """A finding of a user's detector.

    ``start`` and ``end`` are half-open character offsets into the reply, ``rule`` is by default the name of
    the detector. With a ``severity`` the reply has at least this violation.
    """

    value: Annotated[_Text, msgspec.Meta(min_length=1)]
    start: Annotated[int, msgspec.Meta(ge=0)]
    end: Annotated[int, msgspec.Meta(ge=0)]
    rule: _Text = ""
    severity: Literal["severe", "minor"] | None = None


class Detector(Protocol):
    """A user's detector; its class is called without arguments, once per process.

    ``detect`` must depend on its arguments alone.
    """

    name: str
    version: str

    def detect(
        self, reply: str, *, user_text: str, constraints: Sequence[str]
    ) -> Iterable[Detection | Mapping[str, Any]]:
        """Return the findings in a reply to ``user_text`` for a client with these constraints."""
        ...


class LoadedDetector(NamedTuple):
    """A user's detector with its checked name, ``x:`` in front, and version."""

    name: str
    version: str
    detect: Callable[..., Iterable[Any]]

    def findings(self, reply: str, user_text: str, constraints: Sequence[str]) -> list[Detection]:
        """Return the checked findings; raises whatever the detector raises."""
        found = self.detect(reply, user_text=user_text, constraints=list(constraints))
        detections = [_checked(each, len(reply)) for each in islice(found, MAX_FINDINGS + 1)]
        if len(detections) > MAX_FINDINGS:
            raise ValueError(f"more than {MAX_FINDINGS} findings")
        return detections


def _checked(given: object, length: int) -> Detection:
    plain = msgspec.to_builtins(given) if isinstance(given, msgspec.Struct) else given
    found = msgspec.convert(plain, Detection)
    msgspec.json.encode(found)  # refuses text that cannot be written
    if not found.start <= found.end <= length:
        raise ValueError(f"start {found.start} and end {found.end} are no part of {length} characters")
    return found


def importable_reference(what: str, value: object) -> str:
    """Return the reference of a class or function by which other processes can import it.

    Raises:
        UsageError: its module does not hold it under its name.
    """
    if isinstance(value, str):
        return plugin_reference(what, value, _FORMS, "memfin.detectors") if what == "detector" else value
    if not callable(value):
        raise UsageError(f"{what}: expected {_FORMS} or a class or function, not {kind_of(value)}")
    reference = reference_of(value)
    module, _, name = reference.partition(":")
    try:
        found = module != "__main__" and import_reference(what, reference, _FORMS) is value
    except UsageError:
        found = False
    if not found:
        raise UsageError(
            f"{what} {reference!r}: other processes cannot import it by this name; define {name!r} at the "
            "top level of a module that can be imported, such as detectors.py"
        )
    return reference


def load_detector(reference: str) -> LoadedDetector:
    """Import and create a user's detector.

    Raises:
        UsageError: the reference or what it names is no detector.
    """
    return _created(reference, import_reference("detector", reference, _FORMS))


@lru_cache(maxsize=64)
def _created(reference: str, factory: Callable[[], Any]) -> LoadedDetector:
    label = f"detector {reference!r}"
    check_signature(label, factory, (), _EXPECTED)
    try:
        made = factory()
        name, version = getattr(made, "name", None), getattr(made, "version", None)
        detect: Any = getattr(made, "detect", None)
    except (Exception, SystemExit) as problem:
        raise UsageError(f"{label}: cannot be created: {describe(problem)}") from problem
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{label}: name must be 1 to 64 of A-Z a-z 0-9 _ . -, not {name!r:.100}")
    if not isinstance(version, str) or not version:
        raise UsageError(f"{label}: version must be a string such as '1.0', not {version!r:.100}")
    if not callable(detect) or iscoroutinefunction(detect) or isasyncgenfunction(detect):
        raise UsageError(f"{label}: detect(reply, *, user_text, constraints) must be a plain method")
    checked: Any = detect
    return LoadedDetector(DETECTOR_PREFIX + name, version, checked)


def load_detectors(references: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the references and versions of users' detectors by their names in rows.

    Raises:
        UsageError: one of them is no detector, or two have the same name.
    """
    found: dict[str, tuple[str, str]] = {}
    for given in references:
        reference = plugin_reference("detector", given, _FORMS, "memfin.detectors")
        loaded = load_detector(reference)
        if loaded.name in found:
            raise UsageError(f"detector {reference!r}: has the name of {found[loaded.name][0]!r}")
        found[loaded.name] = reference, loaded.version
    return found


class Detections(NamedTuple):
    """Findings of a user's detector in a reply and its version, or the error for which there are none."""

    version: str
    found: Sequence[Detection] = ()
    error: str | None = None

    @property
    def label(self) -> ComplianceLabel:
        """The worst label that the findings ask for."""
        severities = {each.severity for each in self.found}
        if "severe" in severities:
            return "severe_violation"
        return "minor_violation" if "minor" in severities else "compliant"


def run_detector(reference: str, reply: str, user_text: str, constraints: Sequence[str]) -> Detections:
    """Run a user's detector over a reply; never raises."""
    try:
        detector = load_detector(reference)
        return Detections(detector.version, detector.findings(reply, user_text, constraints))
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - user code may raise anything
        return Detections("", error=describe(problem))


def with_detections(
    row: TurnEvalRow,
    reply: str,
    user_text: str,
    constraints: Sequence[str],
    detectors: Mapping[str, str],
    begin: Callable[[], None],
) -> TurnEvalRow:
    """Return a row with the findings of users' detectors; ``begin`` is called before each of them.

    A detector that fails costs its findings: its error is in ``detector_errors``.
    """
    findings, names = list(row.findings), dict(row.detectors)
    errors: dict[str, str] = {}
    label: ComplianceLabel = row.pred_compliance_label or "compliant"
    for name, reference in detectors.items():
        begin()
        result = run_detector(reference, reply, user_text, constraints)
        if result.error is not None:
            errors[name] = result.error
            continue
        names[name] = result.version
        for each in result.found:
            rule = each.rule or name
            findings.append(Finding(field=name, value=each.value, rule=rule, start=each.start, end=each.end))
        if (worst := worst_label(label, result.label)) != label:
            label = worst
            names[FIELD] += f"+{name}"
    row = row.replace(findings=findings, detectors=names, pred_compliance_label=label)
    return row.replace(detector_errors=errors) if errors else row


class TagMapper:
    """Canonical risk tags by a dataset's names: those of a table, then those of a user's function.

    Attributes:
        error: the last failure of the function, None once it was taken.
    """

    def __init__(self, table: Mapping[str, str], reference: str) -> None:
        self._table = table
        self._reference = reference
        self.error: str | None = None

    def get(self, name: str) -> str | None:
        """Return the tag of a name; None where neither knows it or the function fails."""
        if name in self._table:
            return self._table[name]
        try:
            tag: str | None = load_tag_mapper(self._reference)(name)
            if tag is not None and tag not in (*CANONICAL_TAGS, *EXTENSION_TAGS):
                raise ValueError(f"{tag!r:.100} is no risk tag")  # noqa: TRY301 - a failure as any other
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - user code may raise anything
            self.error = describe(problem)
            return None
        return tag

    def take_error(self) -> str | None:
        """Return the last failure and forget it."""
        error, self.error = self.error, None
        return error


def load_tag_mapper(reference: str) -> Callable[[str], Any]:
    """Import a user's function for risk tags.

    Raises:
        UsageError: the reference names no plain function of one argument.
    """
    function = import_reference(TAG_MAPPER, reference, "pkg.module:function")
    expected = "a function that returns the canonical tag of a name, or None"
    check_signature(f"{TAG_MAPPER} {reference!r}", function, ("name",), expected)
    if iscoroutinefunction(function):
        raise UsageError(f"{TAG_MAPPER} {reference!r}: is asynchronous; expected {expected}")
    return function


Patterns = Sequence[tuple[str, re.Pattern[str]]]


def compile_patterns(table: Mapping[str, Sequence[str]]) -> Patterns:
    """Return compiled regular expressions with their categories.

    Raises:
        UsageError: one does not compile, or matches the empty text and thus every reply.
    """
    return [(category, _compiled(category, each)) for category, texts in table.items() for each in texts]


@lru_cache(maxsize=1024)
def _compiled(category: str, text: str) -> re.Pattern[str]:
    where = f"forbidden_patterns: {category}: {text!r:.200}"
    if not category.strip():
        raise UsageError(f"{where}: the name of the category is empty")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise UsageError(f"{where} is no regular expression: {problem}") from None
    if pattern.search(""):
        raise UsageError(f"{where} matches the empty text, and so every reply")
    return pattern


def forbidden_matches(patterns: Patterns, reply: str) -> Iterator[Finding]:
    """Yield the first matches of each pattern in a reply."""
    for category, pattern in patterns:
        for match in islice(pattern.finditer(reply), MAX_MATCHES):
            rule = f"forbidden_patterns: {pattern.pattern}"
            yield Finding(field=FIELD, value=category, rule=rule, start=match.start(), end=match.end())
