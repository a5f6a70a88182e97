"""Taking csi volumes away whatever became of kubelet's files, and finding out which volume a directory is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.csi.fault_driver.rules import Rule
from tests.csi.in_memory import (
    ALL,
    IMAGE_FILE,
    NAME,
    NODE,
    PLUGIN,
    POD_VOLUME,
    ROOT,
    STAGED,
    Site,
    csi_driver,
    inline,
    persistent,
    running_in_memory,
)
from volmgr.plugin import NotOurs, NotReconstructible, OperationError, UncertainError, VolmgrError, VolumeMode
from volmgr.testing import Volume
from volmgr_csi.volume import Csi

DEVICES = f"{PLUGIN}/volumeDevices"
JSON = "vol_data.json"
Harm = Callable[[Site, Path], None]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_in_memory(tmp_path) as running:
        running.host.files.write(IMAGE_FILE, bytes(1 << 20))
        yield running


def block() -> Volume:
    return persistent(mode=VolumeMode.BLOCK)


def mount(volume: Volume, site: Site) -> None:
    volume.mount_device(site.host, node_name=NODE)
    volume.mount(site.host, node_name=NODE)


def take_away(volume: Volume, site: Site) -> None:
    """Unmount by an object of the type that remembers nothing."""
    fresh = replace(volume, plugin=Csi())
    fresh.unmount(site.host)
    fresh.unmount_device(site.host)


def put(text: bytes) -> Harm:
    return lambda site, path: site.host.files.write(path, text, 0o644)


def delete(site: Site, path: Path) -> None:
    site.host.files.remove_file(path)


HARM: dict[str, Harm] = {
    "deleted": delete,
    "empty": put(b""),
    "cut off": put(b'{"driverName":"memory.c'),
    "no object": put(b"[]\n"),
    "no texts": put(b'{"driverName":["memory.csi.test"],"volumeHandle":7}\n'),
    "a driver that leads elsewhere": put(b'{"driverName":"../../../etc","volumeHandle":"h"}\n'),
    "too deep": put(b"[" * 100_000),
}
harmed = pytest.mark.parametrize("harm", HARM.values(), ids=HARM)


@harmed
@pytest.mark.parametrize("volume", [persistent, inline, block], ids=["persistent", "inline", "block"])
def test_a_volume_whose_files_are_damaged_is_taken_away_all_the_same(
    site: Site, volume: Callable[[], Volume], harm: Harm
) -> None:
    mount(volume(), site)
    for path in site.files():
        harm(site, Path(path))
    take_away(volume(), site)
    staged = volume().facets.device
    assert site.named().count("NodeUnpublishVolume") == 1
    assert site.named().count("NodeUnstageVolume") == (1 if staged else 0)
    assert site.left() == []


@harmed
def test_a_volume_of_kubelet_s_with_damaged_files_is_taken_away_by_its_name(site: Site, harm: Harm) -> None:
    mount(persistent(), site)
    site.forget_records()
    for path in site.files():
        harm(site, Path(path))
    take_away(persistent(), site)
    assert [call.request["volumeId"] for call in site.calls("NodeUnpublishVolume", "NodeUnstageVolume")] == ["h", "h"]
    assert site.left() == []


@harmed
def test_a_volume_whose_records_are_damaged_is_taken_away_by_its_files(site: Site, harm: Harm) -> None:
    mount(persistent(), site)
    state = site.host.paths.state / "csi"
    for kind in ("staged", "published"):
        for name in site.host.files.names(state / kind):
            harm(site, state / kind / name)
    take_away(persistent(), site)
    assert [call.request["volumeId"] for call in site.calls("NodeUnpublishVolume", "NodeUnstageVolume")] == ["h", "h"]
    assert site.left() == []


@harmed
def test_a_volume_that_nothing_names_is_known_by_what_its_mount_is_a_copy_of(site: Site, harm: Harm) -> None:
    volume = persistent()
    mount(volume, site)
    site.forget_records()
    harm(site, Path(POD_VOLUME, JSON))
    rebuilt = volume.reconstruct(site.host).spec
    assert (rebuilt.driver, rebuilt.source.volume_handle) == (NAME, "h")


def test_an_inline_volume_that_nobody_knows_is_left_as_long_as_it_is_mounted(site: Site) -> None:
    mount(inline(), site)
    site.forget_records()
    delete(site, Path(POD_VOLUME, JSON))
    with pytest.raises(OperationError, match=r"nothing says which csi driver mounted .* unmount it by hand"):
        inline().unmount(site.host)
    with pytest.raises(NotReconstructible):
        inline().reconstruct(site.host)
    site.host.mounts.unmount(Path(POD_VOLUME, "mount"))
    inline().unmount(site.host)
    assert site.named() == ["NodePublishVolume"]
    assert site.left() == []


def test_where_kubelet_s_file_and_ours_disagree_kubelet_s_is_right(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    other = f'{{"driverName":"{NAME}","volumeHandle":"other"}}\n'.encode()
    site.host.files.write(Path(POD_VOLUME, JSON), other, 0o644)
    volume.unmount(site.host)
    assert site.requests("NodeUnpublishVolume")[0]["volumeId"] == "other"


def test_what_kubelet_1_30_wrote_for_a_driver_that_stages_nothing_is_cleared(site: Site) -> None:
    site.register(replace(ALL, stage=False))
    volume = persistent()
    mount(volume, site)
    old = f'{{"driverName":"{NAME}","volumeHandle":"h"}}\n'.encode()
    site.host.files.write(Path(STAGED, JSON), old, 0o644)
    take_away(volume, site)
    assert site.named() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert site.left() == []


@pytest.mark.parametrize("code", ["UNIMPLEMENTED", ""])
def test_what_a_driver_staged_is_unstaged_although_its_next_version_stages_nothing(site: Site, code: str) -> None:
    volume = persistent()
    mount(volume, site)
    site.register(replace(ALL, stage=False))
    if code:
        site.answer("NodeUnstageVolume", code)

    take_away(volume, site)

    assert site.named().count("NodeUnstageVolume") == 1
    assert (site.left(), site.host.table) == ([], {})


@pytest.mark.parametrize("volume", [persistent, inline, block], ids=["persistent", "inline", "block"])
def test_unmounting_twice_or_what_was_never_mounted_is_done(site: Site, volume: Callable[[], Volume]) -> None:
    take_away(volume(), site)
    mount(volume(), site)
    take_away(volume(), site)
    take_away(volume(), site)
    assert site.left() == []


@pytest.mark.parametrize("is_dead", [False, True], ids=["that never came", "that is dead"])
def test_what_was_never_there_is_taken_away_without_a_driver(site: Site, is_dead: bool) -> None:
    if is_dead:
        site.socket.unlink()
    else:
        site.known.drop(NAME)
    for volume in (persistent(), inline(), block()):
        take_away(volume, site)
    assert (site.left(), site.calls()) == ([], [])


def test_a_name_as_long_as_the_api_lets_it_be_is_a_volume_s(site: Site) -> None:
    volume = replace(persistent(), name="a" * 253)
    mount(volume, site)
    take_away(volume, site)
    assert len(site.calls()) == 4


def test_what_a_driver_failed_to_stage_for_good_is_unstaged_when_that_is_asked_for(site: Site) -> None:
    site.answer("NodeStageVolume", "INTERNAL")
    with pytest.raises(OperationError):
        persistent().mount_device(site.host)
    persistent().unmount_device(site.host)
    assert site.named() == ["NodeStageVolume", "NodeUnstageVolume"]


def test_data_in_a_target_that_lost_its_mount_is_kept_and_its_pod_can_go(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    target = Path(POD_VOLUME, "mount")
    site.host.mounts.unmount(target)
    site.host.files.write(target / "precious", b"of the Pod")
    site.script.add((Rule(method="NodeUnpublishVolume", skip_work=True),))
    take_away(volume, site)
    assert site.left() == [f"{POD_VOLUME}/mount/precious"]
    assert site.host.files.read(target / "precious") == b"of the Pod"
    with pytest.raises(NotOurs, match="is kept"):
        volume.reconstruct(site.host)


@pytest.mark.parametrize("is_known", [True, False], ids=["ours", "kubelet's"])
def test_a_driver_that_deletes_what_is_in_its_way_does_not_see_it(site: Site, is_known: bool) -> None:
    volume = persistent()
    mount(volume, site)
    if not is_known:
        site.forget_records()
    target = Path(POD_VOLUME, "mount")
    site.host.mounts.unmount(target)
    site.host.files.write(target / "precious", b"of the Pod")
    site.wipes = True
    site.answer("NodeUnpublishVolume", "UNAVAILABLE")
    with pytest.raises(UncertainError):
        volume.unmount(site.host)
    assert site.host.files.names(Path(POD_VOLUME)) == ("kept", "vol_data.json")  # the driver may still be at work
    take_away(volume, site)
    assert site.left() == [f"{POD_VOLUME}/mount/precious"]
    assert site.host.files.read(target / "precious") == b"of the Pod"


def test_a_file_in_the_place_of_a_mount_is_kept_like_what_is_in_a_directory(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    target = Path(POD_VOLUME, "mount")
    site.host.mounts.unmount(target)
    site.host.files.remove_directory(target)
    site.host.files.write(target, b"precious")
    take_away(volume, site)
    assert site.left() == [str(target)]
    assert site.host.files.read(target) == b"precious"


@pytest.mark.parametrize(("code", "error"), [("UNAVAILABLE", UncertainError), ("INTERNAL", OperationError)])
def test_a_driver_that_deletes_what_is_on_its_staging_path_does_not_see_it(
    site: Site, code: str, error: type[VolmgrError]
) -> None:
    volume = persistent()
    volume.mount_device(site.host)
    target = Path(STAGED, "globalmount")
    site.host.mounts.unmount(target)
    site.host.files.write(target / "precious", b"of the Pod")
    site.wipes = True
    site.answer("NodeUnstageVolume", code)
    with pytest.raises(error):
        volume.unmount_device(site.host)
    volume.unmount_device(site.host)
    assert site.left() == [f"{STAGED}/globalmount/precious"]


def test_data_that_a_crash_left_under_another_name_is_kept_and_its_pod_can_go(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    site.host.mounts.unmount(Path(POD_VOLUME, "mount"))
    site.host.files.write(Path(POD_VOLUME, "mount", "precious"), b"of the Pod")
    site.host.files.rename(Path(POD_VOLUME, "mount"), Path(POD_VOLUME, "kept"))
    take_away(volume, site)
    assert site.left() == [f"{POD_VOLUME}/mount/precious"]


def test_a_driver_that_cannot_remove_data_from_a_target_that_lost_its_mount_is_not_asked_for_ever(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    volume = persistent()
    mount(volume, site)
    target = Path(POD_VOLUME, "mount")
    site.host.mounts.unmount(target)
    site.host.files.write(target / "precious", b"of the Pod")
    site.script.add((Rule(method="NodeUnpublishVolume", code="UNAVAILABLE"),))
    with pytest.raises(UncertainError):
        volume.unmount(site.host)
    site.script.add((Rule(method="NodeUnpublishVolume", code="INTERNAL", message="directory not empty"),))
    take_away(volume, site)
    assert site.left() == [f"{POD_VOLUME}/mount/precious"]
    assert f"{target} is not mounted, and what is in it is kept" in caplog.text


def test_data_on_a_staging_path_that_lost_its_mount_is_kept_and_the_volume_can_go(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    volume = persistent()
    volume.mount_device(site.host)
    target = Path(STAGED, "globalmount")
    site.host.mounts.unmount(target)
    site.host.files.write(target / "precious", b"of the Pod")
    volume.unmount_device(site.host)
    assert site.left() == [f"{STAGED}/globalmount/precious"]
    assert caplog.messages == [f"{target} is not mounted, yet there is something in it: it is kept; move it away"]


def test_files_that_a_driver_wrote_where_it_mounts_nothing_are_its_volume(site: Site) -> None:
    volume = inline()
    target = Path(POD_VOLUME, "mount")
    site.script.add((Rule(method="NodePublishVolume", skip_work=True),))
    site.host.files.ensure_directory(target, 0o755)
    site.host.files.write(target / "secret", b"of the driver")
    assert volume.mount(site.host).notices == ()
    rebuilt = replace(volume, plugin=Csi()).reconstruct(site.host)
    assert rebuilt.spec.source.volume_handle == ""
    site.host.files.remove_file(target / "secret")  # what the driver does
    volume.unmount(site.host)
    assert site.left() == []


def test_a_target_that_the_node_does_not_see_is_no_success(site: Site) -> None:
    site.script.add((Rule(method="NodePublishVolume", skip_work=True),))
    volume = persistent()
    volume.mount_device(site.host)
    with pytest.raises(UncertainError, match=f"published {POD_VOLUME}/mount, and nothing is there on the node"):
        volume.mount(site.host)
    take_away(volume, site)
    assert site.left() == []


def test_a_target_on_which_nothing_is_mounted_is_said_to_the_pod_s_owner(site: Site) -> None:
    site.script.add((Rule(method="NodePublishVolume", skip_work=True),))
    site.host.files.ensure_directory(Path(POD_VOLUME, "mount"), 0o755)
    volume = inline()
    (notice,) = volume.mount(site.host).notices
    assert notice.reason == "NothingMounted"
    assert "what the pod writes stays on the node" in notice.message
    site.script.add((Rule(method="NodePublishVolume", skip_work=True),))
    assert volume.mount(site.host, remount=True).notices == ()  # said once


def test_a_mount_on_a_mount_is_said_to_the_pod_s_owner_and_unmounted_whole(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    target = Path(POD_VOLUME, "mount")
    site.host.machine.mount(target, "tmpfs", source="again")
    site.script.add((Rule(method="NodePublishVolume", skip_work=True),))
    (notice,) = volume.mount(site.host, remount=True).notices
    assert notice.reason == "StackedMounts"
    assert "more than once" in notice.message
    take_away(volume, site)
    assert site.left() == []


@pytest.mark.parametrize(
    ("volume", "handle", "mode"),
    [(persistent, "h", VolumeMode.FILESYSTEM), (inline, "", VolumeMode.FILESYSTEM), (block, "h", VolumeMode.BLOCK)],
    ids=["persistent", "inline", "block"],
)
def test_a_volume_is_rebuilt_from_kubelet_s_file(
    site: Site, volume: Callable[[], Volume], handle: str, mode: VolumeMode
) -> None:
    mount(volume(), site)
    site.forget_records()
    spec = volume().reconstruct(site.host).spec
    assert (spec.name, spec.type, spec.driver, spec.mode) == ("data", "csi", NAME, mode)
    assert (spec.source.driver, spec.source.volume_handle) == (NAME, handle)


def test_a_directory_of_nobody_s_cannot_be_rebuilt(site: Site) -> None:
    site.host.files.ensure_directory(Path(POD_VOLUME), 0o750)
    with pytest.raises(NotReconstructible, match="is damaged or missing"):
        persistent().reconstruct(site.host)


def test_volumes_of_one_driver_share_directories_that_go_with_the_last(site: Site) -> None:
    one = persistent()
    two = replace(persistent(), name="other", source=replace(persistent().spec.source, volume_handle="two"))
    mount(one, site)
    mount(two, site)
    take_away(one, site)
    assert f"{PLUGIN}/{NAME}" in site.tree()
    take_away(two, site)
    assert f"{PLUGIN}/{NAME}" not in site.tree()
    assert f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/other" not in site.tree()


def test_a_block_volume_without_its_publication_is_taken_away(site: Site) -> None:
    volume = block()
    mount(volume, site)
    site.host.mounts.unmount(Path(DEVICES, "publish/data/uid-web"))
    site.host.files.remove_file(Path(DEVICES, "publish/data/uid-web"))
    take_away(volume, site)
    assert site.left() == []


def test_a_republished_inline_volume_is_published_under_the_same_handle(site: Site) -> None:
    volume = inline(csi_driver(requires_republish=True))
    volume.mount(site.host)
    volume.mount(site.host, remount=True)
    first, second = site.requests("NodePublishVolume")
    assert first == second
