"""What a manifest says of an iSCSI volume, and what no node could take. Pure.

Source: `ISCSIVolumeSource`, `ISCSIPersistentVolumeSource` and their validation in the API of Kubernetes 1.37.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from volmgr.plugin import SecretReference, SpecError, VolumeSpec
from volmgr_iscsi.portals import Portal

DEFAULT_INTERFACE = "default"
"""The initiator interface of a volume that names none; open-iscsi's."""

LARGEST_LUN = 255
_LONGEST = 223  # bytes of a name; RFC 3720, 3.2.6.1
_NAME = re.compile(
    r"iqn\.\d{4}-\d{2}\.[a-z0-9.-]+(:[^\s,;*&$|/]+)?|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32})",
    re.ASCII | re.IGNORECASE,
)
"""RFC 3720, 3.2.6; without what has a meaning in paths, since directories are named by it."""
_INTERFACE = re.compile(r"[A-Za-z0-9._:@-]+", re.ASCII)


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

    @property
    def needs_secret(self) -> bool:
        """Whether anything is proved by CHAP."""
        return self.chap_auth_discovery or self.chap_auth_session


def check_source(spec: VolumeSpec[IscsiSource]) -> None:
    """Raise SpecError, naming the field, for what no node could connect."""
    source = spec.source
    for text in (source.target_portal, *source.portals):
        try:
            Portal.parse(text)
        except ValueError as error:
            raise _refused(spec, "portals" if text in source.portals else "targetPortal", str(error)) from None
    if not is_iscsi_name(source.iqn):
        problem = f"{source.iqn!r} is no iSCSI name; write one such as iqn.2026-01.com.example:disks"
        raise _refused(spec, "iqn", problem)
    if not 0 <= source.lun <= LARGEST_LUN:
        raise _refused(spec, "lun", f"{source.lun} is not between 0 and {LARGEST_LUN}")
    if source.initiator_name and not is_iscsi_name(source.initiator_name):
        raise _refused(
            spec,
            "initiatorName",
            f"{source.initiator_name!r} is no iSCSI name; write one such as iqn.2026-01.com.example:node-7",
        )
    if source.iscsi_interface and not _is_interface(source.iscsi_interface):
        raise _refused(
            spec,
            "iscsiInterface",
            f"{source.iscsi_interface!r} names no interface of open-iscsi; `iscsiadm -m iface` lists them",
        )
    if source.needs_secret and (source.secret_ref is None or not source.secret_ref.name):
        raise _refused(spec, "secretRef", "it is missing, and CHAP needs a Secret with names and passwords")


def is_iscsi_name(text: str) -> bool:
    """Say whether something is called so in iSCSI; no name has characters that nobody sees."""
    return _NAME.fullmatch(text) is not None and text.isprintable() and len(text.encode()) <= _LONGEST


def is_file_name(text: str) -> bool:
    """Say whether a record can be called so: it names nothing in another directory."""
    return text not in {"", ".", ".."} and "/" not in text and text.isprintable()


def _is_interface(name: str) -> bool:
    return _INTERFACE.fullmatch(name) is not None and is_file_name(name)


def _refused(spec: VolumeSpec[IscsiSource], field_name: str, problem: str) -> SpecError:
    return SpecError(f"invalid iscsi.{field_name} of volume {spec.name}: {problem}")
