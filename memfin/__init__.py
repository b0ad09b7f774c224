"""MemFin: the evaluation runtime for financial-advice agents that remember.

``await memfin.evaluate("dialogs.jsonl", agent=MyAgent)`` replays a dataset against an agent and
returns the five metrics; ``python -m memfin run`` does the same from a shell. The names here are
the public API; `memfin.dataset`, `memfin.scoring`, `memfin.metrics`, `memfin.report` and
`memfin.runtime` hold the functions of the metrics contract.
"""

import importlib
from typing import TYPE_CHECKING, Final

from memfin.version import __version__

if TYPE_CHECKING:
    from memfin.agents.calls import TransportError
    from memfin.agents.protocol import Agent, AgentFactory, AgentReply, Observer, Session
    from memfin.contracts import Comparison, EvalSummary, MetricResult, RunConfig
    from memfin.dataset import DatasetSource
    from memfin.errors import GateFailed, MemfinError, RunFault, UsageError
    from memfin.metrics.custom import DialogMetric, Share, TurnMetric
    from memfin.results import Results, compare, read_run
    from memfin.runtime.api import Evaluation, evaluate
    from memfin.runtime.bench import BenchEvaluation, BenchmarkRunner
    from memfin.runtime.settings import Settings
    from memfin.scale.merge import merge_shards
    from memfin.scoring.user_detectors import Detection, Detector
    from memfin.validity.measurement import measure_validity

_PLACES: Final = {
    "Agent": "memfin.agents.protocol",
    "AgentFactory": "memfin.agents.protocol",
    "AgentReply": "memfin.agents.protocol",
    "BenchEvaluation": "memfin.runtime.bench",
    "BenchmarkRunner": "memfin.runtime.bench",
    "Comparison": "memfin.contracts",
    "DatasetSource": "memfin.dataset",
    "DialogMetric": "memfin.metrics.custom",
    "Detection": "memfin.scoring.user_detectors",
    "Detector": "memfin.scoring.user_detectors",
    "EvalSummary": "memfin.contracts",
    "Evaluation": "memfin.runtime.api",
    "GateFailed": "memfin.errors",
    "MemfinError": "memfin.errors",
    "MetricResult": "memfin.contracts",
    "Observer": "memfin.agents.protocol",
    "Results": "memfin.results",
    "RunConfig": "memfin.contracts",
    "RunFault": "memfin.errors",
    "Session": "memfin.agents.protocol",
    "Settings": "memfin.runtime.settings",
    "Share": "memfin.metrics.custom",
    "TransportError": "memfin.agents.calls",
    "TurnMetric": "memfin.metrics.custom",
    "UsageError": "memfin.errors",
    "compare": "memfin.results",
    "evaluate": "memfin.runtime.api",
    "measure_validity": "memfin.validity.measurement",
    "merge_shards": "memfin.scale.merge",
    "read_run": "memfin.results",
}
"""Modules of the public names, imported on first use, so that starting stays fast."""

__all__ = [
    "Agent",
    "AgentFactory",
    "AgentReply",
    "BenchEvaluation",
    "BenchmarkRunner",
    "Comparison",
    "DatasetSource",
    "Detection",
    "Detector",
    "DialogMetric",
    "EvalSummary",
    "Evaluation",
    "GateFailed",
    "MemfinError",
    "MetricResult",
    "Observer",
    "Results",
    "RunConfig",
    "RunFault",
    "Session",
    "Settings",
    "Share",
    "TransportError",
    "TurnMetric",
    "UsageError",
    "__version__",
    "compare",
    "evaluate",
    "measure_validity",
    "merge_shards",
    "read_run",
]


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if name not in _PLACES:
        raise AttributeError(f"module 'memfin' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
