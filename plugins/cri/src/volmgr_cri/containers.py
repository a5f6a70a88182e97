"""Which containers use volumes, and what is said of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from volmgr_cri.v1 import api_pb2 as cri

POD_UID_LABEL = "io.kubernetes.pod.uid"
"""The label by which kubelet, and whoever stands in for it, marks sandboxes and containers of a Pod."""

_USING = {
    cri.CONTAINER_RUNNING: "runs",
    cri.CONTAINER_CREATED: "is created and may start",
    cri.CONTAINER_UNKNOWN: "is in a state that it does not know",
}
"""What is said of a container that uses its volumes, by its state: of all but one that has exited.

kubelet lets a created one be, as nobody but kubelet starts it. Here anybody may: it would write below the mount point.
"""

_ENDED = frozenset({cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT})


def is_of(sandbox: cri.PodSandbox, pod_uid: str) -> bool:
    """Say whether a sandbox is a Pod's, by its metadata or its label."""
    return pod_uid in {sandbox.metadata.uid, sandbox.labels.get(POD_UID_LABEL)}


def who_runs(runtime: str, containers: Iterable[cri.Container]) -> str | None:
    """Say which containers still use their volumes; None when none does."""
    said = {
        each.id: f"{each.metadata.name or each.id} {_USING[each.state]}" for each in containers if each.state in _USING
    }
    return f"{runtime} says that {', '.join(sorted(said.values()))}" if said else None


def pod_that_ended(event: cri.ContainerEventResponse) -> str | None:
    """Give the UID of the Pod of which a container ended, "" when the event does not say; None for other events."""
    if event.container_event_type not in _ENDED:
        return None
    sandbox = event.pod_sandbox_status
    return sandbox.metadata.uid or sandbox.labels.get(POD_UID_LABEL, "")
