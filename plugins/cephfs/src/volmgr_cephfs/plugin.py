"""cephfs: a directory of CephFS, by the kernel's client or by ceph-fuse.

Behaviour: `pkg/volume/cephfs` of kubelet 1.30, the last one that had it.
"""

from __future__ import annotations

from pathlib import Path

from volmgr.plugin import (
    Applies,
    Facets,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    MountEntry,
    Objects,
    OperationError,
    Pod,
    Reconstructed,
    Reference,
    Requirement,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    read_only_options,
    remove_mount_point,
    unmount_served,
    unmounted_if_it_fails,
)
from volmgr_cephfs.clients import FSTYPES, FUSE_MARKER, Wanted, key_file, mount_by_fuse, mount_by_kernel, uses_fuse
from volmgr_cephfs.keys import forget, key_of, private_file
from volmgr_cephfs.settings import CephFsSettings
from volmgr_cephfs.source import CephFsSource, check, check_options, secret_ref

_MODE = 0o750
_KEYRING = "~keyring"
"""Ends the name of the directory beside the volume in which kubelet kept a keyring: on disk, for everybody to read."""


class CephFs(VolumePlugin[CephFsSource], Measurable):
    """Give a Pod a directory of CephFS; each Pod has a mount of its own."""

    name = "kubernetes.io/cephfs"
    api_version = 1
    handles = (Handles("cephfs", source=CephFsSource),)
    supports_mount_options = True
    settings = CephFsSettings

    def volume_name(self, spec: VolumeSpec[CephFsSource]) -> str:
        return f"[{' '.join(spec.source.monitors)}]"

    def facets(self, spec: VolumeSpec[CephFsSource], objects: Objects) -> Facets:
        del objects
        return Facets(fs_group=Applies.NOBODY, relabel=False, read_only=spec.source.read_only)

    def check(self, spec: VolumeSpec[CephFsSource], pod: Pod | None) -> None:
        del pod
        check(spec)

    def references(self, spec: VolumeSpec[CephFsSource], pod: Pod) -> tuple[Reference, ...]:
        ref = secret_ref(spec, pod)
        return () if ref is None else (Reference(ref),)

    def endpoint(self, spec: VolumeSpec[CephFsSource]) -> str:
        monitors = ",".join(sorted(spec.source.addresses))
        return f"Ceph cluster with monitors {monitors}" if monitors else ""

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        if uses_fuse(host):
            return (_command("ceph-fuse", "ceph-fuse", host), _device(host))
        return (_command("mount.ceph", "ceph-common", host), _module(host))

    def mount(self, request: Mount[CephFsSource], host: Host) -> Mounted:
        check(request.spec)
        check_options(request.options)
        uid, name = request.pod.uid, request.spec.name
        forget(uid, name, host)
        if _lives(request, host):
            return Mounted()
        source, fuse = request.spec.source, uses_fuse(host)
        wanted = Wanted(
            source=source,
            target=request.target,
            options=_options(request),
            key=key_of(request, host),
            answer_within=host.settings_of(CephFsSettings).answer_within,
            deadline=request.deadline - host.clock(),
        )
        mount = mount_by_fuse if fuse else mount_by_kernel
        with unmounted_if_it_fails(request.target, host):
            host.files.ensure_directory(request.target, _MODE)
            with private_file(uid, name, key_file(source, wanted.key, fuse=fuse), host) as file:
                mount(wanted, file, host)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        forget(request.pod_uid, request.spec_name, host)
        if request.target.name.endswith(_KEYRING):
            host.files.remove_tree(request.target, cancelled=request.cancelled)
            return Unmounted()
        settings = host.settings_of(CephFsSettings)
        unmount_served(
            request.target,
            host,
            force_after=settings.force_after,
            lazy=settings.lazy_unmount,
            until=request.deadline,
        )
        remove_mount_point(request.target, host)
        host.files.remove_tree(request.target.with_name(request.target.name + _KEYRING), cancelled=request.cancelled)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[CephFsSource]:
        """Say what the mount table does; what is not mounted has no monitors, and is good for an unmount alone."""
        entry = host.mounts.entry(found.path)
        source = _source_of(entry) or CephFsSource(monitors=(), path=str(found.path))
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="cephfs", source=source))

    def measure(self, request: Measure, host: Host) -> Measured:
        return Measured.of(host.filesystems.measure(request.path))


def _options(request: Mount[CephFsSource]) -> tuple[str, ...]:
    """Give the mount options as kubelet joins them: sorted, each once."""
    read_only = request.read_only or request.spec.source.read_only
    return tuple(sorted(set(read_only_options(request.options) if read_only else request.options)))


def _lives(request: Mount[CephFsSource], host: Host) -> bool:
    """Say whether the volume is mounted; a server that died has left a mount that is taken away."""
    target = request.target
    entry = host.mounts.entry(target)
    if entry is not None and entry.fstype not in FSTYPES:
        raise OperationError(f"cannot mount a cephfs on {target}: a {entry.fstype} is mounted there; unmount it first")
    return entry is not None and host.mounts.lives(target, deadline=request.deadline - host.clock())


def _source_of(entry: MountEntry | None) -> CephFsSource | None:
    """Read `10.0.0.1:6789,10.0.0.2:6789:/path`; what ceph-fuse has mounted says nothing of its monitors."""
    if entry is None or entry.fstype != "ceph" or ":/" not in entry.source:
        return None
    monitors, _, path = entry.source.partition(":/")
    return CephFsSource(monitors=tuple(monitors.split(",")), path=f"/{path}", read_only=entry.read_only)


def _command(name: str, package: str, host: Host) -> Requirement:
    path = host.commands.find(name)
    return Requirement(
        check=name,
        met=path is not None,
        detail=f"{path}" if path else f"{name} is not installed",
        remedy=f"install the package {package}",
    )


def _module(host: Host) -> Requirement:
    """Look for the kernel's client; asked for a dry run, modprobe loads nothing."""
    known = "\tceph\n" in (host.files.read(Path("/proc/filesystems")) or b"").decode()
    if not known and host.commands.find("modprobe") is not None:
        argv = ("modprobe", "--dry-run", "--quiet", "ceph")
        known = host.commands.run(argv, accept=range(256), changes=False).exit_code == 0
    return Requirement(
        check="module ceph",
        met=known,
        detail="this kernel has a client of CephFS" if known else "this kernel has no client of CephFS",
        remedy=f"install the kernel's package of further modules, or use ceph-fuse, which brings {FUSE_MARKER}",
    )


def _device(host: Host) -> Requirement:
    there = host.files.info(Path("/dev/fuse")) is not None
    return Requirement(
        check="/dev/fuse",
        met=there,
        detail="ceph-fuse mounts here" if there else "/dev/fuse is missing, and without it ceph-fuse mounts nothing",
        remedy="modprobe fuse",
    )
