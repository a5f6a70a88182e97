"""Rebuild the actual state of the world at start: from directories, records and mounts. Changes nothing.

Reconstructed means uncertain. A mount counts as there without a call only on proof: same boot, its record says
done, and its path is still the very mount (or directory) that was recorded.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volmgr.actual import ActualVolume, Cause, PodMount
from volmgr.errors import NotOurs, OperationError, PluginError, VolmgrError
from volmgr.found_devices import facets_of, found_devices
from volmgr.found_driver import found_driver
from volmgr.journal import Journal, MountRecord, SpecRecord, VolumeRecord
from volmgr.model.names import is_uid, kubelet_plugin, pod_volume_name, shared_volume_name, unescape
from volmgr.model.volume import Attachable, Facets, Presence, VolumeMode, VolumeSpec
from volmgr.plugin import Found, FoundDevice
from volmgr.populator import typed_spec

if TYPE_CHECKING:
    from volmgr.host.interface import Host, Identity
    from volmgr.plugins import Plugins
    from volmgr.volume_type import VolumeType

log = logging.getLogger("volmgr.reconstruct")


def reconstruct(host: Host, plugins: Plugins, *, controller_attach: bool = False) -> tuple[ActualVolume, ...]:
    """Give every volume that the disk or a record knows of.

    Where a controller attaches, only the node status can say which of them are attachable: until then it is unknown.
    """
    volumes = _Reconstruction(host, plugins).run()
    if not controller_attach:
        return volumes
    unknown = Attachable.UNKNOWN
    return tuple(replace(each, attachable=unknown) if each.attachable is Attachable.YES else each for each in volumes)


class _Reconstruction:
    def __init__(self, host: Host, plugins: Plugins) -> None:
        self.host = host
        self.plugins = plugins
        self.journal = Journal(host)
        self.volumes: dict[str, ActualVolume] = {}
        self.shared = {record.volume: record for record in self.journal.volumes()}

    def run(self) -> tuple[ActualVolume, ...]:
        recorded = {(record.pod_uid, record.spec.name): record for record in self.journal.mounts()}
        for found in self._directories():
            record = recorded.get((found.pod_uid, found.spec_name))
            if record is not None and _kubelet_plugin(record.plugin, record.spec) == found.plugin:
                del recorded[(found.pod_uid, found.spec_name)]
                self._add_recorded(record, found.path)
            else:  # kubelet's own, or its record was lost: the directory wins
                self._add_found(found)
        for record in recorded.values():
            self._add_recorded(record, None)
        for shared in self.shared.values():
            self._volume_of(shared.volume, shared.plugin, shared.spec)
        self._add_devices()
        return tuple(self.volumes.values())

    def _directories(self) -> list[Found]:
        files, paths = self.host.files, self.host.paths
        found: list[Found] = []
        for uid in files.names(paths.pods):
            for top, mode in (
                (paths.volumes(uid), VolumeMode.FILESYSTEM),
                (paths.block_volumes(uid), VolumeMode.BLOCK),
            ):
                for plugin in self._names(top):
                    found.extend(
                        Found(
                            pod_uid=uid,
                            plugin=unescape(plugin),
                            spec_name=name,
                            path=top / plugin / name,
                            mode=mode,
                        )
                        for name in self._names(top / plugin)
                    )
        return found

    def _names(self, path: Path) -> tuple[str, ...]:
        """List a directory of one Pod; what is wrong with it (a link in its place) must not keep all others waiting."""
        try:
            return self.host.files.names(path)
        except OperationError as error:
            log.warning("not looked through: %s", error)
            return ()

    def _add_recorded(self, record: MountRecord, path: Path | None) -> None:
        volume = self._volume_of(record.volume, record.plugin, record.spec)
        proven = self._is_proven(record, path)
        mount = PodMount(
            pod_uid=record.pod_uid,
            spec_name=record.spec.name,
            state=Presence.YES if proven else Presence.UNCERTAIN,
            cause=Cause.RECONSTRUCTION,
            revision=record.revision if proven else "",
            source_key=record.source_key,
            path=Path(record.path) if record.path else path,
            device_path=record.device_path,
            mounted_at=record.mounted_at,
            due_at=record.due_at,
            mount_point=_proof(record, path) if record.identity is not None and record.identity.mount else None,
            read_only=record.read_only,
            label=record.label,
            inline=record.spec.inline,
            subpaths=record.subpaths,
            unseen=proven and volume.facets is not None and volume.facets.remount,
        )
        self.volumes[record.volume] = volume.with_mount(mount)

    def _is_proven(self, record: MountRecord, path: Path | None) -> bool:
        if record.step != "mounted" or record.boot_id != self.host.kernel.boot_id:
            return False
        if record.directory:
            if path is None or record.identity is None:
                return False
        elif record.identity is None:  # nothing of it lies on disk that could have changed
            return True
        proof = _proof(record, path)
        return proof is not None and self._is(proof, record.identity)

    def _is(self, path: Path, identity: Identity | None) -> bool:
        try:
            return self.host.files.identity(path) == identity
        except OperationError:  # what is mounted there is dead: whoever mounts or unmounts it says so
            return False

    def _volume_of(self, name: str, plugin: str, spec: SpecRecord) -> ActualVolume:
        known = self.volumes.get(name)
        if known is not None:
            return known
        volume_type = self.plugins.types.get(plugin)
        typed = _spec_of(volume_type, spec) if volume_type else None
        return self._add(name, plugin, typed, spec.mode, found_in=_kubelet_plugin(plugin, spec))

    def _add(
        self,
        name: str,
        plugin: str,
        spec: VolumeSpec[Any] | None,
        mode: VolumeMode,
        device_path: str = "",
        *,
        found_in: str,
    ) -> ActualVolume:
        """Take a volume for there, with what its own record, or else its type, says of attachment and device."""
        volume_type = self.plugins.types.get(plugin)
        facets = facets_of(volume_type, spec)
        volume = ActualVolume(
            name=name,
            plugin=plugin,
            spec=spec,
            facets=facets,
            attachable=Attachable.YES if facets and facets.attach else Attachable.NO,
            mode=mode,
            device_path=device_path,
            reconstructed=True,
            found_in=found_in,
        )
        shared = self.shared.get(name)
        if shared is not None:
            volume = self._with_device(volume, shared)
        elif facets is not None:
            volume = self._guess_device(volume, volume_type, facets)
        self.volumes[name] = volume
        return volume

    def _with_device(self, volume: ActualVolume, record: VolumeRecord) -> ActualVolume:
        """Take attachment and device mount from the volume's record; a device counts as there only on proof."""
        target = Path(record.device_target) if record.device_target else None
        same_boot = record.boot_id == self.host.kernel.boot_id
        proven = (
            target is not None
            and same_boot
            and record.device is Presence.YES
            # No identity: nothing was mounted there (a directory, a driver that stages nothing), and still is not.
            and self._is(target, record.identity)
        )
        uncertain = Presence.NO if record.device is Presence.NO else Presence.UNCERTAIN
        return replace(
            volume,
            attachable=Attachable.NO if record.attached is Presence.NO else Attachable.YES,
            attached=Presence.NO if record.attached is Presence.NO else Presence.UNCERTAIN,
            attach_cause=Cause.RECONSTRUCTION,
            device=Presence.YES if proven else uncertain,
            device_cause=Cause.RECONSTRUCTION,
            device_path=record.device_path,
            device_target=target,
            device_is_mount=record.identity is not None and record.identity.mount is not None,
            device_read_only=record.read_only,
            device_label=record.label,
            size=record.size if proven else 0,
        )

    def _guess_device(self, volume: ActualVolume, volume_type: VolumeType | None, facets: Facets) -> ActualVolume:
        """Assume that a volume without a record of its own is attached and device-mounted, as kubelet does."""
        if facets.attach:
            volume = replace(volume, attached=Presence.UNCERTAIN, attach_cause=Cause.RECONSTRUCTION)
        if facets.device and volume_type is not None and volume.spec is not None:
            volume = replace(volume, device=Presence.UNCERTAIN, device_cause=Cause.RECONSTRUCTION)
            with suppress(PluginError):  # then it is asked again when it is needed
                volume = replace(volume, device_target=volume_type.ask("device_target", volume.spec, self.host))
        return volume

    def _add_found(self, found: Found) -> None:
        volume_type = self.plugins.of_directory(found.plugin, found_driver(found, self.host))
        plugin = volume_type.name if volume_type else found.plugin
        name = pod_volume_name(found.plugin, found.pod_uid, found.spec_name)
        spec: VolumeSpec[Any] | None = None
        device_path = label = ""
        if volume_type is not None:
            try:
                answer = volume_type.call("reconstruct", found, self.host)
            except NotOurs:
                return  # it is kept, and named by who looks for orphans
            except VolmgrError:
                pass  # it is still unmounted by name, when nobody wants it
            except BaseException:  # a plugin's bug: its volumes stay as they are, and those of others are found
                log.exception("%s: reconstructing %s failed", volume_type.origin, found.path)
                return
            else:
                spec = replace(answer.spec, reconstructed=True, mode=found.mode)
                device_path, label = answer.device_path, answer.selinux_label
        facets = facets_of(volume_type, spec)
        if volume_type and spec and facets and (facets.attach or facets.device):
            try:
                name = shared_volume_name(found.plugin, volume_type.ask("volume_name", spec))
            except PluginError:  # ask() has logged it
                return
        known = self.volumes.get(name) or self._add(name, plugin, spec, found.mode, device_path, found_in=found.plugin)
        mount = PodMount(
            pod_uid=found.pod_uid,
            spec_name=found.spec_name,
            state=Presence.UNCERTAIN,
            cause=Cause.RECONSTRUCTION,
            path=found.path,
        )
        self.volumes[name] = replace(known, device_label=known.device_label or label).with_mount(mount)

    def _add_devices(self) -> None:
        """Take node's mounts that no Pod's directory and no record led to for volumes that somebody left so."""
        for device in found_devices(self.host, self.plugins):
            spec, owner, name = device.found.spec, device.owner, device.name
            if spec is not None and owner is not None and name:
                self._add_device(name, owner, device.found, spec)

    def _add_device(self, name: str, owner: VolumeType, found: FoundDevice[Any], spec: VolumeSpec[Any]) -> None:
        plugin = kubelet_plugin(owner.name, spec.type, spec.driver)
        volume = self.volumes.get(name)
        if volume is None:
            known = replace(spec, reconstructed=True)
            volume = self._add(name, owner.name, known, spec.mode, found.device_path, found_in=plugin)
        if volume.device is Presence.NO:
            volume = replace(
                volume, device=Presence.UNCERTAIN, device_cause=Cause.RECONSTRUCTION, device_target=found.target
            )
        for uid in found.pod_uids:
            if is_uid(uid) and uid not in volume.mounts:
                left = PodMount(pod_uid=uid, spec_name=spec.name, state=Presence.UNCERTAIN, cause=Cause.RECONSTRUCTION)
                volume = volume.with_mount(left)
        self.volumes[name] = replace(volume, device_label=volume.device_label or found.selinux_label)


def _kubelet_plugin(plugin: str, spec: SpecRecord) -> str:
    return kubelet_plugin(plugin, spec.type, spec.driver)


def _proof(record: MountRecord, path: Path | None) -> Path | None:
    """Say which path was looked at when the record was written; an older record speaks of the directory."""
    return Path(record.proof) if record.proof else path if record.directory else Path(record.path)


def _spec_of(volume_type: VolumeType, record: SpecRecord) -> VolumeSpec[Any] | None:
    try:
        spec = typed_spec(volume_type, record.type, record.driver, record.source, name=record.name)
    except VolmgrError:
        return None
    return replace(
        spec,
        access_modes=record.access_modes,
        read_only=record.read_only,
        mode=record.mode,
        mount_options=record.mount_options,
        reconstructed=True,
    )
