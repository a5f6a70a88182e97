"""Interfaces with an initiator name of their own: cloned for one volume from the one that it names.

Source: `cloneIface` of kubelet's `pkg/volume/iscsi/iscsi_util.go`.
"""

from __future__ import annotations

from volmgr.plugin import Host, taken_back
from volmgr_iscsi.connection import Connection
from volmgr_iscsi.database import interface_records
from volmgr_iscsi.iscsiadm import Iscsiadm, interface_settings

_INITIATOR = "iface.initiatorname"
_UNSET = "0"
"""What a number is in an interface that was just made."""


def ensure_interface(connection: Connection, iscsiadm: Iscsiadm) -> None:
    """Let the volume's interface be there: one that it only names is open-iscsi's or somebody else's."""
    if not connection.has_own_interface:
        return
    own = connection.interface
    settings = {**interface_settings(iscsiadm.show_interface(connection.base_interface))}
    settings[_INITIATOR] = connection.initiator_name
    iscsiadm.make_interface(own)
    with taken_back(lambda: iscsiadm.delete_interface(own), f"making interface {own}"):
        for name in sorted(settings):
            if settings[name] != _UNSET:
                iscsiadm.set_interface(own, name, settings[name])


def remove_interface(connection: Connection, iscsiadm: Iscsiadm, host: Host) -> None:
    """Delete an interface that was cloned for a volume; gone is success."""
    if connection.has_own_interface and interface_records(connection.interface, host):
        iscsiadm.delete_interface(connection.interface)
