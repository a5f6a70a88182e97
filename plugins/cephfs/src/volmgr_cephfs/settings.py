"""What the configuration says of cephfs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Client(StrEnum):
    """Who mounts."""

    AUTO = "auto"
    """As kubelet chose: ceph-fuse where /sbin/mount.fuse.ceph is executable, else the kernel."""
    KERNEL = "kernel"
    FUSE = "fuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CephFsSettings:
    """What the configuration says below `plugins`, `kubernetes.io/cephfs`; durations are seconds."""

    client: Client = field(default=Client.AUTO, metadata={"name": "client"})
    """Who mounts: `kernel`, `fuse`, or `auto`, which is as kubelet chose."""
    answer_within: int = field(default=60, metadata={"name": "answer_within"})
    """What the monitors may take to answer while a volume is mounted; the kernel's default, for both clients."""
    force_after: float = field(default=60.0, metadata={"name": "force_after"})
    """How long a cluster that does not answer is waited for before its volume is unmounted by force."""
    lazy_unmount: bool = field(default=False, metadata={"name": "lazy_unmount"})
    """Detach a volume that even by force cannot be unmounted; who still waits in it, waits on."""

    def __post_init__(self) -> None:
        """Refuse times that are none."""
        if self.answer_within < 1:
            raise ValueError(f"answer_within is {self.answer_within}; write seconds, such as 60")
        if self.force_after < 0:
            raise ValueError(f"force_after is {self.force_after:g}; write seconds, such as 60")
