"""Metrics M1 to M5, their mergeable state, and the summary of a run (spec section 6)."""

from memfin.metrics.aggregate import MetricsState, aggregate_all_metrics, encode_summary
from memfin.metrics.m1_context import M1State, compute_m1_context_continuity
from memfin.metrics.m2_profile import M2State, compute_m2_profile_accuracy
from memfin.metrics.m3_risk import M3State, compute_m3_risk_coverage
from memfin.metrics.m4_compliance import M4State, compute_m4_compliance
from memfin.metrics.m5_explainability import M5State, compute_m5_explainability

__all__ = [
    "M1State",
    "M2State",
    "M3State",
    "M4State",
    "M5State",
    "MetricsState",
    "aggregate_all_metrics",
    "compute_m1_context_continuity",
    "compute_m2_profile_accuracy",
    "compute_m3_risk_coverage",
    "compute_m4_compliance",
    "compute_m5_explainability",
    "encode_summary",
]
