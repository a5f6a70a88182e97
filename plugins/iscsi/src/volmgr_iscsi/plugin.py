"""iscsi: a LUN of an iSCSI target.

Behaviour: `pkg/volume/iscsi` of kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from volmgr.plugin import DiskVolume, Handles, SecretReference


@dataclass(frozen=True, slots=True, kw_only=True)
class IscsiSource:
    """`iscsi` of a volume: a LUN, and how to log in at its target; portals are `address[:port]`."""

    target_portal: str
    iqn: str
    lun: int
    portals: tuple[str, ...] = ()
    iscsi_interface: str = ""
    initiator_name: str = ""
    fs_type: str = ""
    read_only: bool = False
    chap_auth_discovery: bool = field(default=False, metadata={"name": "chapAuthDiscovery"})
    chap_auth_session: bool = field(default=False, metadata={"name": "chapAuthSession"})
    secret_ref: SecretReference | None = None


class Iscsi(DiskVolume[IscsiSource]):
    """Give a Pod a LUN of an iSCSI target."""

    name = "kubernetes.io/iscsi"
    api_version = 1
    handles = (Handles("iscsi", source=IscsiSource),)
    supports_mount_options = True
