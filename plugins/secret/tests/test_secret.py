"""secret on a host in memory: kubelet's paths, modes, markers and messages."""

from pathlib import Path

import pytest

from volmgr.plugin import (
    Applies,
    BusyError,
    Container,
    KeyToPath,
    ObjectMeta,
    ObjectRef,
    OperationError,
    PodSpec,
    Reference,
    Secret,
    SpecError,
    TransientError,
    UncertainError,
    VolumeMount,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Volume, pod
from volmgr_secret.plugin import SecretSource, SecretVolume

ROOT = Path("/var/lib/volmgr")
TARGET = ROOT / "pods/uid-web/volumes/kubernetes.io~secret/data"
MARKER = ROOT / "pods/uid-web/plugins/kubernetes.io~empty-dir/wrapped_data/ready"
NAME = "login"
REF = ObjectRef("Secret", "default", NAME)


def secret(**data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name=NAME), data=data)


def volume(found: Secret | None = None, *, of: PodSpec | None = None, **fields: object) -> Volume:
    source = SecretSource(secret_name=NAME, **fields)  # type: ignore[arg-type]
    owner = pod() if of is None else pod(containers=of.containers)
    return Volume(SecretVolume(), source, owner, objects={} if found is None else {REF: found})


def shown(host: FakeHost) -> dict[str, str]:
    """Give the files by their visible names."""
    stamp = host.files.read_link(TARGET / "..data")
    assert stamp is not None
    top = TARGET / stamp
    return {str(path.relative_to(top)): what for path, what in host.tree(top).items() if what.startswith("file")}


def test_every_key_is_a_file_in_memory_that_is_never_swapped_and_the_marker_is_an_empty_dir_s() -> None:
    host = FakeHost(memory=1 << 30)
    volume(secret(foo=b"1", bar=b"2")).mount(host)
    assert shown(host) == {"foo": "file 644 0:0 b'1'", "bar": "file 644 0:0 b'2'"}
    assert host.table == {TARGET: "tmpfs size=1048576k,noswap"}
    assert host.tree(MARKER.parent) == {MARKER.parent: "directory 750 0:0", MARKER: "file 640 0:0 b''"}


def test_a_group_may_read_what_nobody_else_may_and_that_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    host = FakeHost()
    of = volume(secret(key=b"k"), default_mode=0o400)
    of.mount(host, fs_group=1000)
    assert shown(host) == {"key": "file 440 0:1000 b'k'"}
    info = host.files.info(TARGET)
    assert info is not None
    assert (info.mode, info.gid) == (0o2777, 1000)
    of.mount(host, fs_group=1000)
    assert caplog.text.count("fsGroup 1000 lets owner and group read key of volume data") == 1


def test_without_a_group_the_mode_is_exact_and_an_item_s_wins() -> None:
    host = FakeHost()
    items = (KeyToPath(key="foo", path="ssh/id", mode=0o400), KeyToPath(key="bar", path="bar"))
    volume(secret(foo=b"1", bar=b"2"), default_mode=0o440, items=items).mount(host)
    assert shown(host) == {"ssh/id": "file 400 0:0 b'1'", "bar": "file 440 0:0 b'2'"}


def test_a_missing_secret_is_waited_for_by_its_name() -> None:
    host = FakeHost()
    with pytest.raises(TransientError, match="Secret default/login, which is missing") as caught:
        volume().mount(host)
    assert caught.value.waits_for == str(REF)
    assert host.files.info(TARGET) is None


def test_a_missing_optional_secret_is_an_empty_volume_that_fills_when_it_appears() -> None:
    host = FakeHost()
    volume(optional=True).mount(host)
    assert shown(host) == {}
    volume(secret(foo=b"1"), optional=True).mount(host)
    assert shown(host) == {"foo": "file 644 0:0 b'1'"}
    assert volume(optional=True).plugin.references(volume(optional=True).spec, pod()) == (
        Reference(REF, optional=True),
    )


def test_a_missing_key_leaves_no_directory_the_first_time_and_the_old_files_later() -> None:
    host = FakeHost()
    items = (KeyToPath(key="foo", path="foo"),)
    with pytest.raises(SpecError, match="references non-existent secret key: foo"):
        volume(secret(bar=b""), items=items).mount(host)
    assert host.files.info(TARGET) is None
    volume(secret(foo=b"1"), items=items).mount(host)
    with pytest.raises(SpecError, match="non-existent secret key"):
        volume(secret(bar=b""), items=items).mount(host, remount=True)
    assert shown(host) == {"foo": "file 644 0:0 b'1'"}
    volume(secret(bar=b""), items=items, optional=True).mount(host, remount=True)
    assert shown(host) == {}


def test_a_source_without_a_name_says_what_to_write() -> None:
    of = Volume(SecretVolume(), SecretSource())
    with pytest.raises(SpecError, match="secretName is missing; name the Secret"):
        of.plugin.check(of.spec, of.pod)


@pytest.mark.parametrize(
    "source",
    [
        SecretSource(secret_name=NAME, default_mode=0o1000),
        SecretSource(secret_name=NAME, items=(KeyToPath(key="k", path="p", mode=0o1777),)),
        SecretSource(secret_name=NAME, items=(KeyToPath(key="k", path="/p"),)),
    ],
)
def test_what_no_secret_can_mend_is_refused_without_one(source: SecretSource) -> None:
    of = Volume(SecretVolume(), source)
    with pytest.raises(SpecError):
        of.plugin.check(of.spec, of.pod)


def test_the_volume_is_known_by_the_secret_s_name_but_is_the_pod_s_own() -> None:
    of = volume()
    assert of.plugin.volume_name(of.spec) == NAME
    assert of.unique_name == "kubernetes.io/secret/uid-web-data"
    assert (of.facets.remount, of.facets.fs_group) == (True, Applies.PLUGIN)


def test_a_change_replaces_all_files_at_once() -> None:
    host = FakeHost()
    volume(secret(foo=b"1", bar=b"1")).mount(host)
    before = host.files.read_link(TARGET / "..data")
    volume(secret(foo=b"2", new=b"2")).mount(host, remount=True)
    assert shown(host) == {"foo": "file 644 0:0 b'2'", "new": "file 644 0:0 b'2'"}
    after = host.files.read_link(TARGET / "..data")
    assert host.files.names(TARGET) == (after, "..data", "foo", "new")
    assert after != before


def test_after_a_reboot_memory_is_mounted_and_written_again() -> None:
    host = FakeHost()
    of = volume(secret(foo=b"1"))
    of.mount(host)
    host.reboot()
    assert host.files.info(MARKER) is not None
    of.mount(host)
    assert shown(host) == {"foo": "file 644 0:0 b'1'"}
    assert TARGET in host.table


def test_a_failed_first_write_takes_everything_back() -> None:
    host = FakeHost()
    faulty = FaultHost(host, [Fault(1, OperationError("input/output error"), verb="files.make_tree")])
    with pytest.raises(OperationError, match="input/output error"):
        volume(secret(foo=b"1")).mount(faulty)
    assert host.table == {}
    assert host.files.info(TARGET) is None
    assert host.files.info(MARKER.parent) is None


def test_a_failed_first_write_that_cannot_be_taken_back_is_uncertain() -> None:
    faulty = FaultHost(
        FakeHost(),
        [
            Fault(1, OperationError("input/output error"), verb="files.make_tree"),
            Fault(1, BusyError("in use by sleep (7)"), verb="mounts.unmount_below"),
        ],
    )
    with pytest.raises(UncertainError, match=r"input/output error.*in use by sleep \(7\)"):
        volume(secret(foo=b"1")).mount(faulty)


@pytest.mark.parametrize("verb", ["files.make_tree", "files.rename", "ownership.apply"])
def test_a_failed_change_keeps_the_old_files_mounted(verb: str) -> None:
    host = FakeHost()
    volume(secret(foo=b"1")).mount(host, fs_group=1000)
    before = host.tree(TARGET)
    faulty = FaultHost(host, [Fault(1, OperationError("input/output error"), verb=verb)])
    with pytest.raises(OperationError, match="input/output error"):
        volume(secret(foo=b"2")).mount(faulty, fs_group=1000, remount=True)
    assert host.tree(TARGET) == before
    assert TARGET in host.table


def test_what_other_volumes_are_mounted_on_in_it_is_made() -> None:
    def mounts(*of: tuple[str, str]) -> Container:
        return Container(name="c", volume_mounts=tuple(VolumeMount(name=name, mount_path=path) for name, path in of))

    host = FakeHost(umask=0o077)
    used = PodSpec(containers=(mounts(("data", "/etc/s"), ("tmp", "/etc/s/a/b"), ("tmp", "/etc/s/foo/x")),))
    volume(secret(foo=b"1"), of=used).mount(host)
    assert host.tree(TARGET / "a") == {TARGET / "a": "directory 755 0:0", TARGET / "a/b": "directory 755 0:0"}
    assert host.files.read_link(TARGET / "foo") == "..data/foo"
    volume(secret(foo=b"1"), of=used).unmount(host)
    assert host.files.info(TARGET) is None


def test_usage_is_that_of_the_file_system_in_memory() -> None:
    host = FakeHost(memory=1 << 20)
    of = volume(secret(foo=b"x" * 1000))
    of.mount(host)
    measured = of.measure(host)
    assert measured.capacity == 1 << 20
    assert measured.used >= 1000


def test_nothing_that_can_be_printed_shows_what_is_secret() -> None:
    of = volume(secret(password=b"hunter2"))
    host = FakeHost()
    request = of.mount_request(host)
    assert "hunter2" not in f"{of.spec!r} {request!r} {request.objects[REF]!r}"
    faulty = FaultHost(host)
    of.mount(faulty)
    assert "hunter2" not in "".join(map(str, faulty.trace))
