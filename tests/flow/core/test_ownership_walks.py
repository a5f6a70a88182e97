"""A walk over a volume's files takes as long as it takes: events and `why` say how far it is, and it is not stuck."""

from __future__ import annotations

from tests.flow.core.probes import Script, node_item, plain
from volmgr.host.interface import OwnershipProgress
from volmgr.messages import ProgressMade
from volmgr.model.volume import Applies, Facets
from volmgr.report.why import why
from volmgr.testing.node import TestNode, pod

REASON = "VolumePermissionChangeInProgress"


def begin(node: TestNode) -> None:
    """Let a mount begin, and not end yet."""
    node.registry.apply(node_item(node, pod("web", plain("data"), uid="u1")))
    node.reconciler.step()


def says(node: TestNode, text: str, after: float) -> None:
    """Let the running operation say something after so many seconds."""
    node.now += after
    node.reconciler.step()
    (operation,) = node.world.running
    node.reconciler.post(ProgressMade(operation, text))
    node.reconciler.step()


def told(node: TestNode) -> list[str]:
    return [event.message for event in node.world.events.after(0) if event.reason == REASON]


def test_an_event_says_after_30_s_and_then_each_minute_how_far_a_walk_is(node: TestNode) -> None:
    begin(node)
    for second in range(1, 160):
        says(node, OwnershipProgress(f"{second} s"), 1)
    assert told(node) == ["31 s", "91 s", "151 s"]


def test_an_event_of_a_walk_is_a_warning_of_its_pod_and_volume(node: TestNode) -> None:
    begin(node)
    says(node, OwnershipProgress("begun"), 1)
    says(node, OwnershipProgress("goes on"), 30)
    (event,) = (event for event in node.world.events.after(0) if event.reason == REASON)
    assert (event.severity, event.pod, event.pod_uid) == ("Warning", "default/web", "u1")
    assert event.volume == "example.com/plain/u1-data"


def test_other_progress_is_no_event(node: TestNode) -> None:
    begin(node)
    for _ in range(3):
        says(node, "half of it is there", 30)
    assert told(node) == []


def test_why_says_how_far_a_walk_is(node: TestNode) -> None:
    begin(node)
    says(node, OwnershipProgress("1,000 entries done"), 1)
    assert "(1,000 entries done)" in why(node.world, "web")[0].text


def test_a_walk_that_gets_on_is_not_stuck_however_long_it_takes(node: TestNode, plain_script: Script) -> None:
    begin(node)
    for _ in range(60):
        says(node, OwnershipProgress("goes on"), node.config.operation_deadline / 2)
    (state,) = node.world.running.values()
    assert not state.quarantined
    node.settle()
    assert node.is_mounted("web")
    assert plain_script.calls == ["mount"]


def test_a_walk_that_says_nothing_any_more_is_stuck(node: TestNode) -> None:
    begin(node)
    says(node, OwnershipProgress("goes on"), 1)
    node.now += node.config.operation_deadline + node.config.quarantine_grace
    node.reconciler.step()
    (state,) = node.world.running.values()
    assert state.quarantined


def grouped(name: str, *, policy: str = "") -> dict[str, object]:
    context = {"fsGroup": 4711, **({"fsGroupChangePolicy": policy} if policy else {})}
    return pod(name, plain("data"), uid=name, securityContext=context)


def test_the_core_walks_for_types_that_leave_it_to_the_core(node: TestNode, plain_script: Script) -> None:
    for applies, expected in ((Applies.CORE, 4711), (Applies.PLUGIN, 0), (Applies.NOBODY, 0)):
        plain_script.facets = Facets(fs_group=applies)
        uid = f"by-{applies.value}"
        node.apply(grouped(uid))
        info = node.host.files.info(node.host.paths.volume(uid, "example.com/plain", "data"))
        assert info is not None
        assert info.gid == expected


def test_a_right_root_is_believed_only_where_the_pod_s_policy_says_so(node: TestNode, plain_script: Script) -> None:
    plain_script.facets = Facets(fs_group=Applies.CORE)
    for policy, expected in (("OnRootMismatch", 0o640), ("Always", 0o660), ("", 0o660)):
        uid = f"with-{policy or 'no'}-policy".lower()
        target = node.host.paths.volume(uid, "example.com/plain", "data")
        node.host.files.ensure_directory(target, 0o2770, exact=True)
        node.host.files.chown(target, -1, 4711)
        node.host.files.chmod(target, 0o2770)
        node.host.files.ensure_file(target / "file")
        node.apply(grouped(uid, policy=policy))
        info = node.host.files.info(target / "file")
        assert info is not None
        assert info.mode == expected


def test_without_a_group_nothing_is_changed(node: TestNode, plain_script: Script) -> None:
    plain_script.facets = Facets(fs_group=Applies.CORE)
    node.apply(pod("web", plain("data"), uid="u1"))
    info = node.host.files.info(node.host.paths.volume("u1", "example.com/plain", "data"))
    assert info is not None
    assert (info.gid, info.mode) == (0, 0o750)


def test_a_walk_ends_when_its_pod_leaves_and_the_volume_goes(node: TestNode, plain_script: Script) -> None:
    plain_script.facets = Facets(fs_group=Applies.CORE)
    node.registry.apply(node_item(node, grouped("web")))
    node.reconciler.step()
    node.registry.delete("web")
    node.reconciler.step()
    node.step()
    info = node.host.files.info(node.host.paths.volume("web", "example.com/plain", "data"))
    assert info is not None
    assert info.gid == 0
    node.settle()
    assert plain_script.calls == ["mount", "unmount"]
    assert node.is_unmounted("web")
