"""`iscsi.json` beside a LUN's mount: how it was connected, in kubelet's format byte for byte. Pure.

Source: `persistISCSI` of kubelet's `pkg/volume/iscsi/iscsi_util.go`, which encodes `iscsiDisk` by Go's `encoding/json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from volmgr_iscsi.connection import Connection
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.source import DEFAULT_INTERFACE, LARGEST_LUN, is_file_name, is_iscsi_name

FILE = "iscsi.json"
MODE = 0o644
"""kubelet's; there is nothing secret in it."""

_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def encode(connection: Connection) -> bytes:
    """Write a connection."""
    fields = {
        "VolName": connection.name,
        "Portals": connection.portals,
        "Iqn": connection.iqn,
        "Lun": str(connection.lun),
        "InitIface": connection.base_interface,
        "Iface": connection.interface,
        "InitiatorName": connection.initiator_name,
        "MetricsProvider": None,
    }
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{text.translate(_ESCAPED)}\n".encode()


def decode(data: bytes) -> Connection:
    """Read a connection; raises ValueError for what is none."""
    read: object = json.loads(data)
    if not isinstance(read, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - the file is wrong, not the program
    fields = cast("Mapping[str, object]", read)
    portals = fields.get("Portals")
    if not isinstance(portals, list) or not portals:
        raise ValueError("it names no portals")
    texts = [each if isinstance(each, str) else "" for each in cast("list[object]", portals)]
    found = Connection(
        name=_text(fields, "VolName"),
        portals=tuple(texts),
        iqn=_text(fields, "Iqn"),
        lun=int(_text(fields, "Lun")),
        interface=_text(fields, "Iface") or DEFAULT_INTERFACE,
        base_interface=_text(fields, "InitIface") or DEFAULT_INTERFACE,
        initiator_name=_text(fields, "InitiatorName"),
    )
    if not is_iscsi_name(found.iqn) or not 0 <= found.lun <= LARGEST_LUN:
        raise ValueError("it names no LUN of a target")
    if not all(map(is_file_name, (found.interface, found.base_interface))):
        raise ValueError("it names no interface")
    for text in found.portals:
        Portal.parse(text)
    return found


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
