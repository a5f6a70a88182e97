"""Which events are told to the cluster, of which object, and in which words: kubelet's, where it has some. Pure.

Source: `pkg/volume/util/operationexecutor` of kubelet 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from volmgr.model.volume import VolumeMode, VolumeSpec
from volmgr.operations import Verb
from volmgr.report.events import Event, Severity
from volmgr.report.times import utc

if TYPE_CHECKING:
    from volmgr.report.world import World

NOTE_LIMIT = 1024
"""Bytes of an event's text; the API server's limit."""
REASON_LIMIT = 128
"""Characters of a reason, an action and an instance; the API server's limits."""
CONTROLLER = "volmgr"

LOCAL = frozenset(
    {
        "DriverRefused",
        "DriverRegistered",
        "DriverVanished",
        "DriversNotWatched",
        "FailedDetachVolume",
        "FailedUnmount",
        "HelperOutlivedDaemon",
        "HostFailed",
        "InvalidManifest",
        "OrphanKept",
        "PodGone",
        "SourceNotReady",
        "SourceOutOfContact",
        "SuccessfulUnmountVolume",
    }
)
"""Reasons that stay here: they concern the machine, or say what kubelet does not say (unmounting)."""
OF_NODE = frozenset({"PossibleMemoryBackedVolumesOnDisk"})
"""Reasons that concern the Node, whichever Pod they came with."""
OF_CLAIM_TOO = frozenset({"FileSystemResizeFailed", "FileSystemResizeSuccessful"})
"""Reasons that concern the claim of the volume as well as its Pods."""
_ACTIONS: Mapping[str, str] = {
    "FailedAttachVolume": "AttachVolume",
    "SuccessfulAttachVolume": "AttachVolume",
    "FailedMapVolume": "MapVolume",
    "FileSystemResizeFailed": "ResizeVolume",
    "FileSystemResizeSuccessful": "ResizeVolume",
    "VolumeResizeFailed": "ResizeVolume",
    "VolumePermissionChangeInProgress": "ChangeOwnership",
}
_STEPS: Mapping[Verb, tuple[str, str]] = {
    Verb.ATTACH: ("AttachVolume.Attach", "AttachVolume.Attach"),
    Verb.WAIT_FOR_ATTACH: ("MountVolume.WaitForAttach", "MapVolume.WaitForAttach"),
    Verb.VERIFY_ATTACHED: ("VerifyControllerAttachedVolume", "VerifyControllerAttachedVolume"),
    Verb.MOUNT_DEVICE: ("MountVolume.MountDevice", "MapVolume.SetUpDevice"),
    Verb.MOUNT: ("MountVolume.SetUp", "MapVolume.MapPodDevice"),
    Verb.EXPAND: ("MountVolume.NodeExpandVolume", "MapVolume.NodeExpandVolume"),
}
"""What kubelet calls a step, of a file system and of a block volume."""


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about; `namespace` is empty for the Node."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def event_namespace(self) -> str:
        """Where events about it lie."""
        return self.namespace or "default"


@dataclass(frozen=True, slots=True)
class About:
    """What the world says of an event: its Pods, and the volume as its owners call it."""

    pods: tuple[Regarding, ...] = ()
    volume: str = ""
    is_block: bool = False
    claim: Regarding | None = None


@dataclass(frozen=True, slots=True)
class Telling:
    """One event as the cluster is to have it; equal ones are one, and counted."""

    regarding: Regarding
    severity: Severity
    reason: str
    note: str

    @property
    def action(self) -> str:
        """What was being done."""
        return _ACTIONS.get(self.reason, "MountVolume")


def about_in(world: World) -> Callable[[Event], About]:
    """Give who looks up what an event is about; to be called on the thread that owns the world."""

    def look(event: Event) -> About:
        desired, actual = world.desired.get(event.volume), world.actual.get(event.volume)
        uids = [event.pod_uid] if event.pod_uid else [*(desired.mounts if desired else ())]
        entries = [entry for uid in uids if (entry := world.pods.get(uid)) is not None]
        found = [entry.pod for entry in entries]
        pods = tuple(Regarding("Pod", pod.metadata.namespace, pod.metadata.name, pod.uid) for pod in found)
        spec = (desired.spec if desired else None) or (actual.spec if actual else None)
        is_block = spec is not None and spec.mode is VolumeMode.BLOCK
        return About(pods, spec.name if spec else "", is_block, _claim_of(spec))

    return look


def _claim_of(spec: VolumeSpec[Any] | None) -> Regarding | None:
    owner = spec.pv.claim_ref if spec and spec.pv else None
    return Regarding("PersistentVolumeClaim", owner.namespace, owner.name, owner.uid) if owner else None


def tellings(event: Event, about: About, node_name: str) -> tuple[Telling, ...]:
    """Give what the cluster is told of an event: nothing, or the same to each object that it concerns."""
    if event.reason in LOCAL or len(event.reason) > REASON_LIMIT:
        return ()
    if event.reason == "SuccessfulMountVolume" and not about.is_block:  # kubelet is silent about file systems
        return ()
    if event.reason in OF_NODE:
        to: tuple[Regarding, ...] = (Regarding("Node", "", node_name, node_name),)
    else:
        to = (*about.pods, about.claim) if about.claim and event.reason in OF_CLAIM_TOO else about.pods
    note = shortened(_worded(event, about))
    return tuple(Telling(each, event.severity, event.reason, note) for each in to)


def _worded(event: Event, about: About) -> str:
    """Say it in kubelet's words: `MountVolume.SetUp failed for volume "v" : why`."""
    word, colon, why = event.message.partition(": ")
    step = _STEPS.get(Verb(word)) if colon and word in set(Verb) else None
    if step is None:
        return event.message
    name = step[about.is_block]
    volume = about.volume or event.volume
    if event.severity is Severity.NORMAL:
        return f'{name} succeeded for volume "{volume}"'
    return f'{name} failed for volume "{volume}" : {why}'


def shortened(text: str) -> str:
    """Cut a text to what fits into an event."""
    data = text.encode()
    return text if len(data) <= NOTE_LIMIT else data[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."


def events_v1(telling: Telling, name: str, node_name: str, first: float, series: Mapping[str, object]) -> object:
    """Give the object of `events.k8s.io/v1`; times are seconds of Unix time."""
    given = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": _metadata(telling, name),
        "eventTime": micro_time(first),
        "reportingController": CONTROLLER,
        "reportingInstance": node_name[:REASON_LIMIT],
        "action": telling.action,
        "reason": telling.reason,
        "regarding": _reference(telling.regarding),
        "note": telling.note,
        "type": telling.severity.value,
    }
    return {**given, **series}


def core_v1(telling: Telling, name: str, node_name: str, first: float, series: Mapping[str, object]) -> object:
    """Give the object of the core group, as kubelet writes it; times are seconds of Unix time."""
    given = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _metadata(telling, name),
        "involvedObject": _reference(telling.regarding),
        "reason": telling.reason,
        "message": telling.note,
        "source": {"component": CONTROLLER, "host": node_name},
        "firstTimestamp": second_time(first),
        "type": telling.severity.value,
        "reportingComponent": CONTROLLER,
        "reportingInstance": node_name[:REASON_LIMIT],
    }
    return {**given, **series}


def events_series(count: int, last: float) -> Mapping[str, object]:
    """Say how often it happened, in `events.k8s.io/v1`; once is no series."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}} if count > 1 else {}


def core_series(count: int, last: float) -> Mapping[str, object]:
    """Say how often it happened, in the core group."""
    return {"count": count, "lastTimestamp": second_time(last)}


def micro_time(seconds: float) -> str:
    """Give Kubernetes' MicroTime."""
    return utc(seconds, "microseconds")


def second_time(seconds: float) -> str:
    """Give Kubernetes' Time."""
    return utc(seconds, "seconds")


def _metadata(telling: Telling, name: str) -> Mapping[str, str]:
    return {"namespace": telling.regarding.event_namespace, "name": name}


def _reference(regarding: Regarding) -> Mapping[str, str]:
    named = {"kind": regarding.kind, "apiVersion": "v1", "name": regarding.name, "uid": regarding.uid}
    return {**named, "namespace": regarding.namespace} if regarding.namespace else named
