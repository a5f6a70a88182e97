"""What the configuration may say of iSCSI volumes, below `plugins: {kubernetes.io/iscsi: …}`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class IscsiSettings:
    """All settings; durations are seconds. Those of kubelet are constants of its `pkg/volume/iscsi/iscsi_util.go`."""

    login_timeout: int = field(default=15, metadata={"name": "login_timeout"})
    """What a portal may take to let the node in; open-iscsi's own default. One that swallows packets costs that."""
    device_timeout: float = field(default=30.0, metadata={"name": "device_timeout"})
    """How long a LUN is waited for after it was looked for; kubelet's deviceDiscoveryTimeout."""
    multipath_timeout: float = field(default=10.0, metadata={"name": "multipath_timeout"})
    """How long a multipath map over several paths is waited for; kubelet's multipathDeviceTimeout."""
    enough_paths: int = field(default=2, metadata={"name": "enough_paths"})
    """How many portals suffice once each was tried `least_attempts` times; kubelet's minMultipathCount."""
    least_attempts: int = field(default=2, metadata={"name": "least_attempts"})
    """How often a portal that refuses is tried while others work; kubelet's minAttachAttempts."""
    most_attempts: int = field(default=5, metadata={"name": "most_attempts"})
    """How often, while fewer than `enough_paths` work; kubelet's maxAttachAttempts."""
    repair_pause: float = field(default=60.0, metadata={"name": "repair_pause"})
    """After how long portals that failed are tried again, while the volume is mounted; it doubles each time."""
    longest_repair_pause: float = field(default=900.0, metadata={"name": "longest_repair_pause"})
    """What it doubles to at most."""

    def __post_init__(self) -> None:
        """Refuse what would refuse every volume, or try without a pause, and times that are none."""
        least = {"login_timeout": 1, "most_attempts": 1, "repair_pause": 1, "longest_repair_pause": 1}
        for each in fields(self):
            value, smallest = getattr(self, each.name), least.get(each.name, 0)
            if value < smallest:
                raise ValueError(f"{each.name} is {value:g}; write {smallest} or more, such as {each.default:g}")

    def pause(self, tries: int) -> float:
        """Give how long to wait before the next repair, when so many have failed."""
        return min(self.longest_repair_pause, self.repair_pause * 2.0 ** min(tries, 32))
