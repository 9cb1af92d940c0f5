"""What Prometheus reads: requests, latency, decisions, denials, the guard's state and the age of the data."""

from __future__ import annotations

from collections import Counter as Counted
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pacesetter.serving.risk.guard import State

if TYPE_CHECKING:
    from pacesetter.serving.api.runtime import Runtime, RuntimeAnswer

__all__ = ["Metrics"]

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """A registry of its own, so that two applications in one process do not meet."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.registry = runtime, CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "pacesetter"}
        self.requests = Counter("requests", "Requests by route and status.", ("route", "status"), **options)
        self.seconds = Histogram("request_seconds", "Time of a request.", ("route",), buckets=SECONDS, **options)
        self.decisions = Counter("decisions", "Decisions by order.", ("order",), **options)
        self.denials = Gauge("denials", "Orders refused by the guard, by control.", ("control",), **options)
        self.state = Gauge("guard_state", "1 for the state the guard is in.", ("state",), **options)
        self.age = Gauge("data_age_seconds", "Age of the newest bar.", **options)
        self.model = Gauge("model", "The model that serves.", ("bundle", "sha256"), **options)
        # The value is in the labels; 1 is how Prometheus writes a fact.
        self.model.labels(runtime.bundle.name, runtime.bundle.model.sha256).set(1)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def count_decisions(self, answer: RuntimeAnswer) -> None:
        """Count the decisions of an answer."""
        for order, count in Counted(line.order for line in answer.lines).items():
            self.decisions.labels(order).inc(count)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        guard, panel = self.runtime.guard, self.runtime.history.panel
        for state in State:
            self.state.labels(state.value).set(state is guard.state)
        for control, count in guard.denials.copy().items():  # a decision on the other thread may add one meanwhile
            self.denials.labels(control).set(count)
        if panel is not None:
            self.age.set(max(self.runtime.clock() - panel.index[-1].timestamp(), 0.0))
        return generate_latest(self.registry)
