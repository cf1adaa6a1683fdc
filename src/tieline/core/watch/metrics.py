"""The gateway's metrics, and their conversion to the Prometheus text format."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tieline.core.watch.record import BUCKETS, Histogram, LegRecords
from tieline.model.bounded_cache import BoundedCache


class Metrics:
    """The counters and gauges of the gateway since the process started."""

    def __init__(self, records: LegRecords, conversations: BoundedCache[Any, Any]) -> None:
        self._records = records
        self._conversations = conversations
        self.requests: Counter[tuple[str, str]] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
        self.tokens_in = 0
        self.tokens_out = 0
        self.calls = 0
        self.repairs = 0
        self.open_legs = 0
        self.parked = 0
        self.resumed = 0
        self.expired = 0
        self.crowded_out = 0
        self.sources: list[Callable[[], Iterator[str]]] = []
        """Functions that yield further metrics in the Prometheus text format."""

    def text(self) -> str:
        """Return all metrics in the Prometheus text format."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from head("tieline_requests_total", "counter", "Requests by frontend and backend.")
        for (frontend, backend), count in sorted(self.requests.items()):
            yield f'tieline_requests_total{{frontend="{label(frontend)}",backend="{label(backend)}"}} {count}'
        yield from head("tieline_errors_total", "counter", "Failed requests by frontend and kind of error.")
        for (frontend, kind), count in sorted(self.errors.items()):
            yield f'tieline_errors_total{{frontend="{label(frontend)}",kind="{label(kind)}"}} {count}'
        yield from head("tieline_tokens_total", "counter", "Tokens as reported by upstreams.")
        yield f'tieline_tokens_total{{direction="input"}} {self.tokens_in}'
        yield f'tieline_tokens_total{{direction="output"}} {self.tokens_out}'
        yield from _single("tieline_tool_calls_total", "counter", "Tool calls made by models.", self.calls)
        yield from _single("tieline_repairs_total", "counter", "Repaired tool calls.", self.repairs)
        yield from _single("tieline_open_legs", "gauge", "Requests in progress.", self.open_legs)
        yield from _single("tieline_parked_runs", "gauge", "Runs that wait for tool results.", self.parked)
        yield from _single("tieline_resumed_runs_total", "counter", "Parked runs that were resumed.", self.resumed)
        yield from head("tieline_dropped_runs_total", "counter", "Parked runs closed before their results came.")
        yield f'tieline_dropped_runs_total{{reason="deadline"}} {self.expired}'
        yield f'tieline_dropped_runs_total{{reason="crowded"}} {self.crowded_out}'
        cache = self._conversations
        yield from head("tieline_conversation_cache_lookups_total", "counter", "Lookups in the conversation cache.")
        yield f'tieline_conversation_cache_lookups_total{{result="hit"}} {cache.hits}'
        yield f'tieline_conversation_cache_lookups_total{{result="miss"}} {cache.misses}'
        yield from _single("tieline_conversation_cache_bytes", "gauge", "Size of the conversation cache.", cache.weight)
        records = self._records
        yield from _histogram("tieline_first_byte_seconds", "Time until the first event of a leg.", records.first_byte)
        yield from _histogram("tieline_relay_seconds", "Time until the last event of a leg.", records.duration)
        for source in self.sources:
            yield from source()


def head(name: str, kind: str, text: str) -> Iterator[str]:
    """Yield the lines that describe a metric."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield from head(name, kind, text)
    yield f"{name} {value}"


def _histogram(name: str, text: str, histogram: Histogram) -> Iterator[str]:
    yield from head(name, "histogram", text)
    total = 0
    for bound, count in zip((*BUCKETS, "+Inf"), histogram.counts, strict=True):
        total += count
        yield f'{name}_bucket{{le="{bound}"}} {total}'
    yield f"{name}_sum {histogram.sum:.6f}"
    yield f"{name}_count {total}"


def label(value: str) -> str:
    """Return the value of a label with its special characters escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
