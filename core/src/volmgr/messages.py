"""What the reconciler hears: changes of the sources, results of operations and chores, questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from volmgr.actual import ActualVolume
from volmgr.host.noted import StuckHelper
from volmgr.jobs import Result
from volmgr.model.driver_info import DriverInfo
from volmgr.model.objects import Node
from volmgr.operations import Operation
from volmgr.plugin import Searched, VolumePlugin
from volmgr.report.world import Hold, ServerReading, Survivor
from volmgr.sources.changes import Change
from volmgr.tidy import Tidied
from volmgr.volume_type import Origin


class Ask(msgspec.Struct, frozen=True):
    """Run a query or a change between two events."""

    action: Callable[[], None]


class Reconstructed(msgspec.Struct, frozen=True):
    """What reconstruction found on disk."""

    volumes: tuple[ActualVolume, ...]
    survivors: tuple[Survivor, ...] = ()
    """Helpers of an earlier daemon that may still change some of them."""


class SurvivorEnded(msgspec.Struct, frozen=True):
    """A helper of an earlier daemon has ended."""

    survivor: Survivor


class ProgressMade(msgspec.Struct, frozen=True):
    """What a running operation says of itself."""

    operation: Operation
    text: str


class MountsRead(msgspec.Struct, frozen=True):
    """The mount table was compared with what is expected: (volume, Pod) that vanished, or turned read-only.

    `at` is the Unix time in seconds at which the comparison was asked for.
    """

    at: float
    vanished: tuple[tuple[str, str], ...]
    read_only: tuple[tuple[str, str], ...]
    seconds: float = 0.0
    """What reading and comparing took."""
    fuse: Mapping[tuple[str, str], str] = {}
    """Those whose file system a process serves, and its device."""


class ServersAsked(msgspec.Struct, frozen=True):
    """Servers of FUSE file systems were asked, `at` this Unix time in seconds: by device what is wrong, if anything."""

    at: float
    answers: Mapping[str, str]
    stuck: Mapping[str, StuckHelper] = {}
    """By device the helpers that still wait for an answer, and cannot be ended."""


class ServerHeard(msgspec.Struct, frozen=True):
    """The kernel says, `at` this Unix time in seconds, that a server does not answer, or that it does again."""

    at: float
    server: str
    silent: bool


class OrphansFound(msgspec.Struct, frozen=True):
    """UIDs that have a directory below `pods/`, or a mount record.

    `devices` are paths of node's mounts of which nobody can say which volume they are, each with the reason.
    """

    uids: tuple[str, ...]
    devices: tuple[tuple[str, str], ...] = ()


class HoldTaken(msgspec.Struct, frozen=True):
    """Somebody holds a Pod."""

    hold: Hold


class HoldGone(msgspec.Struct, frozen=True):
    """A hold was given back, or its process has ended."""

    hold_id: str
    pod_uid: str


class HoldersAsked(msgspec.Struct, frozen=True):
    """What the installed packages answered: who still runs a Pod's containers; empty when nobody."""

    pod_uid: str
    answer: str
    over: Callable[[], None] = lambda: None
    """To be called when it is heard: what runs beside a slow package has its room no longer."""


class NodeStatusRead(msgspec.Struct, frozen=True):
    """The node's status was read: what is attached and reported in use; by a source that has one."""

    node: Node
    reports: int | None = None
    """How many of the lists that `Outside.in_use` was told were on the server when this was read: it shows the last of
    them, or a later writer's. None: what it says is in use always counts."""


class NodeMissing(msgspec.Struct, frozen=True):
    """There is no Node of this node's name, or it cannot be read: why, and what to do."""

    why: str


class ReadingChanged(msgspec.Struct, frozen=True):
    """More, or fewer, objects are read from the API server."""

    reading: ServerReading


class Appeared(msgspec.Struct, frozen=True):
    """Something that operations may wait for is there, by the name that they know (`TransientError.waits_for`)."""

    what: str


class DriverAppeared(msgspec.Struct, frozen=True):
    """A driver of a type whose drivers come and go is there, new or changed."""

    plugin: VolumePlugin[Any]
    origin: Origin


class DriverVanished(msgspec.Struct, frozen=True):
    """A driver is gone; its type is retired."""

    name: str


class DriverDeclared(msgspec.Struct, frozen=True):
    """A driver that a type of its package serves is there, new or changed."""

    info: DriverInfo


class DriverWithdrawn(msgspec.Struct, frozen=True):
    """Such a driver is gone."""

    name: str


class DriversSearched(msgspec.Struct, frozen=True):
    """Where the drivers of a field are looked for, and what was found that is none."""

    searched: Searched


Message = (
    Change
    | Result
    | Ask
    | Reconstructed
    | SurvivorEnded
    | ProgressMade
    | MountsRead
    | ServersAsked
    | ServerHeard
    | OrphansFound
    | HoldTaken
    | HoldGone
    | HoldersAsked
    | NodeStatusRead
    | NodeMissing
    | ReadingChanged
    | Appeared
    | DriverAppeared
    | DriverVanished
    | DriverDeclared
    | DriverWithdrawn
    | DriversSearched
    | Tidied
)
