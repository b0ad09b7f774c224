"""The sensitive-input gate (memory design §10.2): what it finds is refused before any write."""

from memfin.memory.sensitive.gate import find_sensitive, findings_within, refuse_sensitive
from memfin.memory.sensitive.text import KINDS, Finding, Kind

__all__ = ["KINDS", "Finding", "Kind", "find_sensitive", "findings_within", "refuse_sensitive"]
