"""What the configuration says of the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

NAME = "volmgr-cri"
"""Our settings in the configuration."""

RUNTIME_ENDPOINT = "unix:///run/containerd/containerd.sock"
"""kubelet's containerRuntimeEndpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriSettings:
    """What the configuration says below `plugins`, `volmgr-cri`."""

    runtime_endpoint: str = field(default=RUNTIME_ENDPOINT, metadata={"name": "runtime_endpoint"})
    """The address of the runtime's unix socket."""
    request_timeout: float = field(default=10.0, metadata={"name": "request_timeout"})
    """Seconds that the runtime has for one answer; kubelet's runtimeRequestTimeout is 120: it asks to change things."""
    events_lifetime: float = field(default=60.0, metadata={"name": "events_lifetime"})
    """Seconds after which events are subscribed to anew, or no more when no Pod is kept any longer."""
