"""Persona drift: observed, never acted upon (memory design §4, §9).

Nothing in this package writes: detectors are functions of what is on file, and what they return is a
record for the drift log. No function here is given a profile, or returns anything that could become one.
"""

from memfin.memory.drift.detectors import (
    Signal,
    feedback_conflicts,
    grade_reversals,
    reopened_questions,
    stance_flips,
)
from memfin.memory.drift.keywords import jaccard, keywords
from memfin.memory.drift.log import DriftIndexLine, drift_record, index_line, unrecorded
from memfin.memory.drift.thresholds import Thresholds, load_thresholds
from memfin.memory.drift.warnings import TEXTS, DriftWarning, warnings_of

__all__ = [
    "TEXTS",
    "DriftIndexLine",
    "DriftWarning",
    "Signal",
    "Thresholds",
    "drift_record",
    "feedback_conflicts",
    "grade_reversals",
    "index_line",
    "jaccard",
    "keywords",
    "load_thresholds",
    "reopened_questions",
    "stance_flips",
    "unrecorded",
    "warnings_of",
]
