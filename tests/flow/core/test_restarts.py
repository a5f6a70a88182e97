"""What a start finds on disk: reconstruction, confirmation, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, Plain, ProbeSource, Script, claim_of, plain, storage
from volmgr.errors import OperationError, UncertainError
from volmgr.messages import Message
from volmgr.model.volume import Facets, Presence
from volmgr.plugin import Host, Objects, VolumeMode, VolumeSpec
from volmgr.report.why import why
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When
from volmgr.testing.node import TestNode, plugins_of, pod

DISK = "example.com/disk/d1"
PLAIN = "example.com/plain/u1-data"


def test_every_message_has_a_hearer(node: TestNode) -> None:
    assert set(vars(node.reconciler)["_hear"]) == set(get_args(Message))


def restart(node: TestNode, *, lose: tuple[str, ...] = ()) -> None:
    """Kill the daemon, lose some of its records, and start it again; no source was read yet."""
    for kind in lose:
        node.host.files.remove_tree(node.host.paths.state / kind)
    node.start()
    node.settle()


def test_a_mounted_volume_is_found_again_and_not_touched(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    restart(node)
    node.sources_ready()
    assert node.is_mounted("web")
    assert plain_script.calls == ["mount"]


def test_a_shared_disk_is_found_again_and_not_touched_and_taken_down_once(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(*(pod(uid, claim_of("data", "d1"), uid=uid) for uid in ("ua", "ub")))
    disk_script.forget()
    restart(node)
    node.sources_ready()
    assert node.is_mounted("ua")
    assert node.is_mounted("ub")
    assert [call for call in disk_script.calls if call != "reconstruct"] == []
    node.delete("ua")
    restart(node)
    node.sources_ready()
    node.delete("ub")
    calls = [call for call in disk_script.calls if call != "reconstruct"]
    assert calls == ["unmount", "unmount", "unmount_device", "detach"]
    assert len(node.world.actual) == 0


def test_without_a_record_it_is_uncertain_and_mounted_again_for_a_pod_that_wants_it(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    disk_script.forget()
    node.host.files.remove_tree(node.host.paths.state / "mounts")
    node.host.files.remove_tree(node.host.paths.state / "volumes")
    disk_script.fail("attach", OperationError("not yet"))
    restart(node)
    volume = node.world.actual.get(DISK)
    assert volume is not None
    assert (volume.attached, volume.device, volume.mounts["u1"].state) == (Presence.UNCERTAIN,) * 3
    assert volume.device_path == "/dev/reconstructed"
    assert volume.reconstructed
    node.sources_ready()
    node.advance(0.5)
    volume = node.world.actual.get(DISK)
    assert volume is not None
    assert not volume.reconstructed
    assert node.is_mounted("web")
    assert disk_script.calls == ["reconstruct", "attach", "attach", "wait_for_attach", "mount_device", "mount"]
    assert disk_script.last("mount").reconstructed


def test_without_a_record_it_is_taken_down_when_nobody_wants_it_once_sources_were_read(
    host: FakeHost, disk_script: Script
) -> None:
    host.mkdir(host.paths.volume("gone", Disk.name, "pvA"), 0o750)
    node = TestNode(host, plugins_of(Disk(disk_script)))
    node.settle()
    node.reconciler.set_read_only(read_only=False)  # adopted
    for _ in range(100):
        node.advance(1)
    assert disk_script.calls == ["reconstruct"]
    volume = node.world.actual.get(DISK)
    assert volume is not None
    assert volume.mounts["gone"].state is Presence.UNCERTAIN
    assert volume.device is Presence.UNCERTAIN
    node.sources_ready()
    assert disk_script.calls == ["reconstruct", "unmount", "unmount_device", "detach"]
    assert len(node.world.actual) == 0
    assert host.files.names(host.paths.pods) == ()


def test_a_volume_that_does_not_say_what_it_is_is_unmounted_by_its_name(host: FakeHost, disk_script: Script) -> None:
    host.mkdir(host.paths.volume("gone", Disk.name, "broken"), 0o750)
    node = TestNode(host, plugins_of(Disk(disk_script)))
    node.reconciler.set_read_only(read_only=False)
    node.sources_ready()
    assert disk_script.calls == ["reconstruct", "unmount"]
    request = disk_script.last("unmount")
    assert (request.pod_uid, request.spec_name, request.mode) == ("gone", "broken", VolumeMode.FILESYSTEM)
    assert host.files.names(host.paths.pods) == ()


def test_a_reconstructed_volume_whose_mount_fails_cleanly_stays_uncertain_and_is_unmounted_later(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    plain_script.fail("mount", OperationError("refused"))
    restart(node, lose=("mounts",))
    node.sources_ready()
    volume = node.world.actual.get(PLAIN)
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.UNCERTAIN
    node.delete("u1")
    assert plain_script.count("unmount") == 1


def test_after_a_reboot_everything_wanted_is_made_again(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    disk_script.forget()
    assert isinstance(node.host, FakeHost)
    node.host.reboot()
    restart(node)
    assert node.is_mounted("web")
    assert disk_script.calls == ["attach", "wait_for_attach", "mount_device", "mount"]


def test_a_pod_that_left_while_the_daemon_was_down_is_torn_down_once_sources_were_read(
    node: TestNode, plain_script: Script
) -> None:
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    restart(node)
    assert plain_script.calls == ["mount"]
    node.remove_file("web.yaml")
    assert plain_script.calls == ["mount"]
    node.sources_ready()
    assert plain_script.calls == ["mount", "unmount"]


def test_a_volume_whose_type_is_gone_is_left_alone_named_and_torn_down_when_it_returns(
    host: FakeHost, node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    without = TestNode(host, plugins_of())
    without.sources_ready()
    without.delete("u1")
    without.advance(3600)
    volume = without.world.actual.get(PLAIN)
    assert volume is not None
    assert host.files.info(host.paths.volume("u1", Plain.name, "data")) is not None
    text = why(without.world, "u1")[0].text
    assert "a package that serves example.com/plain: install the package that brings it" in text
    again = TestNode(host, node.plugins)
    again.sources_ready()
    assert plain_script.calls == ["mount", "unmount"]
    assert host.files.names(host.paths.pods) == ()


def test_a_retry_after_a_restart_never_counts_an_unmount_twice(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    disk_script.fail("unmount", UncertainError("timeout"))
    node.delete("u1")
    restart(node)
    node.sources_ready()
    calls = [call for call in disk_script.calls[4:] if call != "reconstruct"]
    assert calls == ["unmount", "unmount", "unmount_device", "detach"]
    assert not node.registry.knows("u1")


# --- kill -9 at every host call of a shared disk's life ---

PODS = [pod(uid, claim_of("data", "d1"), plain("tmp"), uid=uid) for uid in ("ua", "ub")]


def delete_if_known(node: TestNode, uid: str) -> None:
    """Delete a Pod that the daemon before may have forgotten already."""
    if node.registry.knows(uid):
        node.delete(uid)


STORY: list[Callable[[TestNode], object]] = [
    lambda _node: None,  # started
    lambda node: node.apply(*PODS),
    lambda node: delete_if_known(node, "ua"),
    lambda node: delete_if_known(node, "ub"),
    lambda node: node.advance(300),
]


def live(host: FakeHost, fault: Fault) -> tuple[Script, FaultHost]:
    """Let two Pods share a disk, come and go, with the daemon killed once on the way."""
    script = Script(facets=DISK_FACETS)
    plugins = plugins_of(Disk(script), Plain(Script(facets=Facets())))
    faulty = FaultHost(host, [fault])
    node: TestNode | None = None
    for step in STORY:
        while True:
            try:
                if node is None:
                    node = TestNode(host if faulty.dead else faulty, plugins)
                    node.put_file("storage.yaml", *storage("d1"))
                    node.sources_ready()
                step(node)
                break
            except Killed:
                node = None
    assert node is not None
    assert len(node.world.actual) == 0
    return script, faulty


@pytest.mark.parametrize("when", list(When))
def test_a_daemon_killed_at_any_host_call_leaves_nothing_behind_and_detaches(when: When) -> None:
    _, whole = live(FakeHost(), Fault.kill(1_000_000))
    assert len(whole.trace) > 100
    for number in range(1, len(whole.trace) + 1):
        host = FakeHost()
        script, faulty = live(host, Fault.kill(number, when))
        where = f"killed {when} call {faulty.trace[number - 1]}"
        assert host.files.names(host.paths.pods) == (), where
        assert host.files.names(host.paths.state / "mounts") == (), where
        assert host.files.names(host.paths.state / "volumes") == (), where
        made, unmade = script.count("mount_device"), script.count("unmount_device")
        assert (made > 0) == (unmade > 0), where
        assert script.calls.index("unmount_device") > max(
            index for index, call in enumerate(script.calls) if call == "mount"
        ), where


class Moody(Disk):
    """Cannot say what its volumes are called, or where they are mounted."""

    name = "example.com/moody"

    def volume_name(self, spec: VolumeSpec[ProbeSource]) -> str:
        self._script.pure()
        return super().volume_name(spec)

    def device_target(self, spec: VolumeSpec[ProbeSource], host: Host) -> Path:
        self._script.pure()
        return super().device_target(spec, host)

    def facets(self, spec: VolumeSpec[ProbeSource], objects: Objects) -> Facets:
        del spec, objects
        return DISK_FACETS


@pytest.mark.parametrize("recorded", [True, False], ids=["from its record", "from its directory"])
def test_a_type_that_fails_while_its_volumes_are_looked_for_keeps_no_other_from_starting(
    host: FakeHost, plain_script: Script, recorded: bool
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oops")

    script = Script()
    node = TestNode(host, plugins_of(Moody(script), Plain(plain_script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    script.pure = fail
    restart(node, lose=("volumes",) if recorded else ("volumes", "mounts"))
    node.sources_ready()
    node.apply(pod("other", plain("data"), uid="u2"))
    assert node.is_mounted("other")
    assert script.count("unmount") == 0
    script.pure = lambda: None
    node.start()
    node.settle()
    node.put_file("storage.yaml", *storage("d1"))
    node.sources_ready()
    assert node.is_mounted("web"), node.warnings()


@pytest.mark.parametrize("name", ["d1", "broken"], ids=["its type says what it is", "its type cannot say"])
def test_a_living_pod_s_volume_stays_though_its_records_and_its_claim_are_lost(
    node: TestNode, disk_script: Script, name: str
) -> None:
    pv, pvc = storage("d1")
    pv["metadata"] = {"name": f"{name}-pv"}
    pvc["spec"]["volumeName"] = f"{name}-pv"
    node.put_file("storage.yaml", pv, pvc)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    disk_script.forget()
    restart(node, lose=("mounts", "volumes", "objects"))
    node.sources_ready()
    assert "data" in node.world.pods["u1"].errors
    assert disk_script.calls == ["reconstruct"]
    node.put_file("storage.yaml", pv, pvc)
    assert node.is_mounted("web")
    assert disk_script.count("unmount") == 0
    node.delete("u1")
    assert disk_script.calls[-3:] == ["unmount", "unmount_device", "detach"]
    assert disk_script.count("unmount") == 1
    assert len(node.world.actual) == 0
