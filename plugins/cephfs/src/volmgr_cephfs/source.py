"""What a manifest says of a CephFS, and what of that is refused. Pure.

Source: `CephFSVolumeSource` and `CephFSPersistentVolumeSource` of the API of Kubernetes 1.30.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from volmgr.plugin import ObjectRef, Pod, SecretReference, SpecError, VolumeSpec, path_problem

DEFAULT_USER = "admin"

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?"
_IPV6 = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
_MONITOR = re.compile(rf"(?P<host>{_NAME}|\[{_IPV6}\])(?P<port>:[0-9]{{1,5}})?")
_BARE_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*")  # two colons are no port
_PORTS = range(1, 1 << 16)
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]*")
_SECRET_OPTIONS = ("secret=", "key=")


@dataclass(frozen=True, slots=True, kw_only=True)
class CephFsSource:
    """`cephfs` of a volume: a directory of a file system that these monitors know, and as whom it is mounted."""

    monitors: tuple[str, ...]
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False

    @property
    def name(self) -> str:
        """The user, without `client.`; kubelet's default."""
        return self.user or DEFAULT_USER

    @property
    def directory(self) -> str:
        """The directory of the file system."""
        return self.path or "/"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The monitors as both clients read them: an IPv6 address has its brackets; without a port it is Ceph's."""
        return tuple(f"[{each}]" if _BARE_IPV6.fullmatch(each) else each for each in self.monitors)

    @property
    def file(self) -> str:
        """The file of the node with the user's secret, where no Secret is named; kubelet's default."""
        return self.secret_file or f"/etc/ceph/{self.name}.secret"


def check(spec: VolumeSpec[CephFsSource]) -> None:
    """Raise SpecError for what neither client could mount, or would read as something else."""
    source = spec.source
    if not source.monitors:
        raise SpecError("cephfs.monitors is empty; name at least one, such as 10.0.0.1:6789")
    for number, monitor in enumerate(source.monitors):
        if not _is_address(monitor):
            raise SpecError(
                f"cephfs.monitors[{number}] {monitor!r} is no address; write a name, an IPv4 address or an IPv6 one in"
                " brackets, and perhaps a port, such as [fd00::1]:6789"
            )
    if not _USER.fullmatch(source.name) or source.name.startswith("client."):
        raise SpecError(f"cephfs.user {source.user!r} is no name of a user; write one such as admin, without client.")
    for field, path in (("path", source.directory), ("secretFile", source.file)):
        if problem := path_problem(path):
            raise SpecError(f"cephfs.{field} {path!r} {problem}")
    wanted = source.secret_ref
    if wanted is not None and not wanted.name:
        raise SpecError("cephfs.secretRef has no name; name the Secret, or leave it out")
    check_options(spec.mount_options)


def _is_address(monitor: str) -> bool:
    found = _MONITOR.fullmatch(monitor)
    if found is None:
        return _BARE_IPV6.fullmatch(monitor) is not None
    return found["port"] is None or int(found["port"][1:]) in _PORTS


def check_options(options: Iterable[str]) -> None:
    """Raise SpecError for mount options that hold a secret: everybody may read them."""
    for option in (each.strip() for text in options for each in text.split(",")):
        if option.startswith(_SECRET_OPTIONS):
            name = option.partition("=")[0]
            raise SpecError(f"the mount option {name}= would show a secret to everybody; name a Secret in secretRef")


def secret_ref(spec: VolumeSpec[CephFsSource], pod: Pod) -> ObjectRef | None:
    """Name the Secret, if one is named: that of an inline volume is in its Pod's namespace."""
    wanted = spec.source.secret_ref
    if wanted is None or not wanted.name:
        return None
    namespace = "" if spec.inline else wanted.namespace
    return ObjectRef("Secret", namespace or pod.metadata.namespace, wanted.name)
