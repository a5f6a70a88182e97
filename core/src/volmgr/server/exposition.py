"""Metrics in Prometheus' text format. The only module that imports prometheus-client: at the first scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volmgr.report.gauge import Gauge

__all__ = ["CONTENT_TYPE", "exposition"]


class _Once(Collector):
    """Gives the values of one scrape."""

    def __init__(self, gauges: tuple[Gauge, ...]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for gauge in self._gauges:
            family = GaugeMetricFamily(gauge.name, gauge.about, labels=gauge.labels)
            for labels, value in gauge.values.items():
                family.add_metric(labels, value)
            yield family


def exposition(gauges: tuple[Gauge, ...]) -> bytes:
    """Give metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(gauges))
    return generate_latest(registry)
