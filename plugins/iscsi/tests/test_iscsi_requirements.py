"""What iscsi asks of a node."""

from pathlib import Path

import pytest

from volmgr.plugin import CommandResult, OperationError, Requirement
from volmgr.testing import FakeHost, Volume
from volmgr_iscsi.plugin import Iscsi
from volmgr_iscsi.source import IscsiSource

NAME = "/etc/iscsi/initiatorname.iscsi"


def needs(host: FakeHost) -> dict[str, Requirement]:
    return {each.check: each for each in Iscsi().requirements(host)}


def ready() -> FakeHost:
    host = FakeHost()
    for name in ("iscsiadm", "modprobe", "/usr/lib/udev/scsi_id"):
        host.programs[name] = lambda _argv, _stdin: CommandResult(0, "", "")
    for directory in ("/etc/iscsi", "/proc/net", "/sys/module/iscsi_tcp"):
        host.mkdir(directory)
    host.put("/proc/net/unix", b"0000: 00000002 00000000 00010000 0001 01 1234 @ISCSIADM_ABSTRACT_NAMESPACE\n")
    host.put(NAME, b"# of this node\nInitiatorName=iqn.1993-08.org.debian:01:1f2e3d4c\n")
    return host


def test_a_node_that_has_all_of_it_is_told_so() -> None:
    found = needs(ready())
    assert [each.check for each in found.values() if not (each.met or each.optional)] == []
    assert found["initiator name"].detail == "iqn.1993-08.org.debian:01:1f2e3d4c"


def test_a_node_that_has_nothing_is_told_what_to_do() -> None:
    found = needs(FakeHost())
    missing = [each for each in found.values() if not (each.met or each.optional)]
    assert {each.check for each in missing} >= {"iscsiadm", "iscsid", "initiator name", "iscsi_tcp"}
    assert all(each.remedy for each in missing)


def test_who_mounts_without_open_iscsi_is_told_which_package_it_needs() -> None:
    of = Volume(Iscsi(), IscsiSource(target_portal="10.0.0.1", iqn="iqn.2026-01.com.example:disks", lun=0))
    with pytest.raises(OperationError, match="iscsiadm is not installed: install open-iscsi"):
        of.set_up(FakeHost())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"GenerateName=yes\n", "template"),
        (b"", "has no InitiatorName"),
        (b"InitiatorName=iqn.1987-05.com.example:01\n", "name of an example"),
    ],
)
def test_an_initiator_name_that_is_none_of_this_node_s_is_found_out(content: bytes, says: str) -> None:
    host = ready()
    host.put(NAME, content)
    found = needs(host)["initiator name"]
    assert not found.met
    assert says in found.detail
    assert "iscsi-iname" in found.remedy


def test_a_module_that_is_not_loaded_yet_is_enough() -> None:
    host = ready()
    host.machine.rmdir(Path("/sys/module/iscsi_tcp"))
    assert needs(host)["iscsi_tcp"].met
