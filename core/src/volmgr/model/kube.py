"""What may be configured of Kubernetes mode: `kubernetes` of the configuration. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from volmgr.model.duration import read_duration
from volmgr.model.schema import load


class EventsApi(Enum):
    """Where events go."""

    EVENTS = "events.k8s.io"
    CORE = "core"
    NONE = "none"


def _duration(name: str, seconds: float) -> float:
    option: float = field(default=seconds, metadata={"name": name, "read": read_duration})
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """All options; each field says what it is and where its default comes from."""

    page_size: int = field(default=500, metadata={"name": "page_size"})
    """Objects of one page of a list; client-go's default of its pager."""
    object_limit: int = field(default=8 << 20, metadata={"name": "object_limit"})
    """Bytes of one event of a watch, or of one object; etcd holds 1.5 MiB. More ends that watch, and nothing else."""
    request_timeout: float = _duration("request_timeout", 30.0)
    """What one request may take; 10 s of it for the connection."""
    requests: int = field(default=6, metadata={"name": "requests"})
    """Requests at once, each on a thread; watches need none."""
    watch_lifetime: float = _duration("watch_lifetime", 450.0)
    """After how long the server ends a watch, up to twice that; client-go's minWatchTimeout is 5 min."""
    watch_silence: float = _duration("watch_silence", 90.0)
    """How long a watch may be silent beyond what bookmarks (each minute) allow before its connection counts as dead."""
    backoff_initial: float = _duration("backoff_initial", 0.8)
    """First back-off of a list or watch that failed, with jitter; client-go's reflector, 800 ms."""
    backoff_max: float = _duration("backoff_max", 30.0)
    """Longest back-off of a list or watch; client-go's reflector, 30 s."""
    object_watches: int = field(default=64, metadata={"name": "object_watches"})
    """ConfigMaps and Secrets that are watched, each by a watch of its own; those beyond are asked for."""
    object_lifetime: float = _duration("object_lifetime", 60.0)
    """How long an object that is asked for counts as fresh, with jitter; kubelet's TTL cache, 1 min."""
    await_initial: float = _duration("await_initial", 0.5)
    """First pause before a claim, volume or attachment that a Pod waits for is asked for again; kubelet's 500 ms."""
    await_max: float = _duration("await_max", 10.0)
    """Longest such pause."""
    status_debounce: float = _duration("status_debounce", 0.02)
    """How long further changes of volumesInUse are waited for before the node's status is patched."""
    status_retry_initial: float = _duration("status_retry_initial", 0.5)
    """First pause before the node's status is patched again, where that failed, or another writer undid it."""
    status_retry_max: float = _duration("status_retry_max", 10.0)
    """Longest such pause."""
    checkpoint_secrets: bool = field(default=False, metadata={"name": "checkpoint_secrets"})
    """Keep Secrets and unexpired tokens on disk (mode 0600), so that Pods that use them start without the server."""
    pod_condition: bool = field(default=False, metadata={"name": "pod_condition"})
    """Say on each Pod, by the condition `volumes.volmgr.io/Mounted`, whether its volumes are there, and why not."""
    events: EventsApi = field(default=EventsApi.EVENTS, metadata={"name": "events"})
    """Where events go: `events.k8s.io`, `core`, or `none`."""
    event_burst: int = field(default=25, metadata={"name": "event_burst"})
    """Events of one Pod at once; client-go's EventSourceObjectSpamFilter, 25."""
    event_interval: float = _duration("event_interval", 300.0)
    """After how long one more event of that Pod may be sent; client-go's, one in 5 min."""

    def __post_init__(self) -> None:
        """Refuse numbers that would stop everything."""
        for name in ("page_size", "object_limit", "requests", "event_burst"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; write 1 or more")
        if self.object_watches < 0:
            raise ValueError(f"object_watches is {self.object_watches}; write 0 or more")
        for name in (
            "backoff_initial",
            "await_initial",
            "status_retry_initial",
            "request_timeout",
            "object_lifetime",
            "watch_lifetime",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is 0; write how long, such as 1s")


def read_kube_settings(value: object) -> KubeSettings:
    """Read the option; raises ValueError or SchemaError."""
    return load(KubeSettings, value, path="kubernetes")
