"""nfs: an NFS export.

Behaviour: `pkg/volume/nfs` of kubelet 1.37.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from volmgr.plugin import (
    Applies,
    CommandError,
    Facets,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    Objects,
    OperationError,
    Pod,
    Reconstructed,
    Requirement,
    SpecError,
    UnansweredError,
    Unmount,
    Unmounted,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    remove_mount_point,
    unmount_served,
    unmounted_if_it_fails,
)
from volmgr_nfs.options import mount_options, port_to_ask
from volmgr_nfs.refusals import explained
from volmgr_nfs.requirements import requirements
from volmgr_nfs.settings import NfsSettings

_MODE = 0o750
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # an IPv4 address is one
_IPV6 = re.compile(r"[A-Fa-f0-9:.]+(%[A-Za-z0-9._-]+)?")
_BRACKETS = re.compile(r"\A\[(.*)\]\Z")
_TYPES = ("nfs", "nfs4")


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSource:
    """`nfs` of a volume: what a server exports."""

    server: str
    path: str
    read_only: bool = False


class Nfs(VolumePlugin[NfsSource], Measurable):
    """Give a Pod an NFS export, mounted for it alone."""

    name = "kubernetes.io/nfs"
    api_version = 1
    handles = (Handles("nfs", source=NfsSource),)
    supports_mount_options = True
    settings = NfsSettings

    def volume_name(self, spec: VolumeSpec[NfsSource]) -> str:
        return f"{spec.source.server}/{spec.source.path}"

    def facets(self, spec: VolumeSpec[NfsSource], objects: Objects) -> Facets:
        """Say that the server decides who may do what: no files are given to a group, none are relabelled."""
        del spec, objects
        return Facets(fs_group=Applies.NOBODY, relabel=False)

    def endpoint(self, spec: VolumeSpec[NfsSource]) -> str:
        return f"server {_bracketed(spec.source.server)}" if spec.source.server else ""

    def check(self, spec: VolumeSpec[NfsSource], pod: Pod | None) -> None:
        del pod
        _export(spec)
        mount_options(spec.mount_options, read_only=spec.read_only)

    def requirements(self, host: Host) -> tuple[Requirement, ...]:
        return requirements(host)

    def mount(self, request: Mount[NfsSource], host: Host) -> Mounted:
        export, target = _export(request.spec), request.target
        options = mount_options(request.options, read_only=request.read_only)
        if _is_there(request, host):
            return Mounted()
        with unmounted_if_it_fails(target, host):
            _await_answer(request.spec.source.server, export, options, host)
            host.files.ensure_directory(target, _MODE)
            try:
                left = request.deadline - host.clock()
                host.mounts.ensure_mounted(target, "nfs", source=export, options=options, deadline=left)
            except CommandError as error:
                raise explained(error, export) from error
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        settings = host.settings_of(NfsSettings)
        unmount_served(
            request.target,
            host,
            force_after=settings.force_after,
            lazy=settings.lazy_unmount,
            until=request.deadline,
        )
        remove_mount_point(request.target, host)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[NfsSource]:
        """Take server and path from the mount; without one, all that kubelet's directory says is the volume's name."""
        source = NfsSource(server="", path=found.spec_name)
        entry = host.mounts.entry(found.path) if found.mode is VolumeMode.FILESYSTEM else None
        if entry is not None and entry.fstype in _TYPES:
            server, colon, path = entry.source.partition(":/")
            if colon:
                source = NfsSource(server=server, path=f"/{path}", read_only=entry.read_only)
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="nfs", source=source, mode=found.mode))

    def measure(self, request: Measure, host: Host) -> Measured:
        return Measured.of(host.filesystems.measure(request.path))


def _export(spec: VolumeSpec[NfsSource]) -> str:
    """Give an export as mount(8) takes it; raises SpecError for what is none."""
    server, path = spec.source.server, spec.source.path
    if not (_NAME.fullmatch(server) or _is_ipv6(_BRACKETS.sub(r"\1", server))):
        raise SpecError(
            f"invalid nfs.server {server!r} of volume {spec.name}: write a host name or an address, without a port"
        )
    if not path.startswith("/") or any(character in path for character in "\0\n"):
        raise SpecError(
            f"invalid nfs.path {path!r} of volume {spec.name}: write the absolute path that the server exports"
        )
    return f"{_bracketed(server)}:{path}"


def _bracketed(server: str) -> str:
    """Give a server as it stands before a colon."""
    return f"[{server}]" if _is_ipv6(server) else server


def _is_ipv6(server: str) -> bool:
    try:
        ipaddress.IPv6Address(server)
    except ValueError:
        return False
    return _IPV6.fullmatch(server) is not None


def _await_answer(server: str, export: str, options: tuple[str, ...], host: Host) -> None:
    """Find out quickly whether the server is there at all; mount.nfs may take minutes to say so."""
    patience, port = host.settings_of(NfsSettings).answer_within, port_to_ask(options)
    if not patience or not port:
        return
    try:
        host.network.reach(server.strip("[]"), port, within=patience)
    except OperationError as error:
        kind = UnansweredError if isinstance(error, UnansweredError) else OperationError
        raise kind(f"cannot mount {export}: {error}") from error


def _is_there(request: Mount[NfsSource], host: Host) -> bool:
    """Say whether the volume is mounted and alive; raises OperationError for what somebody else has mounted there.

    Of which server a mount is, the table does not say for certain: one server may have several names.
    """
    entry = host.mounts.entry(request.target)
    if entry is None:
        return False
    if entry.fstype not in _TYPES:
        raise OperationError(
            f"cannot mount {_export(request.spec)} on {request.target}: {entry.source} ({entry.fstype}) is mounted"
            " there; unmount it first"
        )
    left = request.deadline - host.clock()
    return host.mounts.lives(request.target, deadline=min(left, host.settings_of(NfsSettings).answer_within or left))
