"""kubelet's `vol_data.json`: which volume lies in a directory, in its very format.

Both generations are read: kubelet 1.30 wrote one for drivers that stage nothing, too. Written at once and synced, so
that no crash leaves an empty one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from volmgr.plugin import OperationError, attachment_name
from volmgr_csi.driver.names import is_driver_name
from volmgr_csi.node.layout import digest
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from volmgr.plugin import Host

FILE = "vol_data.json"
DRIVER, HANDLE, LABEL, LIFECYCLE = "driverName", "volumeHandle", "seLinuxMountContext", "volumeLifecycleMode"
PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
_SPEC, _NODE, _ATTACHMENT = "specVolID", "nodeName", "attachmentID"
_MODE = 0o644
_SURROGATE = re.compile("[\ud800-\udfff]")
"""What JSON can escape, and UTF-8 cannot have."""
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""What Go's encoder escapes beyond JSON."""


def go_json(fields: Mapping[str, object]) -> str:
    """Give an object as Go's encoder does: sorted, without spaces."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolData:
    """What the file says that everybody needs."""

    driver: str
    handle: str
    lifecycle: str = ""
    """`Persistent` or `Ephemeral`; empty in files of the node's mounts and of block volumes."""
    label: str = ""
    """The SELinux label that it is mounted with."""


def device_texts(driver: str, handle: str, label: str) -> Mapping[str, str]:
    """Give what the file of a node's mount says."""
    return {DRIVER: driver, HANDLE: handle} | ({LABEL: label} if label else {})


def block_texts(driver: str, handle: str, spec_name: str, node_name: str) -> Mapping[str, str]:
    """Give what the file of a block volume says."""
    return {
        _SPEC: spec_name,
        HANDLE: handle,
        DRIVER: driver,
        _NODE: node_name,
        _ATTACHMENT: attachment_name(driver, handle, node_name),
    }


def pod_texts(data: VolData, spec_name: str, node_name: str) -> Mapping[str, str]:
    """Give what the file of one Pod's volume says."""
    texts = {**block_texts(data.driver, data.handle, spec_name, node_name), LIFECYCLE: data.lifecycle}
    return texts | ({LABEL: data.label} if data.label else {})


def write(host: Host, directory: Path, texts: Mapping[str, str]) -> None:
    """Write the file of a directory that exists, unless it says this already."""
    text = f"{go_json(texts)}\n".encode()
    with suppress(OperationError):  # what cannot be read is replaced
        if host.files.read(directory / FILE) == text:
            return
    host.files.write(directory / FILE, text, _MODE, durable=True)


def remove(host: Host, directory: Path) -> None:
    """Remove the file of a directory, and what a daemon that was killed while it wrote one has left.

    A directory in its place is removed if it is empty.
    """
    for name in host.files.names(directory):
        if name == FILE or (name.startswith(f".{FILE}.") and name.endswith(".tmp")):
            info = host.files.info(directory / name)
            if info is not None and info.kind == "directory":
                host.files.remove_directory(directory / name)
            else:
                host.files.remove_file(directory / name)


def read(host: Host, directory: Path) -> VolData | None:
    """Give what a directory's file says; None when it is missing, damaged or of another directory."""
    try:
        said: object = json.loads(host.files.read(directory / FILE) or b"")
    except (OperationError, ValueError, RecursionError):  # whatever lies there in its place
        return None
    if not isinstance(said, dict):
        return None
    fields = cast("dict[str, object]", said)
    driver, handle, lifecycle, label = (_text(fields, key) for key in (DRIVER, HANDLE, LIFECYCLE, LABEL))
    if not is_driver_name(driver) or not handle or not _belongs(host, directory, driver, handle):
        return None
    return VolData(driver=driver, handle=handle, lifecycle=lifecycle, label=label)


def _belongs(host: Host, directory: Path, driver: str, handle: str) -> bool:
    """Say whether a file is of the directory that it lies in: else another volume would be unstaged there."""
    if directory.parent.parent != host.paths.plugin(NAME):
        return True
    return (directory.parent.name, directory.name) == (driver, digest(handle))


def _text(fields: Mapping[str, object], key: str) -> str:
    """Give a text; empty for what is none, or cannot be told to a driver."""
    value = fields.get(key)
    return value if isinstance(value, str) and not _SURROGATE.search(value) else ""
