"""How a volume is to be used, as a driver is told; imports protobuf.

Source: csi-lib-utils' `ToCSIAccessMode`, by which external-attacher and external-provisioner ask. kubelet tells the
node service a volume's first access mode alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from volmgr.plugin import SpecError, VolumeMode
from volmgr_csi.v1 import csi_pb2 as csi

AccessMode = csi.VolumeCapability.AccessMode.Mode

_MODES = {
    "ReadWriteOnce": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": csi.VolumeCapability.AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": csi.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER,
}
_SEVERAL_WRITERS = {
    **_MODES,
    "ReadWriteOnce": csi.VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER,
}
"""Those of a driver that has SINGLE_NODE_MULTI_WRITER."""


def capability(
    mode: VolumeMode, access: AccessMode | str, *, fs_type: str = "", flags: Iterable[str] = (), group: str = ""
) -> csi.VolumeCapability:
    """Give a capability; `access` may be CSI's name of a mode, and `group` is the one that gets the files.

    A block volume has neither file system, flags nor group.
    """
    access_mode = csi.VolumeCapability.AccessMode(mode=access)
    if mode is VolumeMode.BLOCK:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=access_mode)
    mount = csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=flags, volume_mount_group=group)
    return csi.VolumeCapability(mount=mount, access_mode=access_mode)


def access_of(modes: Iterable[str], *, multi_writer: bool) -> AccessMode:
    """Give the one access mode of a volume that has all of these; raises SpecError where CSI has none.

    `multi_writer`: the driver has SINGLE_NODE_MULTI_WRITER.
    """
    known = _SEVERAL_WRITERS if multi_writer else _MODES
    wanted = list(dict.fromkeys(modes)) or ["ReadWriteOnce"]
    strange = [mode for mode in wanted if mode not in known]
    if strange:
        raise SpecError(f"accessModes: {strange[0]!r} is none; write one of {', '.join(known)}")
    if len(wanted) > 1 and "ReadWriteOncePod" in wanted:
        raise SpecError("accessModes: ReadWriteOncePod cannot stand beside others; write it alone")
    if "ReadWriteMany" in wanted:
        return known["ReadWriteMany"]
    if len(wanted) > 1:
        raise SpecError(
            "accessModes: csi knows no volume that is both ReadOnlyMany and ReadWriteOnce; write one of them"
        )
    return known[wanted[0]]
