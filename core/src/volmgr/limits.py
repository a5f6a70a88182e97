"""How much a Pod may use: Kubernetes' PodLimits, and the size limits of its local volumes. Pure.

Source: `k8s.io/component-helpers/resource` PodLimits (init, sidecar and overhead rules) and
`desired_state_of_world.go` of kubelet 1.37 (size limit of local ephemeral volumes).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from volmgr.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.model.objects import Node
    from volmgr.model.pod import Container, Pod, PodVolume

MEMORY = "memory"
"""Names of resources in Kubernetes' limits; both are in bytes."""
EPHEMERAL_STORAGE = "ephemeral-storage"
_NONE = Fraction(0)


def pod_limit(pod: Pod, resource: str) -> int:
    """Give a Pod's limit of one resource in its unit (bytes); 0 when it has none.

    Main containers and sidecars add up; an init container counts with the sidecars started before it, and the
    largest such moment wins; overhead is added to a limit that exists. A limit of the Pod itself replaces the sum.
    """
    whole = pod.spec.resources.limits.get(resource)
    if whole is not None:
        return _with_overhead(pod, resource, whole.value)
    if not any(resource in container.resources.limits for container in pod.all_containers()):
        return 0  # as most Pods: fractions are slow
    sidecars = _NONE
    largest_init = _NONE
    for container in pod.spec.init_containers:
        limit = _limit(container, resource)
        if container.is_sidecar:
            sidecars += limit
            moment = sidecars
        else:
            moment = limit + sidecars
        largest_init = max(largest_init, moment)
    running = sum((_limit(container, resource) for container in pod.spec.containers), _NONE) + sidecars
    return _with_overhead(pod, resource, max(running, largest_init))


def _limit(container: Container, resource: str) -> Fraction:
    quantity = container.resources.limits.get(resource)
    return quantity.value if quantity else _NONE


def _with_overhead(pod: Pod, resource: str, limit: Fraction) -> int:
    overhead = pod.spec.overhead.get(resource)
    total = limit + overhead.value if overhead and limit else limit
    return Quantity(total, "").to_int()


def local_size_limit(pod: Pod, volume: PodVolume) -> int:
    """Give the size limit in bytes of a volume on the node's own storage; 0 when unlimited or not such a volume.

    These are emptyDir of the default medium, configMap and gitRepo: the smaller of the Pod's ephemeral-storage
    limit, if it has one, and emptyDir.sizeLimit, if set.
    """
    if volume.type not in {"emptyDir", "configMap", "gitRepo"} or volume.source.get("medium"):
        return 0
    return smallest(pod_limit(pod, EPHEMERAL_STORAGE), _size_limit(volume.source))


def memory_limit(pod: Pod, node: Node | None) -> int:
    """Give the bytes of memory that a volume of the Pod may use: its limit, at most the node's allocatable; 0 none."""
    allocatable = node.allocatable.get(MEMORY) if node else None
    return smallest(pod_limit(pod, MEMORY), allocatable.to_int() if allocatable else 0)


def smallest(*limits: int) -> int:
    """Give the smallest limit that is set (0 is none)."""
    return min((limit for limit in limits if limit > 0), default=0)


def _size_limit(source: Mapping[str, object]) -> int:
    written = source.get("sizeLimit")
    if not isinstance(written, (str, int, float)):
        return 0
    return Quantity.parse(written).to_int()
