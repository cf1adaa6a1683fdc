"""Usage by key and model since the process started, in the Prometheus text format."""

from collections.abc import Iterable, Iterator

from tieline.core.usage.limits import NANO
from tieline.core.usage.sums import COLUMNS, OTHER, UsageSums
from tieline.core.watch.metrics import head, label

MAX_SERIES = 500
"""Number of pairs of key and model with metrics of their own. All others are counted together."""
KINDS = ("input", "output", "cache_read", "cache_write")

Series = dict[tuple[str, str], list[int]]
"""The sums in the order of `COLUMNS`, by key and model."""


class UsageMetrics:
    """Counts usage by key and model."""

    def __init__(self) -> None:
        self._series: Series = {}

    def add(self, sums: UsageSums) -> None:
        """Add sums to the metrics."""
        _add(self._series, sums)

    def lines(self, pending: Iterable[UsageSums]) -> Iterator[str]:
        """Yield the metrics, including `pending` sums, which have not been added yet."""
        all_series = {place: list(row) for place, row in self._series.items()}
        for sums in pending:
            _add(all_series, sums)
        series = [
            (f'key="{label(owner)}",model="{label(model)}"', dict(zip(COLUMNS, row, strict=True)))
            for (owner, model), row in sorted(all_series.items())
        ]
        yield from head("tieline_usage_requests_total", "counter", "Requests by key and model.")
        for labels, row in series:
            yield f"tieline_usage_requests_total{{{labels}}} {row['requests']}"
        yield from head("tieline_usage_tokens_total", "counter", "Tokens by key, model and kind.")
        for labels, row in series:
            for kind in KINDS:
                yield f'tieline_usage_tokens_total{{{labels},kind="{kind}"}} {row[kind]}'
        yield from head("tieline_usage_cost_total", "counter", "Known cost by key and model, in dollars.")
        for labels, row in series:
            yield f"tieline_usage_cost_total{{{labels}}} {row['cost'] / NANO:.9f}"
        yield from head("tieline_usage_unpriced_total", "counter", "Requests of unknown cost by key and model.")
        for labels, row in series:
            yield f"tieline_usage_unpriced_total{{{labels}}} {row['unpriced']}"


def _add(series: Series, sums: UsageSums) -> None:
    for (owner, _, backend, model, _), row in sums.rows.items():
        place = (owner, f"{backend}/{model}")
        if place not in series and len(series) >= MAX_SERIES:
            place = (OTHER, OTHER)
        totals = series.setdefault(place, [0] * len(COLUMNS))
        for at, value in enumerate(row):
            totals[at] += value
