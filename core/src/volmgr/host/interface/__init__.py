"""The host as plugins see it: small services, each a protocol with a real and a fake implementation.

Every verb is idempotent: it states what must be true afterwards. Errors are those of `volmgr.errors`;
a missing thing that was to be removed is success.
A module here says what a service promises; that of the same name beside this package does it on the real machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self, TypeVar, cast

from volmgr.host.atomic import AtomicWriter
from volmgr.host.empty_dirs import EmptyDirs
from volmgr.host.filesystems import FileSystems
from volmgr.host.interface.archives import Archives, Unpacked, Unpacking
from volmgr.host.interface.block import BlockDevices
from volmgr.host.interface.certificates import Certificate, Certificates, CertificateWish, NoCertificates
from volmgr.host.interface.commands import HELPER_DEADLINE, CommandResult, Commands
from volmgr.host.interface.files import FileInfo, Files, Identity
from volmgr.host.interface.mounts import FileSystem, MountEntry, Mounts, SeenMount
from volmgr.host.interface.network import Network
from volmgr.host.interface.ownership import Ownership, OwnershipProgress
from volmgr.host.interface.scsi import SCSI_DEADLINE, SCSI_ID, MultipathMap, Scsi, ScsiAddress, ScsiDisk
from volmgr.host.interface.subpaths import Subpaths
from volmgr.host.interface.tokens import NoTokens, Tokens
from volmgr.host.paths import Paths

__all__ = [
    "HELPER_DEADLINE",
    "SCSI_DEADLINE",
    "SCSI_ID",
    "Archives",
    "BlockDevices",
    "Certificate",
    "CertificateWish",
    "Certificates",
    "CommandResult",
    "Commands",
    "FileInfo",
    "FileSystem",
    "Files",
    "Host",
    "Identity",
    "Kernel",
    "MountEntry",
    "Mounts",
    "MultipathMap",
    "Network",
    "NoCertificates",
    "NoTokens",
    "Ownership",
    "OwnershipProgress",
    "Scsi",
    "ScsiAddress",
    "ScsiDisk",
    "SeenMount",
    "Subpaths",
    "Tokens",
    "Unpacked",
    "Unpacking",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What the running kernel and machine can do; read once."""

    boot_id: str
    memory: int
    processors: int = 1
    tmpfs_noswap: bool = False
    huge_page_sizes: tuple[int, ...] = ()
    user_namespace: bool = False
    container_label: str = ""
    """The label of containers' files (`system_u:object_r:container_file_t:s0`); empty: the node has no SELinux."""


@dataclass(frozen=True, slots=True)
class Host:
    """Everything a plugin may touch."""

    paths: Paths
    mounts: Mounts
    files: Files
    commands: Commands
    block: BlockDevices
    ownership: Ownership
    subpaths: Subpaths
    archives: Archives
    scsi: Scsi
    network: Network
    kernel: Kernel
    clock: Callable[[], float] = field(repr=False)
    tokens: Tokens = field(default_factory=NoTokens)
    certificates: Certificates = field(default_factory=NoCertificates)
    settings: Mapping[type, object] = field(default_factory=lambda: MappingProxyType({}))
    """What the configuration says, by the dataclass that it was read into."""

    @property
    def atomic(self) -> AtomicWriter:
        """Who writes the files of a volume at once."""
        return AtomicWriter(self.files)

    @property
    def empty_dirs(self) -> EmptyDirs:
        """Who makes directories that live as long as their Pod."""
        return EmptyDirs(self)

    @property
    def filesystems(self) -> FileSystems:
        """Who formats, mounts and grows the file systems of block devices."""
        return FileSystems(self)

    def settings_of(self, cls: type[T]) -> T:
        """Give what the configuration says for one dataclass; its defaults where it says nothing."""
        return cast("T", self.settings[cls]) if cls in self.settings else cls()

    def with_tokens(self, tokens: Tokens) -> Self:
        """Give this host with another issuer of tokens."""
        return replace(self, tokens=tokens)

    def with_certificates(self, certificates: Certificates) -> Self:
        """Give this host with somebody else who has certificates signed."""
        return replace(self, certificates=certificates)

    def with_settings(self, *settings: object) -> Self:
        """Give this host with other settings."""
        return replace(self, settings=MappingProxyType({type(one): one for one in settings}))
