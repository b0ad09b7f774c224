"""Agreement of detectors and judges with labelled replies; pure measures (spec section 8)."""

from memfin.validity.found import Found, found_by_detectors, found_by_judge
from memfin.validity.gates import failed_gates
from memfin.validity.tally import Place, ValidityTally

__all__ = ["Found", "Place", "ValidityTally", "failed_gates", "found_by_detectors", "found_by_judge"]
