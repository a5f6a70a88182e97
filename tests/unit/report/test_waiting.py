from dataclasses import replace

from tests.unit.report.worlds import add_pod, empty_world, fail, make_pod, mounted, run, unique, want
from volmgr.model.pod import PodStatus
from volmgr.model.volume import Facets, Presence
from volmgr.operations import Verb
from volmgr.report.waiting import is_mounted, is_unmounted
from volmgr.report.why import summary_for_timeout


def test_an_unknown_pod_is_not_mounted_and_is_unmounted() -> None:
    world = empty_world()
    assert not is_mounted(world, "web")
    assert is_unmounted(world, "web")


def test_a_pod_is_mounted_once_all_of_its_volumes_are() -> None:
    world, pod = empty_world(), make_pod("web", "a", "b")
    add_pod(world, pod)
    mounted(world, pod, "a")
    assert not is_mounted(world, "default/web")
    mounted(world, pod, "b")
    assert is_mounted(world, "web")
    assert is_mounted(world, "default/web")
    assert is_mounted(world, "uid-web")


def test_a_pod_without_used_volumes_is_mounted_at_once() -> None:
    world = empty_world()
    add_pod(world, make_pod("web"))
    assert is_mounted(world, "web")


def test_a_pod_that_was_not_looked_at_yet_is_not_mounted() -> None:
    world = empty_world()
    add_pod(world, make_pod("web")).processed = False
    assert not is_mounted(world, "web")


def test_a_volume_that_cannot_be_resolved_keeps_its_pod_from_being_mounted() -> None:
    world = empty_world()
    add_pod(world, make_pod("web")).errors["data"] = "no such claim"
    assert not is_mounted(world, "web")


def test_an_uncertain_volume_is_neither_mounted_nor_unmounted() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a", state=Presence.UNCERTAIN)
    assert not is_mounted(world, "web")
    assert not is_unmounted(world, "web")


def test_a_mount_of_an_old_revision_is_waited_for_only_where_the_type_mounts_again() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a")
    want(world, pod, "a", Facets(remount=False), revision="2")
    assert is_mounted(world, "web")
    want(world, pod, "a", Facets(remount=True), revision="3")
    assert not is_mounted(world, "web")


def test_a_leaving_pod_is_never_mounted_and_unmounted_when_it_is_cleared_away() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a")
    assert not is_mounted(world, "web")
    assert not is_unmounted(world, "web")
    world.actual.put(unique(pod, "a"), None)
    assert not is_unmounted(world, "web")
    del world.pods[pod.uid]
    assert is_unmounted(world, "web")


def test_no_pod_is_mounted_on_a_node_that_is_drained() -> None:
    world = empty_world()
    add_pod(world, make_pod("web"))
    world.draining = True
    assert not is_mounted(world, "web")


def test_a_finished_pod_is_mounted_only_where_such_pods_keep_their_volumes() -> None:
    world = empty_world()
    add_pod(world, replace(make_pod("web"), status=PodStatus(phase="Succeeded")))
    assert not is_mounted(world, "web")
    world.keeps_finished = True
    assert is_mounted(world, "web")


def test_a_mount_that_still_runs_may_appear_so_its_pod_is_not_unmounted() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    run(world, pod, "a")
    assert not is_unmounted(world, "uid-web")


def test_volumes_of_an_unknown_pod_are_found_by_its_uid() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    mounted(world, pod, "a")
    assert not is_unmounted(world, "uid-web")


def test_a_timeout_names_only_what_is_not_mounted_sorted_by_outer_name_and_says_why() -> None:
    world, pod = empty_world(), make_pod("web", "c", "a", "b")
    add_pod(world, pod)
    mounted(world, pod, "b")
    fail(world, pod, "a", "no space left")
    text = summary_for_timeout(world, "web")
    assert text.startswith("unmounted volumes=[a c], unattached volumes=[], failed to process volumes=[]: timed out")
    assert "volume a (emptyDir): not mounted; mount failed once" in text
    assert "no space left" in text
    assert "volume b" not in text


def test_a_timeout_names_volumes_that_are_not_attached_yet() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    want(world, pod, "a", Facets(attach=True), revision="2")
    assert summary_for_timeout(world, "web").startswith("unmounted volumes=[a], unattached volumes=[a],")


def test_a_timeout_names_volumes_that_were_not_processed() -> None:
    world, pod = empty_world(), make_pod("web", "v")
    entry = add_pod(world, pod)
    world.desired.remove_pod(pod.uid)
    entry.processed = False
    world.sources["directory"] = "cannot be read"
    text = summary_for_timeout(world, "web")
    assert text.startswith("unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]:")
    assert "source directory: cannot be read" in text


def test_a_timeout_of_unmounting_names_what_is_surely_mounted() -> None:
    world, pod = empty_world(), make_pod("web", "a", "b")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a")
    mounted(world, pod, "b", state=Presence.UNCERTAIN)
    fail(world, pod, "a", "target is busy; held by 4711 (sleep)", Verb.UNMOUNT)
    text = summary_for_timeout(world, "web", "unmounted")
    assert text.startswith(f"mounted volumes=[{unique(pod, 'a')}]: timed out")
    assert "held by 4711 (sleep)" in text


def test_a_timeout_for_an_unknown_pod_says_that_nothing_has_it() -> None:
    text = summary_for_timeout(empty_world(), "web")
    assert text.startswith("Pod web is not known")
    assert "no source has it" in text
