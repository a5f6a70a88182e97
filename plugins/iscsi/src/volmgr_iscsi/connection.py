"""How one LUN is connected: over which portals and interface, to which target; its directory's name. Pure.

Source: `iscsiDisk` and `makePDNameInternal` of kubelet's `pkg/volume/iscsi`; behaviours §4.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from volmgr.plugin import VolumeSpec
from volmgr_iscsi.portals import Portal, without_repetition
from volmgr_iscsi.source import DEFAULT_INTERFACE, IscsiSource

_INTERFACE = "iface-"
_LUN = "-lun-"
_BEGIN_OF_NAME = re.compile(r"-(?=(iqn|eui|naa)\.)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What has to be known to connect a LUN, and to disconnect it; never a secret.

    `portals` are as in kubelet's names. `base_interface` is the one that `interface` was cloned from, or is.
    """

    name: str
    """The volume's."""
    portals: tuple[str, ...]
    iqn: str
    lun: int
    interface: str = DEFAULT_INTERFACE
    base_interface: str = DEFAULT_INTERFACE
    initiator_name: str = ""

    @classmethod
    def of(cls, spec: VolumeSpec[IscsiSource]) -> Self:
        """Give that of a volume."""
        source = spec.source
        portals = without_repetition((source.target_portal, *source.portals))
        base = source.iscsi_interface or DEFAULT_INTERFACE
        return cls(
            name=spec.name,
            portals=portals,
            iqn=source.iqn,
            lun=source.lun,
            interface=f"{portals[0]}:{spec.name}" if source.initiator_name else base,
            base_interface=base,
            initiator_name=source.initiator_name,
        )

    @classmethod
    def of_directory(cls, directory: Path) -> Self:
        """Read as much as a directory's name says, which is one portal; raises ValueError, as kubelet words it."""
        interface = directory.parent.name
        if not interface.startswith(_INTERFACE):
            raise ValueError(f"failed to retrieve iface from {directory}")
        device, separator, lun = directory.name.rpartition(_LUN)
        begin = _BEGIN_OF_NAME.search(device)
        if not separator or not (lun.isascii() and lun.isdigit()) or begin is None:
            raise ValueError(f"malformatted mnt path: {directory}")
        own, portal = interface.removeprefix(_INTERFACE), device[: begin.start()]
        Portal.parse(portal)
        return cls(
            name=directory.name,
            portals=(portal,),
            iqn=device[begin.end() :],
            lun=int(lun),
            interface=own,
            base_interface=own,
        )

    @property
    def directory(self) -> str:
        """The volume's directory below that of its type."""
        return f"{_INTERFACE}{self.interface}/{self.portals[0]}-{self.iqn}{_LUN}{self.lun}"

    @property
    def in_names(self) -> str:
        """What the directories of all LUNs of its target have in their names."""
        return f"-{self.iqn}{_LUN}"

    @property
    def places(self) -> tuple[Portal, ...]:
        """The portals, to be compared and to be given to iscsiadm."""
        return tuple(Portal.parse(text) for text in self.portals)

    @property
    def has_own_interface(self) -> bool:
        """Whether its interface was cloned for it alone."""
        return bool(self.initiator_name) and self.interface == f"{self.portals[0]}:{self.name}"

    @property
    def source(self) -> IscsiSource:
        """The source that such a volume has, as far as it can be told."""
        return IscsiSource(
            target_portal=self.portals[0],
            portals=self.portals[1:],
            iqn=self.iqn,
            lun=self.lun,
            iscsi_interface=self.base_interface,
            initiator_name=self.initiator_name,
        )


def is_interface_directory(name: str) -> bool:
    """Say whether a directory of the type holds the volumes of one interface."""
    return name.startswith(_INTERFACE)
