from dataclasses import replace

from tests.unit.report.worlds import TYPE, add_pod, empty_world, fail, make_pod, mounted, run, want
from volmgr.errors import ManifestError
from volmgr.model.volume import Facets
from volmgr.operations import Operation, Verb
from volmgr.report.why import why
from volmgr.report.world import Hold, Orphan, World


def only(world: World, selector: str = "web") -> str:
    (report,) = why(world, selector)
    return report.text


def test_a_pod_that_is_fine_has_no_problems() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a")
    (report,) = why(world, "web")
    assert report.state == "mounted"
    assert report.volumes == ()
    assert report.text == "Pod default/web (uid-web): mounted"


def test_one_bad_volume_is_named_with_step_time_attempts_error_and_next_try_and_good_ones_are_not() -> None:
    world, pod = empty_world(), make_pod("web", "bad", "good", "fine")
    add_pod(world, pod)
    mounted(world, pod, "good", "fine")
    fail(world, pod, "bad", "tmpfs: no space left", times=3)
    (report,) = why(world, "web")
    (volume,) = report.volumes
    assert (volume.names, volume.step, volume.attempts) == (("bad",), "mount", 3)
    assert volume.last_error == "tmpfs: no space left"
    assert volume.since == "2027-01-15T07:59:50.000Z"
    assert volume.next_retry == "2027-01-15T07:59:54.000Z"
    assert "good" not in report.text
    assert "mount failed 3 times since 2027-01-15T07:59:50.000Z, next try at" in report.text


def test_a_failure_that_only_its_author_can_mend_has_no_next_try() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    world.admission.failed(Operation(Verb.MOUNT, f"{TYPE}/uid-web-a", "uid-web"), "wrong type", 990.0, final=True)
    (report,) = why(world, "web")
    assert report.volumes[0].next_retry is None
    assert "not tried again until a manifest changes" in report.text


def test_a_running_operation_says_since_when_and_how_far_it_is() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    run(world, pod, "a", says="12000 of 90000 files")
    text = only(world)
    assert "mount running since 2027-01-15T07:59:55.000Z (12000 of 90000 files)" in text


def test_an_operation_past_its_deadline_is_called_quarantined() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    run(world, pod, "a", hanging=True)
    (report,) = why(world, "web")
    assert report.volumes[0].quarantined
    assert "quarantined" in report.text


def test_a_busy_mount_names_its_holders_while_the_pod_leaves() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a")
    fail(world, pod, "a", "cannot unmount: busy; held by 4711 (sleep)", Verb.UNMOUNT)
    (report,) = why(world, "web")
    assert report.state == "leaving"
    assert report.volumes[0].step == "unmount"
    assert "held by 4711 (sleep)" in report.text
    assert "left /manifests/web.yaml" in report.text


def test_nothing_is_unmounted_before_sources_are_read_and_why_says_so() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a")
    world.readiness = replace(world.readiness, unmount=False)
    world.sources["api"] = "is not there yet"
    assert "waits for every source to be read whole (source api: is not there yet)" in only(world)


def test_a_root_that_is_not_adopted_is_named_with_what_to_do() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    world.readiness = replace(world.readiness, read_only=True)
    assert "run volmgr adopt" in only(world)


def test_a_volume_that_cannot_be_resolved_is_named_with_its_error() -> None:
    world, pod = empty_world(), make_pod("web", "a", "b")
    entry = add_pod(world, pod)
    mounted(world, pod, "a")
    world.desired.remove(f"{TYPE}/uid-web-b", "uid-web")
    entry.errors["b"] = "no installed package serves volume type 'hostPath'; install volmgr-hostpath"
    (report,) = why(world, "web")
    assert [volume.names for volume in report.volumes] == [("b",)]
    assert report.volumes[0].step == "resolve"
    assert "install volmgr-hostpath" in report.text


def test_a_volume_whose_package_is_gone_names_the_package() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a", plugin="kubernetes.io/host-path")
    assert "install volmgr-hostpath, then run volmgr plugins reload" in only(world)


def test_a_mount_that_flipped_read_only_is_a_problem_although_it_is_mounted() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a", problem="it turned read-only")
    assert "mounted, it turned read-only" in only(world)


def test_holds_and_complaints_about_the_file_are_listed() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    entry = add_pod(world, pod)
    mounted(world, pod, "a")
    entry.holds["h1"] = Hold(id="h1", pod_uid=pod.uid, pid=99, who="sleep 1000")
    world.complaints[entry.origin] = (ManifestError("is no mapping", file=entry.origin, document=2, field="spec"),)
    (report,) = why(world, "web")
    assert "held by PID 99 (sleep 1000)" in report.text
    assert "/manifests/web.yaml: document 2: spec: is no mapping" in report.text


def test_an_operation_of_another_pod_on_the_same_volume_is_what_is_waited_for() -> None:
    world, first, second = empty_world(), make_pod("one", "a"), make_pod("web", "a")
    add_pod(world, first)
    add_pod(world, second)
    shared = world.desired.get(f"{TYPE}/uid-web-a")
    assert shared is not None
    world.desired.add(shared, replace(shared.mounts["uid-web"], pod=first))
    run(world, first, "a")
    operation, running = world.running.popitem()
    operation = replace(operation, volume=shared.name)
    world.running[operation] = replace(running, operation=operation)
    assert "waits for mount of Pod default/one on the same volume to end" in only(world)


def test_an_old_pod_that_leaves_is_reported_beside_the_new_one_of_its_name() -> None:
    world = empty_world()
    old, new = make_pod("web", "a", uid="uid-old"), make_pod("web", "a", uid="uid-new")
    add_pod(world, old, leaving=True)
    add_pod(world, new)
    mounted(world, old, "a")
    assert [report.uid for report in why(world, "web")] == ["uid-new", "uid-old"]


def test_what_is_left_of_a_pod_without_a_source_is_found_by_uid() -> None:
    world = empty_world()
    world.orphans["/x"] = Orphan(pod_uid="uid-gone", path="/x", reason="it has data in it")
    (report,) = why(world, "uid-gone")
    assert not report.known
    assert "/x is kept: it has data in it" in report.text


def test_an_unknown_pod_comes_with_the_files_that_were_refused() -> None:
    world = empty_world()
    world.complaints["/m/web.yaml"] = (ManifestError("unknown field", file="/m/web.yaml", field="spec.volumes[0].x"),)
    (report,) = why(world, "web")
    assert report.state == "unknown"
    assert "refused: /m/web.yaml: spec.volumes[0].x: unknown field" in report.text


def test_an_unknown_pod_comes_with_ten_errors_of_files_and_how_many_more_there_are() -> None:
    world = empty_world()
    for number in range(13):
        world.complaints[f"/m/{number}.yaml"] = (ManifestError("is empty", file=f"/m/{number}.yaml"),)
    (report,) = why(world, "web")
    assert len(report.complaints) == 10
    assert report.text.endswith("refused: 3 more; volmgr status lists all")


def test_a_remount_that_is_due_is_listed_although_the_volume_is_mounted() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a")
    want(world, pod, "a", Facets(remount=True), revision="2")
    (report,) = why(world, "web")
    assert (report.volumes[0].state, report.volumes[0].step) == ("mounted", "mount")


def test_a_volume_that_a_held_pod_never_got_is_no_problem_while_it_leaves() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    entry = add_pod(world, pod)
    desired = world.desired.get(f"{TYPE}/uid-web-a")
    assert desired is not None
    world.desired.add(desired, replace(desired.mounts["uid-web"], keep_only=True))
    entry.leaving = True
    entry.holds["h1"] = Hold(id="h1", pod_uid=pod.uid, pid=99, who="process 99")
    (report,) = why(world, "web")
    assert report.volumes == ()
    assert report.text.endswith("held by PID 99")
