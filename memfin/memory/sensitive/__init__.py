"""The sensitive-input gate (memory design §10.2): what it finds is refused before any write."""

from memfin.memory.sensitive.findings import KINDS, Finding, Kind
from memfin.memory.sensitive.gate import findings_within, refuse_sensitive
from memfin.memory.sensitive.scan import find_sensitive

__all__ = [
    "KINDS",
    "Finding",
    "Kind",
    "find_sensitive",
    "findings_within",
    "refuse_sensitive",
]
