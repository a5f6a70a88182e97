"""The records of volumes and pod mounts: written ahead of each operation, read back at start.

A mount record says which step was begun (`step`), for which source, and what proved it done (`identity`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from volmgr import records
from volmgr.host.interface import Identity
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
            inline=spec.pv is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord:
    """One pod mount: `step` is mounting, mounted or unmounting."""

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
    directory: bool = True
    identity: Identity | None = None
    mounted_at: float = 0.0


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
    size: int = 0
    identity: Identity | None = None


class Journal:
    """Writes and reads these records below `ROOT/volmgr/`."""

    def __init__(self, host: Host) -> None:
        """Use the host's files and root directory."""
        self._files = host.files
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
        body = records.read(self._files, records.volume(self._state, volume), VOLUME)
        return _convert(body, VolumeRecord)

    def read_mount(self, pod_uid: str, spec_name: str) -> MountRecord | None:
        """Read one mount record back."""
        body = records.read(self._files, records.pod_mount(self._state, pod_uid, spec_name), MOUNT)
        return _convert(body, MountRecord)

    def mounts(self) -> list[MountRecord]:
        """Read every mount record that can be read."""
        found: list[MountRecord] = []
        top = self._state / "mounts"
        for uid in self._files.names(top):
            for name in self._files.names(top / uid):
                record = _convert(records.read(self._files, top / uid / name, MOUNT), MountRecord)
                if record is not None:
                    found.append(record)
        return found

    def volumes(self) -> list[VolumeRecord]:
        """Read every volume record that can be read."""
        top = self._state / "volumes"
        bodies = [records.read(self._files, top / name, VOLUME) for name in self._files.names(top)]
        return [record for body in bodies if (record := _convert(body, VolumeRecord)) is not None]


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
