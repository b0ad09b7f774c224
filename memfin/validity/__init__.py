"""Agreement of detectors and judges with labelled replies (spec section 8)."""

from memfin.validity.found import Found, found_by_detectors, found_by_judge
from memfin.validity.gates import failed_gates
from memfin.validity.stats import Place, ValidityStats

__all__ = ["Found", "Place", "ValidityStats", "failed_gates", "found_by_detectors", "found_by_judge"]
