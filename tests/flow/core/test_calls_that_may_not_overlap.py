"""A type whose calls for one volume never overlap says so by `exclusive`: unmounts for two Pods hold its keys, too."""

from tests.flow.core.probes import Disk, ProbeSource, Script, claim_of, storage
from volmgr.model.volume import Facets
from volmgr.operations import Verb
from volmgr.plugin import VolumeSpec
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

UIDS = ["ua", "ub"]


class OneCallAtATime(Disk):
    """A disk whose driver takes one call for a volume at a time."""

    name = "example.com/serial"

    def exclusive(self, spec: VolumeSpec[ProbeSource]) -> tuple[str, ...]:
        return (f"{self.name} {spec.source.disk}",)


def started(disk: type[Disk]) -> TestNode:
    script = Script(facets=Facets(attach=True, device=True))
    node = TestNode(FakeHost(), plugins_of(disk(script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(*(pod(uid, claim_of("data", "d1"), uid=uid) for uid in UIDS))
    return node


def most_unmounts_at_once(node: TestNode) -> int:
    """Let both Pods go at once, and give how many unmounts ran at the same time, at most."""
    for uid in UIDS:
        node.registry.delete(uid)
    most, goes_on = 0, True
    while goes_on:
        node.reconciler.step()
        most = max(most, sum(operation.verb is Verb.UNMOUNT for operation in node.world.running))
        goes_on = node.step()
    assert all(map(node.is_unmounted, UIDS))
    return most


def test_unmounts_of_one_volume_for_two_pods_may_overlap() -> None:
    assert most_unmounts_at_once(started(Disk)) == 2


def test_they_do_not_where_its_type_wants_one_call_at_a_time() -> None:
    assert most_unmounts_at_once(started(OneCallAtATime)) == 1


def test_they_do_not_after_a_restart_that_only_records_tell_of_the_volume() -> None:
    node = started(OneCallAtATime)
    node.start()
    node.sources_ready()
    assert most_unmounts_at_once(node) == 1


def test_they_do_not_after_a_restart_that_only_directories_tell_of_it() -> None:
    node = started(OneCallAtATime)
    for uid in UIDS:
        for record in node.host.files.names(node.host.paths.state / "mounts" / uid):
            node.host.files.remove_file(node.host.paths.state / "mounts" / uid / record)
    node.start()
    node.sources_ready()
    assert most_unmounts_at_once(node) == 1
