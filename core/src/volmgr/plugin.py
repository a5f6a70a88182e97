"""The one module that a plugin author imports: the class to derive from, its requests, outcomes and errors.

A volume type is a stateless class. Its *pure* methods (`volume_name`, `facets`, `references` …) say what one volume
needs; its *operations* (`mount`, `unmount` …) do one thing, are idempotent, and return a value of their own type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from volmgr.disk_paths import DEGRADED, MAP_WAIT, ConnectedDisk, DiskPaths, Sight
from volmgr.disk_volume import DiskVolume, disk_requirements
from volmgr.errors import (
    BusyError,
    CommandError,
    DeviceLostError,
    NotOurs,
    NotReconstructible,
    OperationError,
    OverdueError,
    PluginError,
    SpecError,
    TransientError,
    UnansweredError,
    UncertainError,
    VolmgrError,
    taken_back,
    uncertain_if_it_fails,
)
from volmgr.host.capacity import capacity
from volmgr.host.checkpoints import Checkpoints
from volmgr.host.empty_dirs import PodDirectory, check_medium
from volmgr.host.filesystems import DEFAULT_TYPE, DeviceMount
from volmgr.host.interface import (
    SCSI_DEADLINE,
    Certificate,
    CertificateWish,
    CommandResult,
    FileInfo,
    FileSystem,
    Host,
    Identity,
    MountEntry,
    MultipathMap,
    ScsiAddress,
    ScsiDisk,
    SeenMount,
    Unpacked,
    Unpacking,
)
from volmgr.host.mount_options import read_only_options, split_options
from volmgr.host.mount_points import device_behind, remove_mount_point, unmount_served, unmounted_if_it_fails
from volmgr.model.downward import DownwardFile, allocatable, check_downward, downward_files
from volmgr.model.driver_info import DriverInfo, driver_awaited
from volmgr.model.driver_sources import CSI_FIELD, FLEX_FIELD, CsiSource, FlexVolumeSource, SecretReference
from volmgr.model.file_paths import clean_path, clean_paths
from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.names import attachment_name, csi_volume_name, is_label, is_qualified, is_subdomain, path_problem
from volmgr.model.objects import (
    ClusterTrustBundle,
    ConfigMap,
    CSIDriver,
    Node,
    Object,
    PersistentVolumeClaim,
    Secret,
    ServiceAccount,
    StorageClass,
    VolumeAttachment,
)
from volmgr.model.payload import (
    KeyToPath,
    Payload,
    PayloadFile,
    check_items,
    files_of,
    mode_of,
    needed_object,
    object_files,
)
from volmgr.model.pod import Container, FieldRef, Pod, PodSpec, ResourceFieldRef, ResourceRequirements, VolumeMount
from volmgr.model.quantity import Quantity
from volmgr.model.selectors import matches_labels
from volmgr.model.selinux import context_option
from volmgr.model.volume import Applies, Facets, PersistentVolume, Reference, VolumeMode, VolumeSpec
from volmgr.payload_volume import PayloadVolume
from volmgr.provisioner import (
    DeleteVolume,
    Grown,
    GrowVolume,
    Provision,
    Provisioned,
    Provisioner,
    ProvisionerRequest,
)
from volmgr.requests import (
    Attach,
    Attached,
    Detach,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expanded,
    Found,
    FoundDevice,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Notice,
    Objects,
    Reconstructed,
    Requirement,
    Unmount,
    UnmountDevice,
    Unmounted,
    WaitForAttach,
)
from volmgr.volume_plugin import (
    API_VERSION,
    Attachable,
    BlockMappable,
    DeviceMountable,
    Expandable,
    Handles,
    Measurable,
    VolumePlugin,
    Where,
    hookimpl,
)

if TYPE_CHECKING:
    from volmgr.host.directory_watches import Happening as Happening  # noqa: PLC0414 - for plugins, without its import
    from volmgr.host.directory_watches import Watches as Watches  # noqa: PLC0414 - as above

__all__ = [
    "API_VERSION",
    "CSI_FIELD",
    "DEFAULT_TYPE",
    "DEGRADED",
    "FLEX_FIELD",
    "MAP_WAIT",
    "SCSI_DEADLINE",
    "Applies",
    "Attach",
    "Attachable",
    "Attached",
    "BlockMappable",
    "BusyError",
    "CSIDriver",
    "Certificate",
    "CertificateWish",
    "Checkpoints",
    "ClusterTrustBundle",
    "CommandError",
    "CommandResult",
    "ConfigMap",
    "ConnectedDisk",
    "Container",
    "CsiSource",
    "DeleteVolume",
    "Detach",
    "Detached",
    "DeviceLostError",
    "DeviceMount",
    "DeviceMountable",
    "DeviceMounted",
    "DeviceUnmounted",
    "DiskPaths",
    "DiskVolume",
    "DownwardFile",
    "DriverInfo",
    "Drivers",
    "Expand",
    "Expandable",
    "Expanded",
    "Facets",
    "FieldRef",
    "FileInfo",
    "FileSystem",
    "FlexVolumeSource",
    "Found",
    "FoundDevice",
    "GrowVolume",
    "Grown",
    "Handles",
    "Host",
    "Identity",
    "KeyToPath",
    "Measurable",
    "Measure",
    "Measured",
    "Mount",
    "MountDevice",
    "MountEntry",
    "Mounted",
    "MultipathMap",
    "Node",
    "NotOurs",
    "NotReconstructible",
    "Notice",
    "Object",
    "ObjectMeta",
    "ObjectRef",
    "Objects",
    "Offers",
    "OperationError",
    "OverdueError",
    "Payload",
    "PayloadFile",
    "PayloadVolume",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PluginError",
    "Pod",
    "PodDirectory",
    "PodSpec",
    "Provision",
    "Provisioned",
    "Provisioner",
    "ProvisionerRequest",
    "Quantity",
    "Reconstructed",
    "Reference",
    "Requirement",
    "ResourceFieldRef",
    "ResourceRequirements",
    "ScsiAddress",
    "ScsiDisk",
    "Searched",
    "Secret",
    "SecretReference",
    "SeenMount",
    "Service",
    "ServiceAccount",
    "Sight",
    "SpecError",
    "StorageClass",
    "TransientError",
    "UnansweredError",
    "UncertainError",
    "Unmount",
    "UnmountDevice",
    "Unmounted",
    "Unpacked",
    "Unpacking",
    "VolmgrError",
    "VolumeAttachment",
    "VolumeMode",
    "VolumeMount",
    "VolumePlugin",
    "VolumeSpec",
    "WaitForAttach",
    "Where",
    "allocatable",
    "attachment_name",
    "capacity",
    "check_downward",
    "check_items",
    "check_medium",
    "clean_path",
    "clean_paths",
    "context_option",
    "csi_volume_name",
    "device_behind",
    "disk_requirements",
    "downward_files",
    "driver_awaited",
    "files_of",
    "hookimpl",
    "is_label",
    "is_qualified",
    "is_subdomain",
    "matches_labels",
    "mode_of",
    "needed_object",
    "object_files",
    "path_problem",
    "read_only_options",
    "remove_mount_point",
    "split_options",
    "taken_back",
    "uncertain_if_it_fails",
    "unmount_served",
    "unmounted_if_it_fails",
    "watch_directories",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Where drivers of one field were looked for, and what there is that is none: for who asks for one in vain.

    `misfits` say what is wrong, each by the name of the driver that it might be, or by its path; `absent` says of
    drivers that were there, or should be, why they are not, and what to do; `problem` what keeps drivers from being
    found at all. While it is `looking` for the first time, who needs a driver waits without being told that it is not
    there.
    """

    field: str
    places: tuple[str, ...] = ()
    misfits: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""
    absent: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    looking: bool = False


class Drivers(Protocol):
    """Where a watcher of drivers says which there are; from any thread."""

    def register(self, plugin: VolumePlugin[Any]) -> None:
        """Add a driver as a volume type of its own, or replace the one of that name."""
        ...

    def retire(self, name: str) -> None:
        """Say that a driver has vanished: nothing new is mounted by it, its unmounts are still served."""
        ...

    def declare(self, info: DriverInfo) -> None:
        """Say that a driver of `csi`, which a type of this package serves, is there, new or changed.

        Who waits for `driver_awaited(name)` tries again, `volmgr plugins` lists it, and so does a cluster's CSINode.
        """
        ...

    def withdraw(self, name: str) -> None:
        """Say that such a driver has vanished, in the words of `declare`."""
        ...

    def report(self, searched: Searched) -> None:
        """Say where drivers are looked for and what was found that is none, in place of what was said before."""
        ...


class Offers(Protocol):
    """Where a source of manifests says what it has; from any thread, each call is durable when it returns."""

    def offer(self, origin: str, identity: str, manifest: bytes) -> None:
        """Say what one origin (a file, an address) holds now, in place of what it said before.

        `identity` changes whenever the content may have; the objects' revisions are made of it. Raises OperationError
        when it cannot be recorded (a full disk): offer it again later.
        """
        ...

    def withdraw(self, origin: str) -> None:
        """Say that an origin is gone: its Pods leave."""
        ...

    def state(self, *, ready: bool, problem: str = "") -> None:
        """Say whether everything was read once; nothing is unmounted anywhere before that."""
        ...


class Service(Protocol):
    """A watcher of drivers or a source: started once the daemon runs, stopped at its end or before a reload."""

    name: str

    def start(self) -> None:
        """Begin, on a thread of its own; must not block."""
        ...

    def stop(self) -> None:
        """End, and give back threads and descriptors."""
        ...


def watch_directories() -> Watches:
    """Give what watches directories by inotify; raises OperationError when no instance is left.

    pyinotify is imported here: 14 MB that only those pay who watch something.
    """
    from volmgr.host.directory_watches import Watches

    return Watches()
