"""What a node must have for iSCSI volumes, for `volmgr doctor`; looked at, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Host, Requirement, disk_requirements
from volmgr_iscsi.iscsiadm import INSTALL

INITIATOR = Path("/etc/iscsi/initiatorname.iscsi")
SOCKETS = Path("/proc/net/unix")
MODULE = Path("/sys/module/iscsi_tcp")

_DAEMON = "@ISCSIADM_ABSTRACT_NAMESPACE"
"""The socket of iscsid, or that systemd holds for it until somebody asks."""
_NAME = re.compile(r"^\s*InitiatorName\s*=\s*(\S+)\s*$", re.MULTILINE)
_TEMPLATE = "GenerateName=yes"
"""What Debian's package has in the file until its service starts for the first time."""
_COMMON = re.compile(r"iqn\.(1987-05\.com\.example|\d{4}-\d\d\.com\.example|2004-10\.com\.ubuntu:01:0+$)")
"""Names of examples and templates, which more than one node has."""
_LARGE = 16 << 20


def requirements(host: Host) -> tuple[Requirement, ...]:
    """Look at the node."""
    return tuple(_all(host))


def _all(host: Host) -> Iterator[Requirement]:
    iscsiadm = host.commands.find("iscsiadm")
    yield Requirement(
        check="iscsiadm",
        met=iscsiadm is not None,
        detail=str(iscsiadm or "not installed"),
        remedy=INSTALL,
    )
    there = _DAEMON in _text(SOCKETS, host)
    yield Requirement(
        check="iscsid",
        met=there,
        detail="runs, or starts when it is asked" if there else "does not run",
        remedy="start it now and at each boot: systemctl enable --now iscsid.socket",
    )
    yield _initiator_name(host)
    loaded = host.files.info(MODULE) is not None
    known = loaded or _can_load(host)
    yield Requirement(
        check="iscsi_tcp",
        met=known,
        detail="loaded" if loaded else "iscsid loads it" if known else "the kernel has no such module",
        remedy="install the package with all modules of the running kernel, then: modprobe iscsi_tcp",
    )
    yield from disk_requirements(host)


def _initiator_name(host: Host) -> Requirement:
    text = _text(INITIATOR, host)
    found = _NAME.search(text)
    name = found[1] if found is not None else ""
    if name and not _COMMON.match(name):
        return Requirement(check="initiator name", met=True, detail=name)
    detail = f"{INITIATOR} has the name of an example, {name}" if name else f"{INITIATOR} has no InitiatorName"
    if _TEMPLATE in text:
        detail = f"{INITIATOR} is the package's template: the name is made at the first start of iscsid"
    return Requirement(
        check="initiator name",
        met=False,
        detail=detail,
        remedy=f'give the node a name of its own: echo "InitiatorName=$(iscsi-iname)" > {INITIATOR}; restart iscsid,'
        " and let the storage know it",
    )


def _can_load(host: Host) -> bool:
    if host.commands.find("modprobe") is None:
        return False
    asked = ("modprobe", "--dry-run", "--quiet", "iscsi_tcp")
    return host.commands.run(asked, accept=(0, 1), changes=False).exit_code == 0


def _text(path: Path, host: Host) -> str:
    return (host.files.read(path, _LARGE) or b"").decode("utf-8", "replace")
