"""What a volume of `fc` is called: by kubelet, on disk, and by udev. Pure.

Sources: `pkg/volume/fc` of kubelet 1.37 (names, directories), `ValidateFCVolumeSource` of its API, and systemd's
`udev-builtin-path_id.c` and `60-persistent-storage.rules` (links).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from volmgr.plugin import NotReconstructible, SpecError

BLOCK_MAPS = "volumeDevices"
"""The directory of block maps, which lies beside those of volumes."""

_WWN = re.compile(r"[0-9a-fA-F]{16}")
_NAA = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")
_SPACE = re.compile(r"\s")
_LARGEST_LUN = 0xFFFFFFFF  # udev formats 32 bits of it
_PERIPHERAL = 256  # of SAM-5's addressing methods: a number below this is the LUN itself
_LONGEST = 255  # bytes of a file's name


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreChannelSource:
    """`fc` of a volume: a LUN at any of these ports, or a disk by its WWID."""

    target_wwns: tuple[str, ...] = field(default=(), metadata={"name": "targetWWNs"})
    lun: int | None = None
    wwids: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False

    @property
    def ports(self) -> frozenset[str]:
        """The storage's ports, as the kernel writes them but without `0x`; none where WWIDs say which disk it is."""
        return frozenset(wwn.lower() for wwn in self.target_wwns if wwn) if self.lun is not None else frozenset()

    @property
    def identities(self) -> tuple[str, ...]:
        """The WWIDs, where they are what counts, as udev writes them."""
        return () if self.ports else tuple(map(_udev_wwid, self.wwids))


def check(source: FibreChannelSource) -> None:
    """Raise SpecError, naming the field, for what names no disk."""
    if not (source.target_wwns and source.lun is not None) and not source.wwids:
        if source.target_wwns:
            raise SpecError("fc.lun is missing: targetWWNs say at which ports the LUN is, and lun which one it is")
        raise SpecError("fc names no disk: give targetWWNs and lun, or wwids")
    for place, wwn in enumerate(source.target_wwns):
        if not _WWN.fullmatch(wwn):
            raise SpecError(
                f"invalid fc.targetWWNs[{place}] {wwn!r}: write the 16 hexadecimal digits of a port's name, without"
                " colons and 0x, such as 50060e801049cfd1"
            )
    if source.lun is not None and not 0 <= source.lun <= _LARGEST_LUN:
        raise SpecError(f"invalid fc.lun {source.lun}: write the number that lsscsi shows, from 0 on")
    for place, wwid in enumerate(source.wwids):
        if not wwid.strip() or "/" in wwid or not wwid.isprintable() or wwid in {".", "..", BLOCK_MAPS}:
            raise SpecError(
                f"invalid fc.wwids[{place}] {wwid!r}: write what `/lib/udev/scsi_id --whitelisted --device=/dev/sdX`"
                " says, such as 3600508b400105e210000900000490000"
            )
    if len(directory(source).encode()) > _LONGEST:
        raise SpecError(f"fc names too many ports or wwids: the volume's directory, {directory(source)}, is too long")


def volume_name(source: FibreChannelSource) -> str:
    """Give kubelet's name, which is how Go prints a list: `[wwn1 wwn2]:lun` or `[wwid1 wwid2]`."""
    if source.ports:
        return f"[{' '.join(source.target_wwns)}]:{source.lun}"
    return f"[{' '.join(source.wwids)}]"


def directory(source: FibreChannelSource) -> str:
    """Give the name of kubelet's directory: `wwn1-wwn2-lun-0` or `wwid1-wwid2`."""
    if source.ports:
        return f"{'-'.join(source.target_wwns)}-lun-{source.lun}"
    return "-".join(source.wwids)


def of_directory(name: str) -> FibreChannelSource:
    """Read such a name as kubelet does; raises NotReconstructible. Not every one can be read: see `says_all`."""
    head, separator, tail = name.partition("-lun-")
    if not separator:
        return FibreChannelSource(wwids=tuple(name.split("-")))
    number = tail.partition("-lun-")[0]
    if not (number.isascii() and number.isdigit()):
        raise NotReconstructible(f"the directory {name} of a volume of fc has no number after -lun-")
    return FibreChannelSource(target_wwns=tuple(head.split("-")), lun=int(number))


def names_of(source: FibreChannelSource) -> FibreChannelSource:
    """Give what of a source says which disk it is, and no more."""
    if source.ports:
        return FibreChannelSource(target_wwns=source.target_wwns, lun=source.lun)
    return FibreChannelSource(wwids=source.wwids)


def says_all(source: FibreChannelSource) -> bool:
    """Say whether the name of the directory can be read back: not with `-` in a WWID."""
    try:
        return of_directory(directory(source)) == names_of(source)
    except NotReconstructible:
        return False


def path_links(source: FibreChannelSource, names: Iterable[str]) -> tuple[str, ...]:
    """Choose from `/dev/disk/by-path` the links to a LUN at its ports, whatever the ports' host is connected by.

    kubelet knows `pci-…-fc-0x…` and `fc-0x…`; udev makes the same after each other bus, such as `ccw-0.0.f5a0-fc-0x…`.
    """
    if not source.ports or source.lun is None:
        return ()
    pattern = re.compile(
        f"(?:.+-)?fc-0x(?:{'|'.join(map(re.escape, sorted(source.ports)))})-lun-{_udev_lun(source.lun)}", re.IGNORECASE
    )
    return tuple(name for name in names if pattern.fullmatch(name))


def id_links(source: FibreChannelSource, names: Iterable[str]) -> tuple[str, ...]:
    """Choose from `/dev/disk/by-id` the links to a disk of its WWIDs, or to the multipath map over it."""
    wanted = {link for wwid in source.identities for link in _links_of(wwid)}
    return tuple(name for name in names if name.lower() in wanted)


def full_wwid(wwid: str) -> str:
    """Give the identity that a disk of a WWID has, `3` and its NAA name; empty where the WWID is no such name."""
    text = wwid.lower()
    if _NAA.fullmatch(text):
        return f"3{text}"
    return text if text.startswith("3") and _NAA.fullmatch(text[1:]) else ""


def _links_of(wwid: str) -> set[str]:
    links = {f"scsi-{wwid.lower()}", f"dm-uuid-mpath-{wwid.lower()}"}
    full = full_wwid(wwid)
    return links | ({f"scsi-{full}", f"dm-uuid-mpath-{full}", f"wwn-0x{full[1:]}"} if full else set[str]())


def _udev_wwid(wwid: str) -> str:
    return _SPACE.sub("_", wwid)


def _udev_lun(lun: int) -> str:
    return str(lun) if lun < _PERIPHERAL else f"0x{lun & 0xFFFF:04x}{lun >> 16:04x}00000000"
