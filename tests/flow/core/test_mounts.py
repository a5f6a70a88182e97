"""What containers are given: `volmgr mounts` on a node in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.flow.core.probes import claim_of, storage
from volmgr.errors import OperationError, SpecError
from volmgr.messages import Ask
from volmgr.preparations import Preparation
from volmgr.report.mounts import MountReport, MountsReport, count_behind
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import TestNode, plugins_of
from volmgr.tidy import clear_binds
from volmgr_configmap.plugin import ConfigMapVolume
from volmgr_downwardapi.plugin import DownwardApi
from volmgr_emptydir.plugin import EmptyDir
from volmgr_hostpath.plugin import HostPath
from volmgr_secret.plugin import SecretVolume

UID = "uid-web"


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    types = plugins_of(EmptyDir(), HostPath(), ConfigMapVolume(), DownwardApi(), SecretVolume(), LoopDisk())
    node = TestNode(host, types, sources=("directory",))
    node.sources_ready()
    return node


def web(
    *mounts: Mapping[str, Any],
    volumes: tuple[Mapping[str, Any], ...],
    container: Mapping[str, Any] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """Give a Pod with one container that has these volumeMounts."""
    main = {"name": "main", "volumeMounts": [dict(mount) for mount in mounts], **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "uid": UID},
        "spec": {"containers": [main], "volumes": [dict(volume) for volume in volumes], **spec},
    }


def config(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


SCRATCH: Mapping[str, Any] = {"name": "scratch", "emptyDir": {}}
SITE: Mapping[str, Any] = {"name": "site", "hostPath": {"path": "/srv"}}
SETTINGS: Mapping[str, Any] = {"name": "settings", "configMap": {"name": "settings"}}


def at(name: str, path: str, **more: object) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def mounts_of(report: MountsReport, container: str = "main") -> dict[str, MountReport]:
    return {mount.target: mount for each in report.containers if each.name == container for mount in each.mounts}


def subpath(node: TestNode, volume: str, index: int, container: str = "main") -> Path:
    return node.host.paths.subpaths(UID) / volume / container / str(index)


def test_each_container_is_told_where_its_volumes_are(node: TestNode, host: FakeHost) -> None:
    pod = web(
        at("scratch", "/data"),
        at("site", "/site", readOnly=True, mountPropagation="HostToContainer"),
        at("settings", "etc/settings", recursiveReadOnly="IfPossible"),
        at("scratch", "/shared", mountPropagation="Bidirectional"),
        volumes=(SCRATCH, SITE, SETTINGS),
        initContainers=[{"name": "first", "volumeMounts": [at("scratch", "/out")]}],
        securityContext={"fsGroup": 7, "supplementalGroups": [4711, 7, 5]},
    )
    node.put_file("web.yaml", config(a="1"), pod)

    report = node.mounts("web")

    assert report.problems == ()
    assert [(each.name, each.kind) for each in report.containers] == [("first", "init"), ("main", "main")]
    assert {each.supplemental_groups for each in report.containers} == {(7, 4711, 5)}
    scratch = str(host.paths.volume(UID, "kubernetes.io/empty-dir", "scratch"))
    found = mounts_of(report)
    assert [(mount.source, mount.options, mount.relabel) for mount in found.values()] == [
        (scratch, ("rbind", "rprivate", "rw"), True),
        ("/srv", ("rbind", "rslave", "ro"), False),
        (str(host.paths.volume(UID, "kubernetes.io/configmap", "settings")), ("rbind", "rprivate", "rro"), True),
        (scratch, ("rbind", "rshared", "rw"), True),
    ]
    assert list(found) == ["/data", "/site", "/etc/settings", "/shared"]
    assert mounts_of(report, "first")["/out"].source == scratch


def test_a_sub_path_is_bound_and_goes_with_its_volume(node: TestNode, host: FakeHost) -> None:
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x/y"), at("scratch", "/b"), volumes=(SCRATCH,)))

    report = node.mounts("web")

    place = subpath(node, "scratch", 0)
    assert mounts_of(report)["/a"].source == str(place)
    volume = host.paths.volume(UID, "kubernetes.io/empty-dir", "scratch")
    assert host.table[place] == f"ext4 {volume}/x/y"
    before = host.mounts.table()
    assert node.mounts("web") == report
    assert host.mounts.table() == before
    node.remove_file("web.yaml")
    assert host.table == {}
    assert host.tree(host.paths.pods) == {host.paths.pods: "directory 750 0:0"}


def test_a_sub_path_of_a_host_path_goes_and_its_data_stays(node: TestNode, host: FakeHost) -> None:
    host.put("/srv/page", b"page")
    node.put_file("web.yaml", web(at("site", "/a", subPath="page"), volumes=(SITE,)))
    node.mounts("web")
    assert host.content(subpath(node, "site", 0)) == b"page"
    node.start()  # killed
    node.remove_file("web.yaml")
    node.sources_ready()

    assert host.table == {}
    assert host.content("/srv/page") == b"page"
    assert not host.files.names(host.paths.pods)


def test_a_refused_sub_path_is_named_and_the_others_are_bound(node: TestNode, host: FakeHost) -> None:
    host.link("/srv/out", "/etc")
    host.put("/etc/passwd", b"root")
    host.put("/srv/page", b"page")
    pod = web(
        at("site", "/a", subPath="out/passwd"),
        at("site", "/b", subPath="page"),
        at("site", "/c", subPathExpr="$(NAME)"),
        at("site", "/d", subPathExpr="$(EMPTY)"),
        at("site", "/e", subPathExpr="$(UP)/x"),
        volumes=(SITE,),
        container={"env": [{"name": "EMPTY"}, {"name": "UP", "value": "../.."}]},
    )
    node.put_file("web.yaml", pod)

    report = node.mounts("web")

    found = mounts_of(report)
    assert {target: bool(mount.source) for target, mount in found.items()} == {
        "/a": False,
        "/b": True,
        "/c": False,
        "/d": False,
        "/e": False,
    }
    said = [problem.removeprefix("container main: subPath ") for problem in report.problems]
    assert said[0].startswith("out/passwd of volume site: cannot open subPath out/passwd of /srv: ")
    assert "container main has no variable NAME" in said[1]
    assert "would be the whole volume" in said[2]
    assert "has '..' in it" in said[3]
    assert list(host.table) == [subpath(node, "site", 1)]


def test_only_the_container_that_is_named_is_prepared(node: TestNode, host: FakeHost) -> None:
    pod = web(at("scratch", "/a", subPath="x"), volumes=(SCRATCH,))
    pod["spec"]["initContainers"] = [{"name": "first", "volumeMounts": [at("scratch", "/b", subPath="y")]}]
    node.put_file("web.yaml", pod)

    report = node.mounts("web", "first")

    assert [each.name for each in report.containers] == ["first"]
    assert list(host.table) == [subpath(node, "scratch", 0, "first")]
    with pytest.raises(SpecError, match="has no container 'other'; it has first, main"):
        node.mounts("web", "other")
    with pytest.raises(KeyError):
        node.mounts("nobody")


def test_a_volume_that_is_not_mounted_is_named_and_the_others_are_there(node: TestNode) -> None:
    pod = web(at("scratch", "/a"), at("settings", "/b", subPath="k"), volumes=(SCRATCH, SETTINGS))
    node.put_file("web.yaml", pod)  # there is no such ConfigMap

    report = node.mounts("web")

    assert report.problems == ("container main: volume settings is not mounted; volmgr why default/web says more",)
    assert mounts_of(report)["/a"].source


def test_a_pod_that_leaves_is_given_nothing_any_more(node: TestNode) -> None:
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), volumes=(SCRATCH,)))
    node.hold(UID, 77)
    node.remove_file("web.yaml")

    with pytest.raises(SpecError, match="its containers are not to be started any more"):
        node.mounts("web")


def test_a_root_that_is_not_adopted_is_left_alone(host: FakeHost) -> None:
    host.mkdir(host.paths.pod("somebody"))
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(web(at("scratch", "/a", subPath="x"), volumes=(SCRATCH,)))

    with pytest.raises(OperationError, match="run volmgr adopt"):
        node.mounts("web")


def test_a_changed_config_map_is_bound_anew_by_the_next_preparation_and_not_before(
    node: TestNode, host: FakeHost
) -> None:
    pod = web(at("settings", "/etc/extra.ini", subPath="extra.ini"), volumes=(SETTINGS,))
    node.put_file("web.yaml", config(**{"extra.ini": "one"}), pod)
    node.mounts("web")
    place = subpath(node, "settings", 0)
    assert host.content(place) == b"one"

    node.put_file("web.yaml", config(**{"extra.ini": "two"}), pod)

    assert node.is_mounted("web")
    assert host.content(place) == b"one"
    behind = "subPath main/0 (container/volumeMount) shows an older version of volume settings"
    assert any(behind in line for line in why_lines(node.world, "web"))
    assert count_behind(node.world) == 1
    node.start()  # killed: it is known after a restart, too
    node.sources_ready()
    assert any(behind in line for line in why_lines(node.world, "web"))
    found = mounts_of(node.mounts("web"))["/etc/extra.ini"]
    assert (found.note, host.content(place)) == ("it showed an older version of the volume", b"two")
    assert not any(behind in line for line in why_lines(node.world, "web"))
    assert mounts_of(node.mounts("web"))["/etc/extra.ini"].note == ""


def test_a_missing_key_is_an_error_and_no_directory(node: TestNode, host: FakeHost) -> None:
    pod = web(at("settings", "/etc/extra.ini", subPath="extra.ini"), volumes=(SETTINGS,))
    node.put_file("web.yaml", config(other="x"), pod)

    report = node.mounts("web")

    assert "subPath extra.ini of volume settings" in report.problems[0]
    assert host.table.keys() & {subpath(node, "settings", 0)} == set()
    assert not node.host.files.names(subpath(node, "settings", 0).parent)


def test_a_change_that_is_under_way_is_waited_for(node: TestNode, host: FakeHost) -> None:
    pod = web(at("settings", "/etc/k", subPath="k"), volumes=(SETTINGS,))
    node.put_file("web.yaml", config(k="one"), pod)
    node.mounts("web")
    settled = node.settle
    node.settle = lambda: None  # type: ignore[method-assign]  # nothing runs yet
    node.put_file("web.yaml", config(k="two"), pod)
    node.settle = settled  # type: ignore[method-assign]

    node.mounts("web")

    assert host.content(subpath(node, "settings", 0)) == b"two"


def test_a_container_can_be_started_again_although_its_config_map_was_deleted(node: TestNode, host: FakeHost) -> None:
    pod = web(at("settings", "/etc/k", subPath="k"), volumes=(SETTINGS,))
    node.put_file("settings.yaml", config(k="one"))
    node.put_file("web.yaml", pod)
    node.mounts("web")

    node.remove_file("settings.yaml")

    assert node.mounts("web").problems == ()
    assert host.content(subpath(node, "settings", 0)) == b"one"


@pytest.mark.parametrize("resource", ["limits.cpu", "limits.memory", "limits.ephemeral-storage"])
def test_without_a_limit_a_sub_path_expression_shows_what_the_downward_api_does(
    node: TestNode, host: FakeHost, resource: str
) -> None:
    variable = {"name": "HAS", "valueFrom": {"resourceFieldRef": {"resource": resource}}}
    item = {"path": "has", "resourceFieldRef": {"resource": resource, "containerName": "main"}}
    info = {"name": "info", "downwardAPI": {"items": [item]}}
    pod = web(
        at("scratch", "/a", subPathExpr="$(HAS)"),
        at("info", "/info"),
        volumes=(SCRATCH, info),
        container={"env": [variable]},
    )
    node.put_file("web.yaml", pod)

    report = node.mounts("web")

    shown = host.content(host.paths.volume(UID, DownwardApi.name, "info") / "has")
    assert report.problems == ()
    assert shown.decode() in host.files.names(host.paths.volume(UID, EmptyDir.name, "scratch"))


def test_a_sub_path_expression_gives_the_same_again_after_a_restart(node: TestNode, host: FakeHost) -> None:
    pod = web(
        at("scratch", "/logs", subPathExpr="$(POD)/$(COLOUR)"),
        volumes=(SCRATCH,),
        container={
            "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
            ]
        },
    )
    node.put_file("web.yaml", config(colour="blue"), pod)
    report = node.mounts("web")
    place = subpath(node, "scratch", 0)
    assert host.table[place].endswith("/scratch/web/blue")
    before = host.mounts.entry(place)

    node.start()
    node.sources_ready()

    assert node.mounts("web") == report
    assert host.mounts.entry(place) == before


def test_the_value_of_a_secret_in_a_sub_path_is_shown_to_nobody(node: TestNode, host: FakeHost) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "door"}, "stringData": {"key": "xyzzy"}}
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "door", "key": "key"}}}]
    pod = web(
        at("scratch", "/a", subPathExpr="$(KEY)"),
        at("site", "/b", subPathExpr="$(KEY)/file/below"),
        volumes=(SCRATCH, SITE),
        container={"env": env},
    )
    host.put("/srv/xyzzy", b"no directory")
    node.put_file("web.yaml", secret, pod)

    report = node.mounts("web")

    assert mounts_of(report)["/a"].source
    assert len(report.problems) == 1
    assert "xyzzy" not in repr(report)
    records = [text for path, text in host.tree(host.paths.state).items() if "objects" not in path.parts]
    assert not any("xyzzy" in text for text in records)


def offer_disk(node: TestNode, *, block: bool = False) -> None:
    """Let there be a disk, and the claim `disk` on it."""
    host = node.host
    assert isinstance(host, FakeHost)
    host.put("/srv/disk.img", bytes(65536))
    host.machine.format(host.block.attach_loop(Path("/srv/disk.img")), "ext4")
    pv, claim = storage("disk", source={"loopDisk": {"path": "/srv/disk.img"}}, size="64Ki", block=block)
    pv["metadata"]["annotations"] = {"pv.beta.kubernetes.io/gid": "1234"}
    node.put_file("storage.yaml", pv, claim)


@pytest.mark.parametrize(("read_only", "permissions"), [(False, "mrw"), (True, "mr")])
def test_devices_are_given_with_their_numbers_and_what_is_allowed(
    node: TestNode, read_only: bool, permissions: str
) -> None:
    offer_disk(node, block=True)
    devices = [{"name": "data", "devicePath": "/dev/data"}, {"name": "scratch", "devicePath": "/dev/x"}]
    volumes = (claim_of("data", "disk", read_only=read_only), SCRATCH)
    node.put_file("web.yaml", web(volumes=volumes, container={"volumeDevices": devices}))

    report = node.mounts("web")

    device, other = report.containers[0].devices
    assert (device.path, device.source, device.permissions) == ("/dev/data", "/dev/loop0", permissions)
    assert (device.major, device.minor, device.mode, device.problem) == (7, 0, 0o640, "")
    assert other.problem.startswith("volume scratch is not mounted: volume scratch has volumeMode Filesystem")
    assert report.containers[0].supplemental_groups == (1234,)


def test_the_part_of_a_claim_s_volume_is_bound_below_the_name_of_the_volume(node: TestNode, host: FakeHost) -> None:
    offer_disk(node)
    volume = claim_of("data", "disk", read_only=True)
    node.put_file("web.yaml", web(at("data", "/a", subPath="x"), at("data", "/b"), volumes=(volume,)))

    report = node.mounts("web")

    assert "subPath x of volume data: cannot open subPath x" in report.problems[0]  # it is read-only, and empty
    assert mounts_of(report)["/b"].options == ("rbind", "rprivate", "ro")
    assert not mounts_of(report)["/b"].relabel
    assert host.files.names(host.paths.subpaths(UID)) == ()


def test_what_was_mounted_anew_after_it_vanished_is_not_what_its_sub_paths_show(node: TestNode, host: FakeHost) -> None:
    memory = {"name": "scratch", "emptyDir": {"medium": "Memory"}}
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), volumes=(memory,)))
    node.mounts("web")
    volume = host.paths.volume(UID, "kubernetes.io/empty-dir", "scratch")
    host.mounts.unmount(volume)
    node.mounts_changed()
    assert node.is_mounted("web")
    assert any("shows an older version of volume scratch" in line for line in why_lines(node.world, "web"))

    node.mounts("web")

    host.put(volume / "x" / "new")
    assert host.files.names(subpath(node, "scratch", 0)) == ("new",)
    assert not any("older version" in line for line in why_lines(node.world, "web"))


def killable(host: FakeHost) -> tuple[TestNode, FaultHost]:
    """Give a node that runs a Pod, on a host that kills it when it is told to."""
    faults = FaultHost(host)
    node = TestNode(faults, plugins_of(EmptyDir()), sources=("directory",))
    node.sources_ready()
    node.put_file(
        "web.yaml", web(at("scratch", "/a", subPath="x"), at("scratch", "/b", subPath="y"), volumes=(SCRATCH,))
    )
    return node, faults


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
def test_a_daemon_that_is_killed_at_any_call_of_a_preparation_is_right_after_its_next_start(when: When) -> None:
    whole, trace = killable(FakeHost())
    before = len(trace.trace)
    whole.mounts("web")
    calls = len(trace.trace) - before
    assert calls > 3
    for number in range(1, calls + 1):
        host = FakeHost()
        node, faults = killable(host)
        faults.faults.append(Fault.kill(before + number, when))
        with pytest.raises(Killed):
            node.mounts("web")

        node.host = host
        node.start()
        node.sources_ready()

        assert node.mounts("web").problems == ()
        assert list(host.table) == [subpath(node, "scratch", 0), subpath(node, "scratch", 1)]
        node.remove_file("web.yaml")
        assert (host.table, host.files.names(host.paths.pods)) == ({}, ()), faults.trace[-1]


def test_right_after_a_start_a_preparation_waits_for_what_is_mounted_to_be_found(
    node: TestNode, host: FakeHost
) -> None:
    memory = {"name": "scratch", "emptyDir": {"medium": "Memory"}}
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), volumes=(memory,)))
    node.mounts("web")
    before = host.mounts.table()
    host.files.remove_tree(host.paths.state / "mounts")  # nothing proves what is there
    node.start()
    preparation = Preparation("web")
    node.reconciler.post(Ask(lambda: node.reconciler.preparations.begin(preparation)))

    node.sources_ready()

    assert preparation.result().problems == ()
    assert host.mounts.table() == before


def test_while_sub_paths_are_bound_the_teardown_waits_and_says_for_what(node: TestNode, host: FakeHost) -> None:
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), volumes=(SCRATCH,)))
    preparation = Preparation("web")
    node.reconciler.post(Ask(lambda: node.reconciler.preparations.begin(preparation)))
    node.reconciler.step()  # its worker has not come to it yet
    node.registry.withdraw("directory", "web.yaml")
    node.reconciler.step()

    (line,) = [line for line in why_lines(node.world, "web") if "volume scratch" in line]
    assert "waits for subPaths of it to be bound, which began at 1970-01-12T13:46:40.000Z" in line
    node.settle()

    assert preparation.done.is_set()
    assert host.table == {}
    assert host.files.names(host.paths.pods) == ()


def test_cleaning_up_takes_all_parts_of_one_volume_and_none_of_another(node: TestNode, host: FakeHost) -> None:
    pod = web(
        at("scratch", "/a", subPath="x"),
        at("site", "/b", subPath="y"),
        at("scratch", "/c", subPath="z"),
        volumes=(SCRATCH, SITE),
        initContainers=[{"name": "first", "volumeMounts": [at("scratch", "/d", subPath="x")]}],
    )
    node.put_file("web.yaml", pod)
    node.mounts("web")
    top = host.paths.subpaths(UID)
    assert len(host.table) == 4

    assert clear_binds(host, top / "scratch") == ()

    assert list(host.table) == [top / "site" / "main" / "1"]
    assert host.files.names(top) == ("site",)
    assert clear_binds(host, top / "scratch") == ()


def test_a_file_in_the_place_of_a_container_is_kept_and_named_and_stops_nothing(node: TestNode, host: FakeHost) -> None:
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), volumes=(SCRATCH,)))
    node.mounts("web")
    odd = host.paths.subpaths(UID) / "scratch" / "odd"
    host.put(odd, b"whose is this?")

    node.remove_file("web.yaml")

    assert host.table == {}
    assert host.content(odd) == b"whose is this?"
    assert str(odd) in node.world.orphans
    assert not host.files.names(host.paths.volumes(UID))


def test_a_sub_path_whose_directory_was_deleted_goes_with_its_volume(node: TestNode, host: FakeHost) -> None:
    node.put_file("web.yaml", web(at("scratch", "/a", subPath="x"), at("scratch", "/b"), volumes=(SCRATCH,)))
    node.mounts("web")
    host.machine.rmdir(host.paths.volume(UID, "kubernetes.io/empty-dir", "scratch") / "x")
    assert [entry.deleted for entry in host.mounts.below(host.paths.subpaths(UID))] == [True]

    node.remove_file("web.yaml")

    assert host.table == {}
    assert host.files.names(host.paths.pods) == ()
