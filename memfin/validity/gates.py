"""Gates on a validity report: thresholds on its values by name, such as ``risk_tags.micro_f1``."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from memfin.contracts import BinaryScores, ValidityReport
from memfin.errors import UsageError
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.risk import canonical_risk_tag
from memfin.validity.stats import LABELS

_BINARY: Final = ("precision", "recall", "f1", "accuracy", "kappa")
_WHOLE: Final[Mapping[str, tuple[str, ...]]] = {
    "risk_tags": ("micro_f1", "micro_precision", "micro_recall", "macro_f1"),
    "contradiction": _BINARY,
    "compliance": ("accuracy", "macro_f1", "kappa"),
    "forbidden": ("f1", "precision", "recall", "macro_f1"),
    "rubric": ("accuracy", "macro_f1"),
}
_PARTS: Final[Mapping[str, str]] = {
    "risk_tags": "by_tag",
    "compliance": "by_label",
    "forbidden": "by_category",
    "rubric": "by_item",
}

SHAPE: Final = "expected NAME=number, such as risk_tags.micro_f1=0.9"


def parse_gate(text: str) -> tuple[str, float]:
    """Return the name and the threshold of ``NAME=X``.

    Raises:
        UsageError: the text has another form, or the name is that of no value.
    """
    name, _, number = text.rpartition("=")
    name = name.strip()
    try:
        threshold = float(number)
    except ValueError:
        threshold = float("nan")
    if not name or not -1 <= threshold <= 1:
        raise UsageError(f"--fail-under {text!r}: {SHAPE}, of -1 to 1")
    check_gate(name)
    return name, threshold


def check_gate(name: str) -> None:
    """Raise `UsageError` unless a report can hold a value of that name."""
    section, _, rest = name.partition(".")
    if section not in _WHOLE:
        raise UsageError(f"--fail-under: unknown value {name!r}; values begin with {', '.join(_WHOLE)}")
    part = _PARTS.get(section)
    if rest in _WHOLE[section]:
        return
    inner, _, value = rest.removeprefix(f"{part}.").rpartition(".")
    if part is not None and rest.startswith(f"{part}.") and value in _BINARY and _known(section, inner):
        return
    known = [f"{section}.{each}" for each in _WHOLE[section]]
    if part is not None:
        known.append(f"{section}.{part}.NAME. with {', '.join(_BINARY)}")
    raise UsageError(f"--fail-under: unknown value {name!r}; known: {', '.join(known)}")


def failed_gates(report: ValidityReport, gates: Mapping[str, float]) -> list[str]:
    """Return one line per missed threshold; a value that was not measured misses all.

    Raises:
        UsageError: a report holds no value of a name.
    """
    for name in gates:
        check_gate(name)
    values = dict(_values(report))
    problems = []
    for name, threshold in gates.items():
        value = values.get(name)
        if value is None:
            problems.append(f"--fail-under {name}={threshold:g}: the value was not measured")
        elif value < threshold:
            problems.append(f"--fail-under {name}={threshold:g}: the value is {value:.6g}")
    return problems


def _known(section: str, name: str) -> bool:
    if section == "risk_tags":
        return canonical_risk_tag(name) == name
    if section == "compliance":
        return name in LABELS
    return name in CATEGORIES if section == "forbidden" else bool(name)


def _values(report: ValidityReport) -> Iterator[tuple[str, float | None]]:
    for section, names in _WHOLE.items():
        scores: Any = report[section]
        if scores is None:
            continue
        yield from ((f"{section}.{name}", scores[name]) for name in names)
        part = _PARTS.get(section)
        parts: Mapping[str, BinaryScores] = scores[part] if part is not None else {}
        for inner, binary in parts.items():
            yield from ((f"{section}.{part}.{inner}.{name}", binary[name]) for name in _BINARY)
