"""The records of volumes and pod mounts: written ahead of each operation, read back at start.

A mount record says which step was begun (`step`), for which source, and what proved it done (`identity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from volmgr import records
from volmgr.errors import OperationError
from volmgr.host.interface import Identity
from volmgr.model.names import is_file_name
from volmgr.model.volume import Presence, VolumeMode, VolumeSpec

if TYPE_CHECKING:
    from volmgr.host.interface import Host

T = TypeVar("T")

MOUNT = "pod-mount"
VOLUME = "volume"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRecord:
    """What a record keeps of a VolumeSpec: the source as written, not as typed."""

    name: str
    type: str
    driver: str | None = None
    source: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    access_modes: tuple[str, ...] = ()
    read_only: bool = False
    mode: VolumeMode = VolumeMode.FILESYSTEM
    mount_options: tuple[str, ...] = ()
    inline: bool = True

    @classmethod
    def of(cls, spec: VolumeSpec[Any], source: Mapping[str, object]) -> SpecRecord:
        """Keep what is needed of a spec."""
        return cls(
            name=spec.name,
            type=spec.type,
            driver=spec.driver,
            source=source,
            access_modes=spec.access_modes,
            read_only=spec.read_only,
            mode=spec.mode,
            mount_options=spec.mount_options,
            inline=spec.inline,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord:
    """One pod mount: `step` is mounting, mounted or unmounting; `identity` is of `proof`, or else of its directory."""

    volume: str
    plugin: str
    pod_uid: str
    spec: SpecRecord
    step: str
    boot_id: str
    revision: str = ""
    source_key: str = ""
    path: str = ""
    device_path: str = ""
    label: str = ""
    directory: bool = True
    proof: str = ""
    read_only: bool | None = None
    identity: Identity | None = None
    mounted_at: float = 0.0
    due_at: float | None = None
    subpaths: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRecord:
    """One attachable or device-mountable volume."""

    volume: str
    plugin: str
    spec: SpecRecord
    boot_id: str
    attached: Presence = Presence.NO
    device: Presence = Presence.NO
    device_path: str = ""
    device_target: str = ""
    label: str = ""
    read_only: bool | None = None
    size: int = 0
    identity: Identity | None = None


class Journal:
    """Writes and reads these records below `ROOT/volmgr/`."""

    def __init__(self, host: Host) -> None:
        """Use the host's files and root directory."""
        self._files = host.files
        self._root = host.paths.root
        self._state = host.paths.state

    def write_mount(self, record: MountRecord, *, again: bool = False) -> None:
        """Write a mount record, or (`again`) a later step of one; like the mount, it need not outlive a power cut."""
        path = records.pod_mount(self._state, record.pod_uid, record.spec.name)
        records.write(self._files, path, MOUNT, _body(record), again=again)

    def forget_mount(self, pod_uid: str, spec_name: str) -> None:
        """Remove a mount record."""
        self._files.remove_file(records.pod_mount(self._state, pod_uid, spec_name))

    def forget_pod(self, pod_uid: str) -> None:
        """Remove the directory of a Pod's mount records, if it is empty."""
        self._files.remove_directory(records.pod_mounts(self._state, pod_uid))

    def write_volume(self, record: VolumeRecord) -> None:
        """Write a volume record; durable, since attachments and staged volumes outlive a reboot."""
        records.write(self._files, records.volume(self._state, record.volume), VOLUME, _body(record), durable=True)

    def forget_volume(self, volume: str) -> None:
        """Remove a volume record."""
        self._files.remove_file(records.volume(self._state, volume), durable=True)

    def read_volume(self, volume: str) -> VolumeRecord | None:
        """Read one volume record back."""
        return self._volume_of(records.volume(self._state, volume))

    def read_mount(self, pod_uid: str, spec_name: str) -> MountRecord | None:
        """Read one mount record back."""
        return self._mount_of(records.pod_mount(self._state, pod_uid, spec_name))

    def mounts(self) -> list[MountRecord]:
        """Read every mount record that can be read; unreadable is damaged."""
        found: list[MountRecord] = []
        top = self._state / "mounts"
        for uid in self._files.names(top):
            with suppress(OperationError):
                for name in self._files.names(top / uid):
                    with suppress(OperationError):
                        record = self._mount_of(top / uid / name)
                        if record is not None:
                            found.append(record)
        return found

    def volumes(self) -> list[VolumeRecord]:
        """Read every volume record that can be read."""
        top = self._state / "volumes"
        found: list[VolumeRecord] = []
        for name in self._files.names(top):
            with suppress(OperationError):  # unreadable is damaged
                record = self._volume_of(top / name)
                if record is not None:
                    found.append(record)
        return found

    def _mount_of(self, path: Path) -> MountRecord | None:
        """Read a mount record; one that speaks of another place than its own would lead out of the root."""
        record = _convert(records.read(self._files, path, MOUNT), MountRecord)
        if record is None or not all(map(is_file_name, (record.pod_uid, record.spec.name))):
            return None
        return record if records.pod_mount(self._state, record.pod_uid, record.spec.name) == path else None

    def _volume_of(self, path: Path) -> VolumeRecord | None:
        """Read a volume record; its device mount lies below the root, or nothing is known of it."""
        record = _convert(records.read(self._files, path, VOLUME), VolumeRecord)
        if record is None or records.volume(self._state, record.volume) != path:
            return None
        target = Path(record.device_target)
        inside = ".." not in target.parts and self._root in target.parents
        return record if inside or not record.device_target else replace(record, device_target="")


def _body(record: MountRecord | VolumeRecord) -> dict[str, object]:
    body: dict[str, object] = msgspec.to_builtins(record, enc_hook=_plain)
    return body


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    message = f"{type(value).__name__} cannot stand in a record"
    raise NotImplementedError(message)


def _convert(body: Mapping[str, object] | None, cls: type[T]) -> T | None:
    if body is None:
        return None
    try:
        return msgspec.convert(body, cls, strict=False)
    except msgspec.ValidationError:
        return None
