"""Telemetry of the memory layer: counters, spans and log events, without users and content."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from opentelemetry import trace
from prometheus_client import CollectorRegistry, Counter

from memfin.contracts.memory import DriftRecord, SliceAttributes
from memfin.memory.records import Append, Put, Remove, RemoveTree, Step

_LOG: Final = logging.getLogger("memfin.memory")
_COMPONENT: Final = "agent.context_engine"
# The scopes of records that are no contexts, by their directory
_SCOPES: Final[Mapping[str, str]] = {
    "consents": "consent",
    "persona_drift": "drift",
    "training_candidates": "candidate",
    "threads": "thread_header",
    "feedback": "feedback",
    "hints": "hint",
}


class MemoryTelemetry:
    """Counters and spans of a memory store (memory design §5.2, §6.6, §8.2, §9.3, §11.4).

    Labels and attributes are names of closed sets, numbers and ids of records; never a person or a text.
    ``consent_id_ref`` of a span is the id of the person's consent; empty without one, and for a sweep, which
    removes contexts of many people.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, provider: trace.TracerProvider | None = None
    ) -> None:
        """Register the counters with ``registry``, a new one by default; spans go to ``provider``."""
        self.registry = registry if registry is not None else CollectorRegistry()
        self._tracer = trace.get_tracer("memfin.memory", tracer_provider=provider)
        self._operations = Counter(
            "memory_op", "Writes and deletions of the memory layer", ["op", "scope"], registry=self.registry
        )
        self._granted = Counter("profile_consent_granted", "Consents granted", registry=self.registry)
        self._steps = Counter("onboarding_step", "Steps of onboarding", ["step"], registry=self.registry)
        labels = ["signal_kind", "triggers_alert"]
        self._drifts = Counter("persona_drift", "Drift signals recorded", labels, registry=self.registry)

    def observer(self, root: Path) -> Callable[[Step, str], None]:
        """Return the observer of the write steps under a data root."""

        def observe(step: Step, consent_id: str) -> None:
            scope, slice_id = _scope_of(step.path.relative_to(root))
            record = step.record if isinstance(step, Put | Append) else None
            op = "delete" if isinstance(step, Remove | RemoveTree) else "write"
            self._operation(op, scope, slice_id, consent_id)
            if isinstance(record, DriftRecord):
                self._drifts.labels(record.signal_kind, str(record.triggers_alert).lower()).inc()
                with self._tracer.start_as_current_span("persona_drift_detected") as span:
                    span.set_attributes({"drift_id": record.drift_id, "signal_kind": record.signal_kind})
                    span.set_attribute("consent_id_ref", consent_id)

        return observe

    def expired(self, count: int) -> None:
        """Record the task contexts that a sweep removed."""
        if count:
            self._operation("delete", "task", "", "", count)

    def consent_granted(self, consent_id: str, version: int) -> None:
        """Record a consent granted, new or as a further version."""
        self._granted.inc()
        with self._tracer.start_as_current_span("profile_consent_grant") as span:
            span.set_attributes({"consent_id_ref": consent_id, "version": version})

    def onboarding_step(self, step: str) -> None:
        """Record a step of onboarding, one of a closed set of names."""
        self._steps.labels(step).inc()

    def context_built(self, attributes: SliceAttributes, consent_id: str) -> None:
        """Record the slices of a task's context, by name, and their tokens."""
        with self._tracer.start_as_current_span("context_built") as span:
            span.set_attributes({**msgspec.to_builtins(attributes), "consent_id_ref": consent_id})

    def _operation(self, op: str, scope: str, slice_id: str, consent_id: str, count: int = 1) -> None:
        self._operations.labels(op, scope).inc(count)
        event = f"memory_{op}"
        with self._tracer.start_as_current_span(event) as span:
            span.set_attributes({"scope": scope, "slice_id": slice_id, "consent_id_ref": consent_id})
        _LOG.info("%s", event, extra={"component": _COMPONENT, "scope": scope})


def _scope_of(path: Path) -> tuple[str, str]:
    """Return the scope of a path below the data root, and the id of the context that it names, if any."""
    tree, *rest = path.parts
    if tree == "user_contexts":
        scope = rest[1].strip("_") if len(rest) > 1 else "user"
        return scope, path.stem if path.suffix == ".json" and not path.name.startswith(".") else ""
    return _SCOPES.get(tree, "other"), ""
