"""The example drivers on a real kernel: what they do, and what those that hang, flood or lie cannot do to others."""

import json
import os
import select
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.plugin import (
    FlexVolumeSource,
    Host,
    ObjectMeta,
    OperationError,
    Secret,
    SecretReference,
    TransientError,
    UncertainError,
)
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_flexvolume.driver import Driver
from volmgr_flexvolume.volume import FlexVolume, volume_type

pytestmark = pytest.mark.root

DRIVERS = Path(__file__).parent / "drivers"
GRACE = 30.0
PATIENCE = 60.0


class Site:
    """A real host, and a directory in which the example drivers are installed."""

    def __init__(self, host: Host, top: Path) -> None:
        self.host = host
        self.top = top

    def install(self, name: str) -> FlexVolume:
        """Install an example driver and ask it what it can do, as the prober does."""
        path = self.top / "flex" / f"example.com~{name}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DRIVERS / name, path)
        driver = Driver(f"example.com/{name}", path)
        return volume_type(driver, driver.initialize(self.host, GRACE))

    def volume(self, name: str, **source: object) -> Volume:
        plugin = self.install(name)
        return Volume(plugin, FlexVolumeSource(driver=plugin.name, **source))  # type: ignore[arg-type]

    def path(self, name: str) -> Path:
        return self.top / "flex" / f"example.com~{name}"

    def disk(self, size: int = 16 << 20) -> Path:
        file = self.top / "disk.img"
        with file.open("wb") as opened:
            opened.truncate(size)
        return file


def has_ended(pid: int) -> bool:
    """Wait for the end of a process that was killed: the kernel takes its time. Whoever adopts it may not bury it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    end = select.poll()
    end.register(process, select.POLLIN)
    try:
        return bool(end.poll(PATIENCE * 1000))
    finally:
        os.close(process)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with RealHosts(tmp_path) as hosts:
        yield Site(*hosts.fresh())


def test_a_tmpfs_driver_is_told_all_that_the_protocol_says(site: Site) -> None:
    one = site.volume("tmpfs", options={"size": "256k"}, secret_ref=SecretReference(name="login"))
    ref = one.plugin.references(one.spec, one.pod)[0].ref
    secret = Secret(metadata=ObjectMeta(name="login"), type="example.com/tmpfs", data={"password": b"hunter2"})
    one = replace(one, objects={ref: secret})
    one.mount(site.host, fs_group=4711)
    target = one.target(site.host)
    entry = site.host.mounts.entry(target)
    assert entry is not None
    assert (entry.fstype, entry.source) == ("tmpfs", "flex-tmpfs")
    told = json.loads((target / "options.json").read_text())
    assert told["kubernetes.io/secret/password"] == "aHVudGVyMg=="
    assert told["kubernetes.io/mounterArgs.FsGroup"] == "4711"
    assert one.measure(site.host).capacity == 256 << 10
    one.unmount(site.host)
    assert not target.exists()


def test_a_disk_is_attached_formatted_mounted_bound_and_given_back(site: Site) -> None:
    file = site.disk()
    one = site.volume("loopfile", options={"file": str(file)})
    ready = one.set_up(site.host)
    assert site.host.block.find_loops(file) == (Path(ready.device_path),)
    ready.mount(site.host)
    entry = site.host.mounts.entry(ready.target(site.host))
    assert entry is not None
    assert (entry.fstype, entry.source) == ("ext4", ready.device_path)
    (ready.target(site.host) / "file").write_text("kept")
    rebuilt = ready.reconstruct(site.host)
    assert (rebuilt.device_path, rebuilt.spec.source) == (
        ready.device_path,
        FlexVolumeSource(driver="example.com/loopfile"),
    )
    ready.unmount(site.host)
    ready.unmount_device(site.host)
    ready.detach(site.host)
    assert site.host.block.find_loops(file) == ()
    again = one.set_up(site.host)
    again.mount(site.host)
    assert (again.target(site.host) / "file").read_text() == "kept"
    again.unmount(site.host)
    again.unmount_device(site.host)
    again.detach(site.host)


def test_a_disk_grows_where_the_driver_does_not_do_it(site: Site) -> None:
    file = site.disk(400 << 20)
    ready = site.volume("loopfile", fs_type="xfs", options={"file": str(file)}).set_up(site.host)
    ready.mount(site.host)
    before = site.host.mounts.file_system(ready.target(site.host)).size
    with file.open("r+b") as opened:
        opened.truncate(600 << 20)
    site.host.block.refresh_size(Path(ready.device_path))
    assert ready.expand(site.host, old_size=400 << 20, new_size=600 << 20).size == 600 << 20
    assert site.host.mounts.file_system(ready.target(site.host)).size > before
    ready.unmount(site.host)
    ready.unmount_device(site.host)
    ready.detach(site.host)


def test_a_driver_without_any_command_is_asked_once_for_each(site: Site) -> None:
    one = site.volume("nothing")
    for _ in range(2):
        with pytest.raises(OperationError, match=r"the device \(none\) of volume data is not there"):
            one.set_up(site.host)
        with pytest.raises(OperationError, match="nothing is mounted on the node that could be bound"):
            one.mount(site.host)
        one.unmount(site.host)
        one.unmount_device(site.host)
        one.detach(site.host)
    asked = (site.path("nothing") / ".asked").read_text().split()
    assert asked == ["init", "getvolumename", "attach", "waitforattach", "isattached", "mount", "detach"]
    assert not one.target(site.host).exists()


def test_a_driver_that_hangs_is_killed_with_its_children_at_the_deadline(site: Site) -> None:
    one = site.volume("hangs", secret_ref=SecretReference(name="login"))
    ref = one.plugin.references(one.spec, one.pod)[0].ref
    secret = Secret(metadata=ObjectMeta(name="login"), type="example.com/hangs", data={"password": b"hunter2"})
    one = replace(one, objects={ref: secret})
    with pytest.raises(UncertainError, match="did not end before its deadline and was killed") as error:
        one.mount(site.host, deadline=site.host.clock() + 1.0)
    assert "waiting for a server" in str(error.value)
    assert "aHVudGVyMg" not in str(error.value)
    assert has_ended(int((site.path("hangs") / ".child").read_text()))


def test_a_driver_that_hangs_is_killed_when_the_operation_is_cancelled(site: Site) -> None:
    one = site.volume("hangs")
    begun = site.path("hangs") / ".child"
    with pytest.raises(UncertainError, match="was cancelled and was killed"):
        one.mount(site.host, cancelled=begun.exists)


def test_a_flood_is_cut_off_and_is_no_answer(site: Site) -> None:
    with pytest.raises(UncertainError, match="its answer is no JSON; correct the driver: 'xxx") as error:
        site.volume("floods").mount(site.host)
    assert len(str(error.value)) < 500


def test_what_a_liar_says_is_looked_after(site: Site) -> None:
    one = site.volume("lies")
    assert [notice.reason for notice in one.mount(site.host).notices] == ["NothingMounted"]
    site.host.mounts.ensure_mounted(one.target(site.host), "tmpfs")
    with pytest.raises(OperationError, match="said that unmount was done, and"):
        one.unmount(site.host)
    site.host.mounts.unmount(one.target(site.host))
    one.unmount(site.host)
    with pytest.raises(UncertainError, match="said Success and exited with 3"):
        replace(one, source=FlexVolumeSource(driver="example.com/lies", options={"exit": "3"})).mount(site.host)


def test_an_executable_that_vanished_is_waited_for(site: Site) -> None:
    one = site.volume("tmpfs")
    one.mount(site.host)
    (site.path("tmpfs") / "tmpfs").unlink()
    with pytest.raises(TransientError, match="install it again") as error:
        one.unmount(site.host)
    assert error.value.waits_for == "example.com/tmpfs"
    site.install("tmpfs")
    one.unmount(site.host)
    assert not one.target(site.host).exists()


# How public drivers behave


def test_a_driver_that_fails_on_standard_error_is_understood(site: Site) -> None:
    one = site.volume("export", options={"share": str(site.top / "share")})
    with pytest.raises(OperationError, match=r"mount of driver example\.com/export failed: 'Failure: no share"):
        one.mount(site.host)
    (site.top / "share").mkdir()
    (site.top / "share/file").write_text("shared")
    one.mount(site.host)
    assert (one.target(site.host) / "file").read_text() == "shared"
    one.unmount(site.host)
    assert not one.target(site.host).exists()
    assert (site.top / "share/file").read_text() == "shared"


def test_a_driver_that_logs_beside_its_answer_and_removes_the_directory_is_understood(site: Site) -> None:
    one = site.volume("vault", secret_ref=SecretReference(name="login"))
    ref = one.plugin.references(one.spec, one.pod)[0].ref
    secret = Secret(metadata=ObjectMeta(name="login"), type="example.com/vault", data={"password": b"\xffhunter2"})
    one = replace(one, objects={ref: secret})
    one.mount(site.host)
    assert (one.target(site.host) / "password").read_bytes() == b"\xffhunter2"
    one.unmount(site.host)
    assert not one.target(site.host).exists()
    one.unmount(site.host)
