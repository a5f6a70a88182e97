"""What the configuration says of NFS volumes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSettings:
    """What the configuration says below `plugins`, `kubernetes.io/nfs`; durations are seconds."""

    answer_within: float = field(default=5.0, metadata={"name": "answer_within"})
    """What a server may take to answer on its TCP port before anything is mounted; 0: it is not asked before."""
    force_after: float = field(default=60.0, metadata={"name": "force_after"})
    """How long a server that does not answer is waited for before its volume is unmounted by force; kubelet's 1 min."""
    lazy_unmount: bool = field(default=False, metadata={"name": "lazy_unmount"})
    """Detach a volume that even by force cannot be unmounted; who still waits in it, waits on."""

    def __post_init__(self) -> None:
        """Refuse times that are none."""
        for name in ("answer_within", "force_after"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name):g}; write seconds, such as 60")
