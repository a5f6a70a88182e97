"""Finding what is staged on the node where neither a Pod's directory nor a record says anything of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.csi.in_memory import ALL, IMAGE_FILE, NAME, NODE, PLUGIN, STAGED, Site, persistent, running_in_memory
from volmgr.plugin import CSI_FIELD, CsiSource, FoundDevice, UnmountDevice, VolumeMode, VolumeSpec
from volmgr_csi.volume import Csi

DEVICES = f"{PLUGIN}/volumeDevices"
SOURCE = CsiSource(driver=NAME, volume_handle="h")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_in_memory(tmp_path) as running:
        running.host.files.write(IMAGE_FILE, bytes(1 << 20))
        yield running


def found(site: Site) -> tuple[FoundDevice[CsiSource], ...]:
    return Csi().devices(site.host)


def spec(name: str, mode: VolumeMode = VolumeMode.FILESYSTEM) -> VolumeSpec[CsiSource]:
    return VolumeSpec(name=name, type=CSI_FIELD, driver=NAME, source=SOURCE, mode=mode)


def put(site: Site, path: str, text: str) -> None:
    site.host.files.ensure_directory(Path(path).parent, 0o750)
    site.host.files.write(Path(path), text.encode(), 0o644)


def test_nothing_is_found_on_a_node_without_volumes(site: Site) -> None:
    assert found(site) == ()
    site.host.files.ensure_directory(Path(PLUGIN), 0o750)
    put(site, f"{PLUGIN}/a file", "")
    put(site, f"{PLUGIN}/{NAME}/a file", "")
    assert found(site) == ()


def test_a_staged_volume_is_found_by_kubelet_s_file_with_its_label(site: Site) -> None:
    persistent().mount_device(site.host, node_name=NODE, selinux_label="system_u:object_r:container_file_t:s0")
    wanted = FoundDevice(
        target=Path(STAGED, "globalmount"),
        spec=spec(Path(STAGED).name),
        selinux_label="system_u:object_r:container_file_t:s0",
    )
    assert found(site) == (wanted,)
    name = Csi().volume_name(spec("any"))
    Csi().unmount_device(
        UnmountDevice(volume=f"kubernetes.io/csi/{name}", device_path="", target=wanted.target), site.host
    )
    assert found(site) == ()
    assert site.left() == []


def test_the_file_that_kubelet_1_30_wrote_for_a_driver_that_stages_nothing_goes_without_a_call(site: Site) -> None:
    site.register(replace(ALL, stage=False))
    site.host.files.ensure_directory(Path(STAGED, "globalmount"), 0o750)
    put(site, f"{STAGED}/vol_data.json", f'{{"driverName":"{NAME}","volumeHandle":"h"}}\n')
    (device,) = found(site)
    assert device.spec == spec(Path(STAGED).name)
    name = f"kubernetes.io/csi/{Csi().volume_name(spec('any'))}"
    Csi().unmount_device(UnmountDevice(volume=name, device_path="", target=device.target), site.host)
    assert (found(site), site.left(), site.calls()) == ((), [], [])


def test_the_empty_directory_that_a_newer_kubelet_leaves_of_such_a_driver_is_nothing(site: Site) -> None:
    site.host.files.ensure_directory(Path(STAGED, "globalmount"), 0o750)
    assert found(site) == ()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_block_volume_is_found_with_the_pods_that_have_it(site: Site, mapped: bool) -> None:
    volume = persistent(mode=VolumeMode.BLOCK)
    volume = replace(volume, device_path=volume.mount_device(site.host, node_name=NODE).device_path)
    if mapped:
        volume.mount(site.host, node_name=NODE)
    (device,) = found(site)
    assert device.target == Path(DEVICES, volume.name, "dev")
    assert device.spec == spec(volume.name, VolumeMode.BLOCK)
    assert device.pod_uids == (("uid-web",) if mapped else ())
    if mapped:
        volume.unmount(site.host)
    replace(volume, plugin=Csi()).unmount_device(site.host)
    assert (found(site), site.left()) == ((), [])


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        f'{{"driverName":"{NAME}"}}',
        f'{{"driverName":"{NAME}","volumeHandle":"another"}}',
        '{"driverName":"other.csi.test","volumeHandle":"h"}',
        '{"driverName":"../../etc","volumeHandle":"h"}',
    ],
    ids=["empty", "cut", "list", "deep", "no handle", "another handle", "another driver", "a way out"],
)
def test_a_damaged_file_says_nothing_and_that_is_said(site: Site, said: str) -> None:
    persistent().mount_device(site.host, node_name=NODE)
    put(site, f"{STAGED}/vol_data.json", said)
    (device,) = found(site)
    assert (device.target, device.spec) == (Path(STAGED, "globalmount"), None)
    assert f"{STAGED}/vol_data.json" in device.problem


def test_a_missing_file_is_a_problem_where_something_is_staged(site: Site) -> None:
    persistent().mount_device(site.host, node_name=NODE)
    site.host.files.remove_file(Path(STAGED, "vol_data.json"))
    (device,) = found(site)
    assert (device.spec, device.problem != "") == (None, True)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_block_volume_without_its_file_is_a_problem(site: Site, damaged: bool) -> None:
    volume = persistent(mode=VolumeMode.BLOCK)
    replace(volume, device_path=volume.mount_device(site.host, node_name=NODE).device_path).mount(
        site.host, node_name=NODE
    )
    file = Path(DEVICES, volume.name, "data/vol_data.json")
    if damaged:
        site.host.files.write(file, b"{", 0o644)
    else:
        site.host.files.remove_file(file)
    (device,) = found(site)
    assert (device.target, device.spec) == (Path(DEVICES, volume.name, "dev"), None)
    assert str(file) in device.problem


def test_what_a_kubelet_leaves_empty_of_block_volumes_is_nothing(site: Site) -> None:
    for name in ("staging/pv", "publish/pv", "pv/dev", "pv/data"):
        site.host.files.ensure_directory(Path(DEVICES, name), 0o750)
    assert found(site) == ()
