"""What nfs asks of a node."""

from volmgr.plugin import CommandResult, Requirement
from volmgr.testing import FakeHost
from volmgr_nfs.plugin import Nfs


def needs(host: FakeHost) -> dict[str, Requirement]:
    return {each.check: each for each in Nfs().requirements(host)}


def program(exit_code: int = 0) -> CommandResult:
    return CommandResult(exit_code, "", "")


def test_a_node_that_has_all_of_it_is_told_where() -> None:
    host = FakeHost()
    for name in ("mount.nfs", "rpc.statd"):
        host.programs[name] = lambda _argv, _stdin: program()
    host.mkdir("/proc")
    host.put("/proc/filesystems", b"nodev\ttmpfs\nnodev\tnfs\nnodev\tnfs4\n")
    found = needs(host)
    assert all(each.met for each in found.values())
    assert found["mount.nfs"].detail == "is /usr/bin/mount.nfs"
    assert found["kernel client nfs"].detail == "is there"


def test_a_module_that_is_not_loaded_yet_is_enough() -> None:
    host = FakeHost()
    host.programs["modprobe"] = lambda argv, _stdin: program(0 if argv == ("modprobe", "-n", "nfs") else 1)
    found = needs(host)
    assert found["kernel client nfs"].met
    assert found["kernel client nfs"].detail == "is a module that is loaded with the first mount"
    assert not found["kernel client nfsv4"].met


def test_a_node_that_has_nothing_is_told_what_to_do() -> None:
    found = needs(FakeHost())
    assert not any(each.met for each in found.values())
    assert [each.check for each in found.values() if not each.optional] == ["mount.nfs", "kernel client nfs"]
    assert "install nfs-common" in found["mount.nfs"].remedy
    assert "nolock" in found["rpc.statd"].remedy
    assert "vers=3" in found["kernel client nfsv4"].remedy
