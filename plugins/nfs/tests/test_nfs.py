"""nfs on a host in memory: what is mounted, what is refused, and what becomes of volumes whose server is silent."""

from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.plugin import (
    BusyError,
    CommandError,
    Found,
    OperationError,
    PluginError,
    SpecError,
    UnansweredError,
    UncertainError,
    VolmgrError,
    VolumeMode,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Volume, When, pod
from volmgr_nfs.plugin import Nfs, NfsSource
from volmgr_nfs.settings import NfsSettings

SERVER = "10.0.0.1"
EXPORT = f"{SERVER}:/srv/data"


def volume(server: str = SERVER, path: str = "/srv/data", **spec: object) -> Volume:
    return Volume(Nfs(), NfsSource(server=server, path=path), spec_fields=spec)


def of_pod(name: str, of: Volume) -> Volume:
    return replace(of, pod=pod(name))


def host_with_export(source: str = EXPORT) -> FakeHost:
    host = FakeHost()
    host.machine.serve("nfs", source)
    return host


def mounted_with(of: Volume, host: FakeHost, **changes: object) -> dict[str, object]:
    """Mount, and give how the host was asked for it."""
    faulty = FaultHost(host)
    of.mount(faulty, **changes)
    (call,) = (call for call in faulty.trace if call.verb == "mounts.ensure_mounted")
    return call.kwargs


# What is mounted


@pytest.mark.parametrize(
    ("server", "source"),
    [
        ("10.0.0.1", "10.0.0.1:/x"),
        ("nas.example.com", "nas.example.com:/x"),
        ("fe80::1", "[fe80::1]:/x"),
        ("[fe80::1]", "[fe80::1]:/x"),
        ("::1", "[::1]:/x"),
        ("fe80::1%eth0", "[fe80::1%eth0]:/x"),
    ],
)
def test_the_source_is_the_server_and_its_path_and_ipv6_stands_in_brackets(server: str, source: str) -> None:
    host = host_with_export(source)
    ready = volume(server, "/x")
    assert mounted_with(ready, host)["source"] == source
    assert ready.plugin.endpoint(ready.spec) == f"server {source.removesuffix(':/x')}"
    assert host.table == {ready.target(host): "nfs"}


def test_each_pod_has_a_mount_of_its_own_and_the_data_is_the_server_s() -> None:
    host = host_with_export()
    one, two = of_pod("one", volume()), of_pod("two", volume())
    for each in (one, two):
        each.mount(host)
    host.put(one.target(host) / "file", b"shared")
    assert host.content(two.target(host) / "file") == b"shared"
    one.unmount(host)
    assert host.files.info(one.target(host)) is None
    assert host.content(two.target(host) / "file") == b"shared"


def test_the_directory_of_a_volume_is_for_root_alone_until_it_is_mounted() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    ready_target = ready.target(host)
    host.mounts.unmount(ready_target)
    assert host.tree(ready_target)[ready_target] == "directory 750 0:0"


def test_options_are_sorted_and_each_given_once() -> None:
    wanted = volume(mount_options=("vers=4.1", "hard", "vers=4.1", "retry=1,noatime"))
    given = mounted_with(wanted, host_with_export(), read_only=True)
    assert given["options"] == ("hard", "noatime", "retry=1", "ro", "vers=4.1")


def test_mount_nfs_tries_once_since_it_is_tried_again_here() -> None:
    assert mounted_with(volume(), host_with_export())["options"] == ("retry=0",)


def test_a_read_only_volume_is_mounted_read_only() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host, read_only=True)
    assert host.table == {ready.target(host): "nfs ro"}


def test_an_option_that_says_writable_does_not_undo_read_only() -> None:
    wanted = volume(mount_options=("rw,noatime",))
    given = mounted_with(wanted, host_with_export(), read_only=True)
    assert given["options"] == ("noatime", "retry=0", "ro")


def test_a_comma_in_quotes_does_not_end_an_option() -> None:
    label = 'context="system_u:object_r:container_file_t:s0:c1,c2"'
    given = mounted_with(volume(mount_options=(f"{label},noatime",)), host_with_export())
    assert given["options"] == (label, "noatime", "retry=0")


def test_the_server_alone_decides_about_owners_and_labels() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host, fs_group=7)
    assert host.tree(ready.target(host))[ready.target(host)] == "directory 755 0:0"
    assert not ready.facets.relabel


def test_names_are_those_of_kubelet() -> None:
    ready = volume()
    assert ready.plugin.volume_name(ready.spec) == "10.0.0.1//srv/data"
    assert ready.unique_name == "kubernetes.io/nfs/uid-web-data"


# What is refused


@pytest.mark.parametrize(
    "server", ["", "-o", "a b", "a\nb", "nas/x", "a,b", "[::1", "a\0", "nas:2049", "fe80::1::", "[10.0.0.1]"]
)
def test_a_server_that_has_no_such_name_is_refused_unseen(server: str) -> None:
    refused_unseen(volume(server), r"invalid nfs\.server")


@pytest.mark.parametrize("path", ["", "srv", "../x", "/x\0", "/x\ny"])
def test_a_path_that_no_server_exports_is_refused_unseen(path: str) -> None:
    refused_unseen(volume(path=path), r"invalid nfs\.path")


@pytest.mark.parametrize("option", ["bg", "bind", "rbind", "remount", "hard,bg"])
def test_options_that_would_mount_something_else_or_unseen_are_refused(option: str) -> None:
    refused_unseen(volume(mount_options=(option,)), "mount option .* is refused")


def refused_unseen(of: Volume, problem: str) -> None:
    faulty = FaultHost(host_with_export())
    for attempt in (lambda: of.plugin.check(of.spec, None), lambda: of.mount(faulty)):
        with pytest.raises(SpecError, match=problem):
            attempt()
    assert faulty.trace == []


def test_another_file_system_in_the_place_of_the_volume_is_never_reported_as_it() -> None:
    host = host_with_export()
    ready = volume()
    host.mkdir(ready.target(host))
    host.mounts.ensure_mounted(ready.target(host), "tmpfs")
    with pytest.raises(OperationError, match=r"tmpfs \(tmpfs\) is mounted there; unmount it first"):
        ready.mount(host)
    assert host.table == {ready.target(host): "tmpfs"}


def test_what_is_mounted_already_is_left_as_it_is() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    before = host.table
    ready.mount(host, read_only=True)
    assert host.table == before


# What mount.nfs says


def failure(stderr: str) -> VolmgrError:
    """Let mount.nfs fail, and give what the volume's owner is told."""
    host = host_with_export()
    error = CommandError(("mount", "-t", "nfs", EXPORT, "/x"), 32, f"mount.nfs: {stderr}\n")
    ready = volume()
    with pytest.raises(VolmgrError) as caught:
        ready.mount(FaultHost(host, [Fault(1, error, verb="mounts.ensure_mounted")]))
    assert host.files.info(ready.target(host)) is None
    assert host.table == {}
    return caught.value


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        ("access denied by server while mounting 10.0.0.1:/srv/data", "see `exportfs -v` there"),
        ("mounting 10.0.0.1:/srv/data failed, reason given by server: No such file or directory", "make it there"),
        ("rpc.statd is not running but is required for remote locking.", "the mount option nolock"),
        ("requested NFS version or transport protocol is not supported", "see mount option vers"),
        ("an incorrect mount option was specified", "check the mount options"),
        ("No such device", "this kernel has no client of NFS"),
        ("Failed to resolve server nas: Name or service not known", "correct nfs.server"),
    ],
)
def test_a_failed_mount_leaves_nothing_and_says_whose_turn_it_is(stderr: str, told: str) -> None:
    error = failure(stderr)
    assert type(error) is OperationError
    assert str(error).startswith(f"cannot mount {EXPORT}: mount.nfs: {stderr}; ")
    assert told in str(error)


def test_words_of_mount_nfs_that_nobody_has_heard_yet_are_passed_on() -> None:
    assert str(failure("the moon is full")) == f"cannot mount {EXPORT}: mount.nfs: the moon is full"


@pytest.mark.parametrize("stderr", ["Connection timed out", "Connection refused", "No route to host"])
def test_a_server_that_mount_nfs_does_not_reach_counts_as_silent(stderr: str) -> None:
    assert isinstance(failure(stderr), UnansweredError)


@pytest.mark.parametrize(
    "stderr",
    ["bad option; you might need a /sbin/mount.<type> helper program.", "mount: /mnt: unknown filesystem type 'nfs'."],
)
def test_a_node_without_mount_nfs_is_told_which_package_it_needs(stderr: str) -> None:
    error = failure(stderr)
    assert isinstance(error, PluginError)
    assert "install nfs-common" in str(error)


# Servers that do not answer


def test_a_server_that_does_not_answer_is_found_out_before_anything_is_done() -> None:
    host = host_with_export()
    host.machine.silent.add(SERVER)
    ready = volume()
    before = host.tree()
    with pytest.raises(UnansweredError) as caught:
        ready.mount(host)
    assert str(caught.value) == (
        "cannot mount 10.0.0.1:/srv/data: cannot connect to 10.0.0.1 on TCP port 2049: no answer within 5 s"
    )
    assert host.tree() == before
    host.machine.silent.clear()
    ready.mount(host)
    assert host.table == {ready.target(host): "nfs"}


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ((), 2049),
        (("vers=4.1",), 2049),
        (("nfsvers=4",), 2049),
        (("proto=tcp6", "port=2050"), 2050),
        (("vers=3", "port=2050"), 2050),
        (("vers=3",), None),
        (("nfsvers=3",), None),
        (("v3",), None),
        (("mountport=892",), None),
        (("mounthost=other",), None),
        (("proto=udp",), None),
        (("udp",), None),
        (("rdma", "port=20049"), None),
        (("proto=rdma",), None),
        (("port=nfs",), None),
        (("port=70000",), None),
        (("port=0",), 2049),
    ],
)
def test_only_a_port_that_must_answer_is_asked(options: tuple[str, ...], port: int | None) -> None:
    faulty = FaultHost(host_with_export())
    volume(mount_options=options).mount(faulty)
    asked = [call for call in faulty.trace if call.verb == "network.reach"]
    assert [call.args for call in asked] == ([] if port is None else [(SERVER, port)])


def test_an_address_of_ipv6_is_asked_without_its_brackets() -> None:
    faulty = FaultHost(host_with_export("[::1]:/x"))
    volume("[::1]", "/x").mount(faulty)
    assert [call.args for call in faulty.trace if call.verb == "network.reach"] == [("::1", 2049)]


def test_the_server_is_not_asked_where_the_configuration_says_so() -> None:
    faulty = FaultHost(host_with_export().with_settings(NfsSettings(answer_within=0)))
    volume().mount(faulty)
    assert "network.reach" not in faulty.verbs


def test_a_mount_that_was_there_and_hangs_is_not_taken_for_ready_nor_taken_away() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    host.machine.silent.add(SERVER)
    with pytest.raises(UncertainError):
        ready.mount(host)
    assert host.table == {ready.target(host): "nfs"}


def test_a_volume_whose_server_is_silent_is_unmounted_by_force() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    host.machine.silent.add(SERVER)
    faulty = FaultHost(host)
    ready.unmount(faulty)
    assert [call.kwargs for call in faulty.trace if call.verb.startswith("mounts.unmount")] == [
        {"deadline": 60.0},
        {"force": True, "deadline": 30.0},
    ]
    assert host.table == {}
    assert host.files.info(ready.target(host)) is None


def test_a_server_that_answers_late_is_waited_for_as_long_as_the_configuration_says() -> None:
    host = host_with_export().with_settings(NfsSettings(force_after=7))
    ready = volume()
    ready.mount(host)
    for left, waited in ((100.0, 7.0), (3.0, 3.0)):
        faulty = FaultHost(host)
        request = replace(ready.unmount_request(host), deadline=host.clock() + left)
        Nfs().unmount(request, faulty)
        assert faulty.trace[0].kwargs == {"deadline": waited}


def test_a_busy_volume_whose_server_answers_is_never_unmounted_by_force() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    host.busy[ready.target(host) / "file"] = ("4711 (tail)",)
    faulty = FaultHost(host)
    with pytest.raises(BusyError, match=r"held by 4711 \(tail\)"):
        ready.unmount(faulty)
    assert "mounts.unmount" not in faulty.verbs


def test_a_busy_volume_whose_server_is_silent_stays_until_who_uses_it_has_ended() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    host.machine.silent.add(SERVER)
    host.busy[ready.target(host)] = ("4711 (tail)",)
    with pytest.raises(UncertainError, match=r"also not by force: .*held by 4711 \(tail\); it is tried again until"):
        ready.unmount(host)
    host.busy.clear()
    ready.unmount(host)
    assert host.table == {}


def test_only_a_policy_detaches_a_volume_that_is_still_used() -> None:
    host = host_with_export().with_settings(NfsSettings(lazy_unmount=True))
    ready = volume()
    ready.mount(host)
    host.machine.silent.add(SERVER)
    host.busy[ready.target(host)] = ("4711 (tail)",)
    ready.unmount(host)
    assert host.table == {}
    assert host.files.info(ready.target(host)) is None


def test_a_forced_unmount_never_ends_the_calls_of_another_pod() -> None:
    host = host_with_export().with_settings(NfsSettings(lazy_unmount=True))
    mine, other = of_pod("mine", volume()), of_pod("other", volume())
    for each in (mine, other):
        each.mount(host)
    host.machine.silent.add(SERVER)
    host.busy[mine.target(host)] = ("4711 (tail)",)
    faulty = FaultHost(host)
    with pytest.raises(UncertainError, match=f"would end the calls of others .*: {other.target(host)}"):
        mine.unmount(faulty)
    assert "mounts.unmount" not in faulty.verbs
    assert set(host.table) == {mine.target(host), other.target(host)}


def test_the_first_of_two_pods_leaves_a_silent_server_at_once() -> None:
    host = host_with_export()
    mine, other = of_pod("mine", volume()), of_pod("other", volume())
    for each in (mine, other):
        each.mount(host)
    host.machine.silent.add(SERVER)
    mine.unmount(host)
    assert set(host.table) == {other.target(host)}


def test_a_mount_that_is_gone_while_its_process_still_waits_is_gone() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    stuck = UncertainError("umount did not end before its deadline, and process 7 cannot be killed")
    ready.unmount(FaultHost(host, [Fault(1, stuck, When.AFTER, "mounts.unmount_below")]))
    assert host.table == {}
    assert host.files.info(ready.target(host)) is None


def test_what_was_written_below_a_mount_that_was_missing_is_kept_and_named() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    host.mounts.unmount(ready.target(host))
    host.put(ready.target(host) / "lost", b"written to the node's disk")
    with pytest.raises(OperationError, match="it is kept; move it away"):
        ready.unmount(host)
    assert host.content(ready.target(host) / "lost") == b"written to the node's disk"


def test_usage_of_a_silent_server_is_unknown() -> None:
    host = host_with_export()
    ready = volume()
    ready.mount(host)
    assert ready.measure(host).capacity == 1 << 40
    host.machine.silent.add(SERVER)
    with pytest.raises(UncertainError):
        ready.measure(host)


# What is found on disk


@pytest.mark.parametrize(("server", "source"), [("10.0.0.1", "10.0.0.1:/a"), ("[fd00::1]", "[fd00::1]:/a")])
def test_a_volume_without_a_record_is_rebuilt_from_its_mount(server: str, source: str) -> None:
    host = host_with_export(source)
    ready = volume(server, "/a")
    ready.mount(host, read_only=True)
    assert ready.reconstruct(host).spec.source == NfsSource(server=server, path="/a", read_only=True)


def test_the_export_of_all_of_a_server_is_rebuilt() -> None:
    host = host_with_export("nas:/")
    ready = volume("nas", "/")
    ready.mount(host)
    assert ready.reconstruct(host).spec.source == NfsSource(server="nas", path="/")


def test_a_directory_without_a_mount_says_no_more_than_kubelet_reads_from_it() -> None:
    host = host_with_export()
    ready = volume()
    host.mkdir(ready.target(host))
    rebuilt = ready.reconstruct(host).spec
    assert rebuilt.source == NfsSource(server="", path="data")
    assert ready.plugin.endpoint(rebuilt) == ""


def test_a_foreign_mount_says_nothing_of_a_server() -> None:
    host = host_with_export()
    ready = volume()
    host.mkdir(ready.target(host))
    host.mounts.ensure_mounted(ready.target(host), "tmpfs")
    assert ready.reconstruct(host).spec.source == NfsSource(server="", path="data")


def test_a_block_volume_is_never_looked_for_in_the_mount_table() -> None:
    found = Found(pod_uid="u", plugin=Nfs.name, spec_name="v", path=Path("/x"), mode=VolumeMode.BLOCK)
    assert Nfs().reconstruct(found, FakeHost()).spec.mode is VolumeMode.BLOCK


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="answer_within is -1; write seconds"):
        NfsSettings(answer_within=-1)
    with pytest.raises(ValueError, match="force_after is -1; write seconds"):
        NfsSettings(force_after=-1)
