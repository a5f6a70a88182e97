"""cephfs on a host in memory: what is mounted, by which client, as whom, and where the key is meanwhile."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.flow.core.probes import claim_of, storage
from volmgr.plugin import (
    Applies,
    CommandError,
    CommandResult,
    Facets,
    ObjectMeta,
    ObjectRef,
    OperationError,
    PersistentVolume,
    Reference,
    Secret,
    SecretReference,
    SpecError,
    TransientError,
    UnansweredError,
    UncertainError,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, Volume, When, pod
from volmgr.testing.node import TestNode, plugins_of
from volmgr.testing.node import pod as node_pod
from volmgr_cephfs.clients import FUSE_MARKER
from volmgr_cephfs.contract import KEY, MONITOR, arrange, arrange_fuse, ceph_fuse
from volmgr_cephfs.plugin import CephFs
from volmgr_cephfs.settings import CephFsSettings, Client
from volmgr_cephfs.source import CephFsSource

SECRET = Secret(metadata=ObjectMeta(name="ceph"), data={"key": KEY.encode()})
IN_DEFAULT = ObjectRef("Secret", "default", "ceph")
FUSE = "fuse.ceph-fuse"


def volume(*monitors: str, name: str = "data", objects: dict[ObjectRef, Any] | None = None, **fields: Any) -> Volume:  # noqa: ANN401 - fields of any type
    source = CephFsSource(monitors=monitors or (MONITOR,), **fields)
    return Volume(CephFs(), source, name=name, objects=objects or {})


def with_secret(secret: Secret = SECRET) -> Volume:
    return volume(secret_ref=SecretReference(name="ceph"), objects={IN_DEFAULT: secret})


def kernel_host(source: str = f"{MONITOR}:/") -> FakeHost:
    host = FakeHost()
    arrange(host)
    host.machine.serve("ceph", source)
    return host


def fuse_host() -> FakeHost:
    host = FakeHost()
    arrange_fuse(host)
    return host


def private(host: FakeHost) -> dict[Path, str]:
    """Give what is mounted where keys are."""
    place = host.paths.state / "cephfs"
    return {path: what for path, what in host.table.items() if path.is_relative_to(place)}


def holds_the_key(host: FakeHost) -> list[Path]:
    return [path for path, what in host.tree().items() if KEY in what and path != Path("/etc/ceph/admin.secret")]


class Waiting(FaultHost):
    """A host on which mounting takes its time."""

    seconds = 0.0

    def perform(
        self, verb: str, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:  # noqa: ANN401 - whatever is called
        if verb == "mounts.ensure_mounted" and isinstance(self.inner, FakeHost):
            self.inner.advance(self.seconds)
        return super().perform(verb, function, args, kwargs)


class Watched:
    """The kernel's or FUSE's client: looks around while it mounts, then does what it was told to."""

    def __init__(self, host: FakeHost, then: Callable[[tuple[str, ...], bytes], CommandResult]) -> None:
        self.host = host
        self.then = then
        self.argv: tuple[str, ...] = ()
        self.private: dict[Path, str] = {}
        self.keys: dict[Path, bytes] = {}

    def __call__(self, argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        self.argv = argv
        self.private = private(self.host)
        self.keys = {path: self.host.content(path) for path in holds_the_key(self.host)}
        return self.then(argv, stdin)


# Which client


def test_the_kernel_mounts_where_ceph_fuse_is_not_installed() -> None:
    host = kernel_host()
    of = volume()
    of.mount(host)
    assert host.table == {of.target(host): "ceph"}
    of.unmount(host)
    assert host.table == {}
    assert host.files.info(of.target(host)) is None


def test_ceph_fuse_mounts_where_its_mount_helper_is_installed() -> None:
    host = fuse_host()
    of = volume()
    of.mount(host)
    assert host.table == {of.target(host): FUSE}


def test_each_pod_has_a_mount_of_its_own_whose_name_is_the_pods() -> None:
    host = kernel_host()
    one, two = (replace(volume(), pod=pod(name)) for name in ("one", "two"))
    one.mount(host)
    two.mount(host)
    assert sorted(host.table) == sorted([one.target(host), two.target(host)])
    assert one.unique_name == "kubernetes.io/cephfs/uid-one-data"
    one.unmount(host)
    assert list(host.table) == [two.target(host)]


# What the kernel is asked for


def given(host: FakeHost, of: Volume, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of any type
    """Mount, and give what the host was asked to mount in the volume's place."""
    watching = FaultHost(host)
    of.mount(watching, **changes)
    calls = [call for call in watching.trace if call.verb == "mounts.ensure_mounted" and call.args[1] == "ceph"]
    assert len(calls) == 1
    return calls[0].kwargs


def test_monitors_path_and_user_are_those_of_the_source() -> None:
    host = kernel_host("10.0.0.1,[fd00::1],[fd00::2]:6790,mon.example.com:6789:/srv/a b")
    host.put("/etc/ceph/web.secret", KEY.encode())
    of = volume("10.0.0.1", "fd00::1", "[fd00::2]:6790", "mon.example.com:6789", path="/srv/a b", user="web")
    asked = given(host, of)
    assert asked["source"] == "10.0.0.1,[fd00::1],[fd00::2]:6790,mon.example.com:6789:/srv/a b"
    assert asked["options"][0] == "name=web"


def test_without_a_user_it_is_admin_with_the_secret_file_of_that_name() -> None:  # 107
    host = kernel_host()
    assert given(host, volume())["options"][0] == "name=admin"
    host.files.remove_file(Path("/etc/ceph/admin.secret"))
    with pytest.raises(OperationError, match=r"the secret file /etc/ceph/admin\.secret is missing on this node; write"):
        replace(volume(), pod=pod("other")).mount(host)


@pytest.mark.parametrize("content", [KEY, f"\n{KEY}\n", f'[client.admin]\n\tkey = {KEY}\n\tcaps mon = "allow *"\n'])
@pytest.mark.parametrize("make", [kernel_host, fuse_host])
def test_a_secret_file_holds_a_key_or_a_keyring_whichever_client_mounts(
    content: str, make: Callable[[], FakeHost]
) -> None:
    host = make()
    host.put("/srv/key", content.encode())
    of = volume(secret_file="/srv/key")
    of.mount(host)
    assert list(host.table) == [of.target(host)]


OTHER = base64.b64encode(bytes(28)).decode()


def test_of_a_keyring_with_several_users_the_key_of_the_volumes_own_is_taken() -> None:
    host = fuse_host()
    of = volume(user="web", secret_file="/srv/keyring")
    host.put("/srv/keyring", f"[client.admin]\n\tkey = {OTHER}\n[client.web]\n\tkey = {KEY}\n".encode())
    of.mount(host)
    assert list(host.table) == [of.target(host)]
    host.put("/srv/keyring", f"[client.admin]\n\tkey = {KEY}\n[client.fs]\n\tkey = {KEY}\n".encode())
    with pytest.raises(OperationError, match=r"/srv/keyring has no key of client\.web; correct cephfs.user"):
        replace(of, pod=pod("other")).mount(host)


def test_mount_options_are_sorted_and_read_only_is_one_of_them() -> None:
    host = kernel_host()
    options = given(host, volume(read_only=True), options=("noatime", "dirstat", "noatime"))["options"]
    assert options[:-2] == ("dirstat", "noatime", "ro")


def test_an_option_that_says_writable_does_not_undo_read_only() -> None:
    host = kernel_host()
    assert given(host, volume(read_only=True), options=("noatime", "rw"))["options"][:-2] == ("noatime", "ro")


@pytest.mark.parametrize("make", [kernel_host, fuse_host])
def test_a_volume_is_read_only_when_its_source_or_its_claim_says_so(make: Callable[[], FakeHost]) -> None:
    for of, claimed in ((volume(read_only=True), False), (volume(), True)):
        host = make()
        of.mount(host, read_only=claimed)
        assert host.table[of.target(host)].endswith(" ro")


def test_a_persistent_volume_that_says_so_itself_is_read_only_for_good() -> None:
    host = kernel_host()
    node = TestNode(host, plugins_of(CephFs()))
    node.sources_ready()
    source = {"cephfs": {"monitors": [MONITOR], "readOnly": True}}
    node.put_file("storage.yaml", *storage("d1", source=source))
    node.apply(node_pod("web", claim_of("data", "d1"), uid="u1"))
    mounted = dict(host.table)
    assert list(mounted.values()) == ["ceph ro"]
    for _ in range(2):
        node.mounts_changed()
        node.advance(60)
        assert (node.is_mounted("web"), node.warnings(), host.table) == (True, (), mounted)
        node.start()
        node.sources_ready()
    node.delete("u1")
    assert host.table == {}


# What ceph-fuse is asked for


def test_ceph_fuse_is_told_monitors_path_user_and_options() -> None:
    host = fuse_host()
    watched = host.programs["ceph-fuse"] = Watched(host, partial(ceph_fuse, host))
    of = volume("127.0.0.1:6789", "fd00::1", path="/srv", user="admin")
    of.mount(host, options=("noatime",), read_only=True)
    keyring = watched.argv[2]
    assert watched.argv == (
        "ceph-fuse",
        *("-k", keyring),
        *("-m", "127.0.0.1:6789,[fd00::1]"),
        str(of.target(host)),
        *("-r", "/srv"),
        *("--id", "admin"),
        "--client_mount_timeout=60",
        *("-o", "noatime,ro"),
    )
    assert watched.keys == {Path(keyring): f"[client.admin]\n\tkey = {KEY}\n".encode()}


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        (0, "ceph-fuse[7]: starting ceph client", ""),
        (1, "ceph mount failed with (1) Operation not permitted", "; the key is another one than the user's"),
        (1, "failed to fetch mon config (--no-mon-config to skip)", "; the key is another one than the user's"),
        (1, "can't open ceph.conf: (2) No such file or directory", ""),
        (33, "fuse: unknown option `nosuch'\nceph-fuse[583]: fuse failed to start", ""),
        (-11, "", ""),
    ],
)
def test_a_ceph_fuse_that_does_not_say_that_it_starts_has_failed_and_nothing_is_left(
    code: int, said: str, hint: str
) -> None:  # 108
    host = fuse_host()
    of = volume()

    def fails(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        ceph_fuse(host, argv, stdin)
        return CommandResult(code, said, "")

    host.programs["ceph-fuse"] = fails
    with pytest.raises(
        OperationError, match=r"cannot mount / of the Ceph file system at 127\.0\.0\.1:6789 as admin"
    ) as caught:
        of.mount(host)
    shown = "" if "ceph.conf" in said else "".join(f"{line}: " for line in said.splitlines())
    assert f"as admin: {shown}ceph-fuse exited with {code}{hint}" in str(caught.value)
    assert host.table == {}
    assert host.files.info(of.target(host)) is None
    assert holds_the_key(host) == []


@pytest.mark.parametrize(
    ("seconds", "expected"), [(6, r"laggy; no metadata server is up, or the key"), (7, r"as admin within 7 s: mount")]
)
def test_a_kernel_that_has_waited_for_all_of_its_time_says_that_nobody_answers(seconds: float, expected: str) -> None:
    host = kernel_host().with_settings(CephFsSettings(answer_within=7))
    refusal = CommandError(("mount",), 32, "mount error: no mds server is up or the cluster is laggy\n")
    faulty = Waiting(host, [Fault(2, refusal, verb="mounts.ensure_mounted")])
    faulty.seconds = seconds
    with pytest.raises(OperationError, match=expected) as caught:
        volume().mount(faulty)
    assert isinstance(caught.value, UnansweredError) == (seconds == 7)
    assert host.table == {}


@pytest.mark.parametrize(
    "said", ["mount: /v: unknown filesystem type 'ceph'.", "missing codepage or helper program, or"]
)
def test_a_node_without_either_client_is_told_which_package_it_needs(said: str) -> None:
    faulty = FaultHost(kernel_host(), [Fault(2, CommandError(("mount",), 32, said), verb="mounts.ensure_mounted")])
    with pytest.raises(
        OperationError, match=r"; mount\.ceph is not installed: install the package ceph-common, or ceph-fuse"
    ):
        volume().mount(faulty)


def test_a_ceph_fuse_that_has_waited_for_all_of_its_time_says_that_nobody_answers() -> None:
    host = fuse_host().with_settings(CephFsSettings(answer_within=7))

    def waits(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        assert "--client_mount_timeout=7" in argv
        host.advance(7)
        return CommandResult(1, "", "failed to fetch mon config (--no-mon-config to skip)")

    host.programs["ceph-fuse"] = waits
    with pytest.raises(UnansweredError, match=r"as admin within 7 s: failed to fetch mon config"):
        volume().mount(host)


def test_the_kernel_waits_as_long_as_the_configuration_says() -> None:
    host = kernel_host().with_settings(CephFsSettings(answer_within=7))
    assert "mount_timeout=7" in given(host, volume())["options"]


@pytest.mark.parametrize(
    ("client", "make", "expected"), [(Client.FUSE, kernel_host, FUSE), (Client.KERNEL, fuse_host, "ceph")]
)
def test_the_configuration_may_say_which_client(client: Client, make: Callable[[], FakeHost], expected: str) -> None:
    host = make().with_settings(CephFsSettings(client=client))
    host.machine.serve(FUSE, "ceph-fuse")
    host.programs["ceph-fuse"] = partial(ceph_fuse, host)
    volume().mount(host)
    assert list(host.table.values()) == [expected]


@pytest.mark.parametrize("fields", [{"answer_within": 0}, {"force_after": -1.0}])
def test_times_that_are_none_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="write seconds, such as 60"):
        CephFsSettings(**fields)


@pytest.mark.parametrize("lazy", [True, False])
def test_a_volume_whose_cluster_does_not_answer_is_unmounted_by_force(lazy: bool) -> None:
    host = kernel_host().with_settings(CephFsSettings(force_after=0.0, lazy_unmount=lazy))
    of = volume()
    of.mount(host)
    host.machine.silent.add("127.0.0.1")
    of.unmount(host)
    assert host.table == {}


def test_a_ceph_fuse_that_says_that_it_starts_and_mounts_nothing_is_uncertain() -> None:
    host = fuse_host()
    host.programs["ceph-fuse"] = lambda _argv, _stdin: CommandResult(0, "", "ceph-fuse[7]: starting fuse")
    with pytest.raises(UncertainError, match="ceph-fuse has started, but nothing is mounted there"):
        volume().mount(host)


# The key


@pytest.mark.parametrize("make", [kernel_host, fuse_host])
def test_while_a_client_mounts_the_key_is_in_memory_that_only_root_may_enter_and_nowhere_after(  # 107
    make: Callable[[], FakeHost],
) -> None:
    host = make()
    watching = FaultHost(host)
    with_secret().mount(watching)
    tmpfs = [call for call in watching.trace if call.verb == "mounts.ensure_mounted" and call.args[1] == "tmpfs"]
    (place,) = {call.args[0] for call in tmpfs}
    assert isinstance(place, Path)
    assert place.parent == host.paths.state / "cephfs"
    assert tmpfs[0].kwargs["options"] == ("mode=0700", "size=64k", "nosuid", "nodev", "noexec", "noswap")
    assert [call.args[0] for call in watching.trace if call.verb == "files.write"] == [place / "key"]
    assert not any(KEY in str((call.args, call.kwargs)) for call in watching.trace if call.verb != "files.write")
    assert (private(host), holds_the_key(host)) == ({}, [])
    assert host.files.names(place.parent) == ()


def test_ceph_fuse_finds_the_key_in_memory_alone() -> None:
    host = fuse_host()
    watched = host.programs["ceph-fuse"] = Watched(host, partial(ceph_fuse, host))
    with_secret().mount(host)
    (place,) = watched.private
    assert watched.private[place].startswith("tmpfs ")
    assert list(watched.keys) == [place / "key"]
    assert KEY not in " ".join(watched.argv)


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("when", list(When))
def test_a_key_that_a_killed_daemon_left_goes_with_the_next_that_is_done(gone: bool, when: When) -> None:
    host = kernel_host()
    with pytest.raises(Killed):
        with_secret().mount(FaultHost(host, [Fault.kill(2, when, verb="mounts.ensure_mounted")]))
    assert holds_the_key(host) != []
    (with_secret().unmount if gone else with_secret().mount)(host)
    assert holds_the_key(host) == []
    assert private(host) == {}


def test_a_key_that_cannot_be_taken_away_is_told_as_what_is_left() -> None:
    faulty = FaultHost(kernel_host(), [Fault(2, OperationError("busy"), verb="mounts.unmount", times=9)])
    with pytest.raises(UncertainError, match="busy"):
        volume().mount(faulty)


def test_the_key_is_the_secrets_last_value_as_kubelet_had_it() -> None:
    host = kernel_host()
    watching = FaultHost(host)
    with_secret(replace(SECRET, data={"note": b"mine", "key": f"{KEY}\n".encode()})).mount(watching)
    (written,) = [call.args[1] for call in watching.trace if call.verb == "files.write"]
    assert written == f"{KEY}\n".encode()


@pytest.mark.parametrize("data", [{}, {"key": b""}, {"key": b"not base 64!"}, {"key": b"\xff\xfe"}])
def test_what_is_no_key_is_refused_before_a_client_could_show_it(data: dict[str, bytes]) -> None:
    host = fuse_host()
    with pytest.raises(OperationError, match=r"Secret default/ceph (has no data|holds is no key in base64)") as caught:
        with_secret(replace(SECRET, data=data)).mount(host)
    assert "not base 64" not in str(caught.value)
    assert host.table == {}


def test_a_client_that_repeats_the_key_is_not_repeated() -> None:
    host = fuse_host()
    host.programs["ceph-fuse"] = lambda _argv, _stdin: CommandResult(1, "", f"bad key val={KEY}")
    with pytest.raises(OperationError, match="bad key val=<masked>"):
        volume().mount(host)


def test_a_secret_that_is_missing_is_waited_for() -> None:
    with pytest.raises(TransientError, match="volume data needs Secret default/ceph, which is missing"):
        volume(secret_ref=SecretReference(name="ceph")).mount(kernel_host())


def test_the_secret_is_in_the_namespace_of_the_pod_or_in_that_which_a_persistent_volume_names() -> None:
    plugin, web = CephFs(), pod()
    source = CephFsSource(monitors=(MONITOR,), secret_ref=SecretReference(name="ceph", namespace="vault"))
    inline = replace(volume(), source=source)
    claimed = replace(inline, spec_fields={"pv": PersistentVolume(metadata=ObjectMeta(name="pv"))})
    assert plugin.references(inline.spec, web) == (Reference(IN_DEFAULT),)
    assert plugin.references(claimed.spec, web) == (Reference(ObjectRef("Secret", "vault", "ceph")),)
    assert plugin.references(volume().spec, web) == ()


# What is refused


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"monitors": ()}, "monitors is empty; name at least one"),
        ({"monitors": (MONITOR, "a,b")}, r"monitors\[1\] 'a,b' is no address; write"),
        ({"monitors": ("10.0.0.1:65536",)}, "is no address"),
        ({"monitors": ("-o",)}, r"monitors\[0\] '-o' is no address"),
        ({"monitors": ("10.0.0.1:6789:/x",)}, "is no address"),
        ({"monitors": ("",)}, "is no address"),
        ({"user": "a,secret=b"}, r"user 'a,secret=b' is no name of a user"),
        ({"user": "-k"}, "is no name of a user"),
        ({"user": "client.web"}, "is no name of a user; write one such as admin, without client"),
        ({"path": "srv"}, "path 'srv' must be absolute"),
        ({"path": "/a/../b"}, "must not contain"),
        ({"secret_file": "key"}, "secretFile 'key' must be absolute"),
        ({"secret_ref": SecretReference()}, "secretRef has no name"),
    ],
)
def test_what_no_client_could_mount_is_refused_unseen(fields: dict[str, Any], problem: str) -> None:
    source = replace(CephFsSource(monitors=(MONITOR,)), **fields)
    of = replace(volume(), source=source)
    faulty = FaultHost(kernel_host())
    for attempt in (lambda: CephFs().check(of.spec, None), lambda: of.mount(faulty)):
        with pytest.raises(
            SpecError, match=rf"^cephfs\.{problem}" if not problem.startswith(("is", "must")) else problem
        ):
            attempt()
    assert faulty.trace == []


@pytest.mark.parametrize("option", ["secret=x", "noatime,secret=x", "noatime, secret=x", "key=x"])
def test_a_mount_option_with_a_secret_is_refused(option: str) -> None:
    of = replace(volume(), spec_fields={"mount_options": (option,)})
    with pytest.raises(SpecError, match="would show a secret to everybody; name a Secret in secretRef"):
        CephFs().check(of.spec, None)
    with pytest.raises(SpecError, match="would show a secret to everybody"):
        volume().mount(kernel_host(), options=(option,))


def test_another_mount_in_the_place_of_the_volume_is_never_taken_for_it() -> None:
    host = kernel_host()
    of = volume()
    host.mkdir(of.target(host))
    host.machine.mount(of.target(host), "tmpfs")
    with pytest.raises(OperationError, match="a tmpfs is mounted there; unmount it first"):
        of.mount(host)


# Names and facets


def test_it_is_named_by_its_monitors_and_given_to_no_group_and_not_labelled() -> None:
    plugin, spec = CephFs(), volume("a", "b").spec
    assert plugin.volume_name(spec) == "[a b]"
    assert plugin.facets(spec, {}) == Facets(fs_group=Applies.NOBODY, relabel=False)
    assert plugin.facets(volume(read_only=True).spec, {}).read_only


def test_volumes_of_the_same_monitors_share_their_failures() -> None:
    plugin = CephFs()
    one, two = volume("10.0.0.2", "10.0.0.1", path="/a").spec, volume("10.0.0.1", "10.0.0.2", path="/b").spec
    assert plugin.endpoint(one) == plugin.endpoint(two) == "Ceph cluster with monitors 10.0.0.1,10.0.0.2"
    assert plugin.endpoint(replace(one, source=CephFsSource(monitors=()))) == ""


# What is found on disk


def test_a_kernel_mount_says_which_monitors_and_path_it_is_of() -> None:
    host = kernel_host("10.0.0.1:6789,[fd00::1]:6789:/srv/x")
    of = volume("10.0.0.1:6789", "[fd00::1]:6789", path="/srv/x")
    of.mount(host)
    rebuilt = of.reconstruct(host).spec
    assert rebuilt.source == CephFsSource(monitors=("10.0.0.1:6789", "[fd00::1]:6789"), path="/srv/x")
    assert CephFs().endpoint(rebuilt) == CephFs().endpoint(of.spec)


@pytest.mark.parametrize("mounted", [True, False])
def test_what_only_the_layout_describes_has_no_monitors_and_is_unmounted(mounted: bool) -> None:
    host = fuse_host()
    of = volume()
    if mounted:
        of.mount(host)
    else:
        host.mkdir(of.target(host))
    rebuilt = of.reconstruct(host).spec
    assert rebuilt.source == CephFsSource(monitors=(), path=str(of.target(host)))
    with pytest.raises(SpecError):
        CephFs().check(rebuilt, None)
    replace(of, source=rebuilt.source).unmount(host)
    assert host.table == {}
    assert host.files.info(of.target(host)) is None


@pytest.mark.parametrize("found", ["data", "data~keyring"])
def test_the_keyring_that_kubelet_kept_on_disk_is_removed(found: str) -> None:
    host = kernel_host()
    of = volume(name=found)
    keyring = of.target(host).with_name("data~keyring")
    host.mkdir(keyring / "..2026")
    host.put(keyring / "..2026/admin.keyring", KEY.encode())
    host.link(keyring / "..data", "..2026")
    host.link(keyring / "admin.keyring", "..data/admin.keyring")
    of.reconstruct(host)
    of.unmount(host)
    assert host.files.names(of.target(host).parent) == ()


def test_what_was_written_below_a_mount_that_was_missing_is_kept_and_named() -> None:
    host = kernel_host()
    of = volume()
    host.mkdir(of.target(host))
    host.put(of.target(host) / "lost", b"written to the node's disk")
    with pytest.raises(OperationError, match="it is kept; move it away"):
        of.unmount(host)


# What the node must have


def requirements(host: FakeHost) -> dict[str, bool]:
    found = CephFs().requirements(host)
    assert all(each.remedy for each in found)
    return {each.check: each.met for each in found}


def test_the_kernels_client_needs_its_helper_and_its_module() -> None:
    host = FakeHost()
    assert requirements(host) == {"mount.ceph": False, "module ceph": False}
    host.programs["mount.ceph"] = lambda _argv, _stdin: CommandResult(0, "", "")
    host.programs["modprobe"] = lambda argv, _stdin: CommandResult(int(argv[-1] != "ceph"), "", "")
    assert requirements(host) == {"mount.ceph": True, "module ceph": True}


def test_a_module_that_is_loaded_is_there() -> None:
    host = FakeHost()
    host.mkdir("/proc")
    host.put("/proc/filesystems", b"nodev\tsysfs\nnodev\tceph\n")
    assert requirements(host)["module ceph"]


def test_ceph_fuse_needs_itself_and_the_device() -> None:
    host = FakeHost()
    host.programs[FUSE_MARKER] = lambda _argv, _stdin: CommandResult(0, "", "")
    assert requirements(host) == {"ceph-fuse": False, "/dev/fuse": False}
    host.programs["ceph-fuse"] = host.programs[FUSE_MARKER]
    host.special("/dev/fuse", "char")
    assert requirements(host) == {"ceph-fuse": True, "/dev/fuse": True}
