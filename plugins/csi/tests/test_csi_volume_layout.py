"""Scenarios J of csi on a host in memory: what lies where, byte for byte, and what the driver is asked for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

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
from volmgr.plugin import OperationError, SpecError, VolumeMode, attachment_name
from volmgr.testing import Volume

ATTACHMENT = "csi-91d4a89ed3d7887c442c492f8495a01fc227ffb7124b3c0fe86294a5a2db3f91"
EPHEMERAL = "csi-d5c2dbe012709f03dd86c49806d091b858806b9cccdcd912b8742bfb5318f4a7"
EPHEMERAL_ATTACHMENT = attachment_name(NAME, EPHEMERAL, NODE)
DEVICES = f"{PLUGIN}/volumeDevices"
LABEL = "system_u:object_r:container_file_t:s0:c1,c2"
MOUNT = {"mount": {"fsType": "ext4"}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}
BLOCK = {"block": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_in_memory(tmp_path) as running:
        yield running


def mount(volume: Volume, site: Site) -> None:
    """Do what the core does for a Pod on this node."""
    volume.mount_device(site.host, node_name=NODE)
    volume.mount(site.host, node_name=NODE)


def take_away(volume: Volume, site: Site) -> None:
    """Undo that."""
    volume.unmount(site.host)
    volume.unmount_device(site.host)


def test_a_volume_is_staged_at_globalmount_and_published_at_mount(site: Site) -> None:
    volume = persistent(fs_type="ext4")
    volume.mount_device(site.host, node_name=NODE)
    assert site.files() == {f"{STAGED}/vol_data.json": f'{{"driverName":"{NAME}","volumeHandle":"h"}}\n'}
    answer = volume.mount(site.host, node_name=NODE)
    assert answer.path == Path(f"{POD_VOLUME}/mount")
    assert answer.due_at is None
    assert answer.notices == ()
    assert site.files()[f"{POD_VOLUME}/vol_data.json"] == (
        f'{{"attachmentID":"{ATTACHMENT}","driverName":"{NAME}","nodeName":"{NODE}","specVolID":"data",'
        '"volumeHandle":"h","volumeLifecycleMode":"Persistent"}\n'
    )
    assert site.requests("NodeStageVolume") == [
        {"volumeId": "h", "stagingTargetPath": f"{STAGED}/globalmount", "volumeCapability": MOUNT}
    ]
    assert site.requests("NodePublishVolume") == [
        {
            "volumeId": "h",
            "stagingTargetPath": f"{STAGED}/globalmount",
            "targetPath": f"{POD_VOLUME}/mount",
            "volumeCapability": MOUNT,
        }
    ]
    tree = site.tree()
    for directory in (STAGED, POD_VOLUME):
        assert tree[directory].startswith("directory 750 ")
    take_away(volume, site)
    assert site.requests("NodeUnpublishVolume") == [{"volumeId": "h", "targetPath": f"{POD_VOLUME}/mount"}]
    assert site.requests("NodeUnstageVolume") == [{"volumeId": "h", "stagingTargetPath": f"{STAGED}/globalmount"}]
    assert site.left() == []


def test_a_driver_that_stages_nothing_has_a_directory_on_the_node_and_no_file(site: Site) -> None:
    site.register(replace(ALL, stage=False))
    volume = persistent()
    volume.mount_device(site.host, node_name=NODE)
    assert site.files() == {}
    assert site.tree()[f"{STAGED}/globalmount"].startswith("directory 750 ")
    volume.mount(site.host, node_name=NODE)
    assert list(site.files()) == [f"{POD_VOLUME}/vol_data.json"]
    take_away(volume, site)
    assert site.named() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert "stagingTargetPath" not in site.requests("NodePublishVolume")[0]
    assert site.left() == []


def test_an_inline_volume_has_a_handle_of_its_pod_and_is_never_staged(site: Site) -> None:
    volume = inline(volume_attributes={"size": "1Mi"}, fs_type="tmpfs")
    assert not volume.facets.device
    assert not volume.facets.attach
    assert volume.unique_name == "kubernetes.io/csi/uid-web-data"
    mount(volume, site)
    assert site.files() == {
        f"{POD_VOLUME}/vol_data.json": (
            f'{{"attachmentID":"{EPHEMERAL_ATTACHMENT}","driverName":"{NAME}","nodeName":"{NODE}","specVolID":"data",'
            f'"volumeHandle":"{EPHEMERAL}","volumeLifecycleMode":"Ephemeral"}}\n'
        )
    }
    assert [(call.method, call.request) for call in site.calls()] == [
        (
            "NodePublishVolume",
            {
                "volumeId": EPHEMERAL,
                "targetPath": f"{POD_VOLUME}/mount",
                "volumeCapability": {"mount": {"fsType": "tmpfs"}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}},
                "volumeContext": {"size": "1Mi"},
            },
        )
    ]
    take_away(volume, site)
    assert site.requests("NodeUnpublishVolume") == [{"volumeId": EPHEMERAL, "targetPath": f"{POD_VOLUME}/mount"}]
    assert site.left() == []


@pytest.mark.parametrize("served", [(), ("Persistent",)], ids=["no CSIDriver", "Persistent alone"])
def test_an_inline_volume_of_a_driver_that_serves_none_is_refused(site: Site, served: tuple[str, ...]) -> None:
    volume = inline(csi_driver(volume_lifecycle_modes=served))
    volume = volume if served else replace(volume, objects={})
    with pytest.raises(SpecError, match="serves no Ephemeral volumes"):
        mount(volume, site)
    assert (site.calls(), site.left()) == ([], [])


def test_a_persistent_volume_of_a_driver_for_inline_ones_is_refused(site: Site) -> None:
    with pytest.raises(SpecError, match="serves no Persistent volumes"):
        mount(persistent(csi_driver(volume_lifecycle_modes=("Ephemeral",))), site)
    assert (site.calls(), site.left()) == ([], [])


def test_a_block_volume_is_staged_published_and_mapped(site: Site) -> None:
    site.host.files.write(IMAGE_FILE, bytes(1 << 20))
    volume = persistent(mode=VolumeMode.BLOCK, fs_type="ext4")
    volume.mount_device(site.host, node_name=NODE)
    data = (
        f'{{"attachmentID":"{ATTACHMENT}","driverName":"{NAME}","nodeName":"{NODE}","specVolID":"data",'
        '"volumeHandle":"h"}\n'
    )
    assert site.files() == {f"{DEVICES}/data/data/vol_data.json": data}
    answer = volume.mount(site.host, node_name=NODE)
    assert site.files() == {f"{DEVICES}/data/data/vol_data.json": data}
    assert answer.device_path == f"{DEVICES}/publish/data/uid-web"
    attributes = {"image": str(IMAGE_FILE)}
    assert site.requests("NodeStageVolume") == [
        {
            "volumeId": "h",
            "stagingTargetPath": f"{DEVICES}/staging/data",
            "volumeCapability": BLOCK,
            "volumeContext": attributes,
        }
    ]
    assert site.requests("NodePublishVolume") == [
        {
            "volumeId": "h",
            "stagingTargetPath": f"{DEVICES}/staging/data",
            "targetPath": f"{DEVICES}/publish/data/uid-web",
            "volumeCapability": BLOCK,
            "volumeContext": attributes,
        }
    ]
    tree = site.tree()
    for directory in ("staging/data", "publish/data", "data/data", "data/dev"):
        assert tree[f"{DEVICES}/{directory}"].startswith("directory 750 ")
    assert f"{DEVICES}/data/dev/uid-web" in tree
    link = Path(f"{ROOT}/pods/uid-web/volumeDevices/kubernetes.io~csi/data")
    assert site.host.files.read_link(link) == f"{DEVICES}/publish/data/uid-web"
    take_away(volume, site)
    assert site.requests("NodeUnpublishVolume") == [{"volumeId": "h", "targetPath": f"{DEVICES}/publish/data/uid-web"}]
    assert site.requests("NodeUnstageVolume") == [{"volumeId": "h", "stagingTargetPath": f"{DEVICES}/staging/data"}]
    assert site.left() == []


def test_a_block_volume_that_is_not_staged_is_told_the_staging_path_all_the_same(site: Site) -> None:
    site.register(replace(ALL, stage=False))
    site.host.files.write(IMAGE_FILE, bytes(1 << 20))
    volume = persistent(mode=VolumeMode.BLOCK)
    site.answer("NodePublishVolume", "INTERNAL")
    volume.mount_device(site.host, node_name=NODE)
    assert list(site.files()) == [f"{DEVICES}/data/data/vol_data.json"]
    with pytest.raises(OperationError, match="INTERNAL"):
        volume.mount(site.host, node_name=NODE)
    assert site.requests("NodePublishVolume")[0]["stagingTargetPath"] == f"{DEVICES}/staging/data"
    take_away(volume, site)
    assert site.left() == []


def test_the_label_that_a_volume_is_mounted_with_is_in_both_files_and_a_mount_option(site: Site) -> None:
    volume = persistent(csi_driver(se_linux_mount=True), pv={"mount_options": ("noexec", "acl")})
    assert volume.facets.selinux
    volume.mount_device(site.host, node_name=NODE, selinux_label=LABEL)
    volume.mount(site.host, node_name=NODE, selinux_label=LABEL)
    assert site.files()[f"{STAGED}/vol_data.json"] == (
        f'{{"driverName":"{NAME}","seLinuxMountContext":"{LABEL}","volumeHandle":"h"}}\n'
    )
    assert f'"seLinuxMountContext":"{LABEL}","specVolID"' in site.files()[f"{POD_VOLUME}/vol_data.json"]
    for method in ("NodeStageVolume", "NodePublishVolume"):
        flags = site.requests(method)[0]["volumeCapability"]["mount"]["mountFlags"]
        assert flags == ["noexec", "acl", f'context="{LABEL}"']
    rebuilt = volume.reconstruct(site.host)
    assert rebuilt.selinux_label == LABEL


def test_what_a_daemon_left_that_was_killed_while_it_wrote_keeps_no_directory(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    for directory in (STAGED, POD_VOLUME):
        site.host.files.write(Path(directory, ".vol_data.json.4711.1.tmp"), b"{")
    take_away(volume, site)
    assert site.left() == []


def test_a_directory_in_the_place_of_vol_data_json_is_kept_with_what_is_in_it_and_stops_nothing(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    for directory in (STAGED, POD_VOLUME):
        site.host.files.remove_file(Path(directory, "vol_data.json"))
        site.host.files.ensure_directory(Path(directory, "vol_data.json"), 0o755)
    site.host.files.write(Path(POD_VOLUME, "vol_data.json/precious"), b"!")
    take_away(volume, site)
    assert site.left() == [f"{POD_VOLUME}/vol_data.json/precious"]
    assert site.named()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]


@pytest.mark.parametrize(
    "said",
    [
        f'{{"driverName":"{NAME}","volumeHandle":"another"}}',
        '{"driverName":"other.csi.test","volumeHandle":"h"}',
        f'{{"driverName":"{NAME}","volumeHandle":"\\ud800"}}',
    ],
    ids=["handle", "driver", "no text"],
)
def test_the_file_of_another_volume_unstages_none_but_the_one_that_lies_there(site: Site, said: str) -> None:
    volume = persistent()
    mount(volume, site)
    site.host.files.write(Path(STAGED, "vol_data.json"), said.encode())
    take_away(volume, site)
    (unstaged,) = site.requests("NodeUnstageVolume")
    assert unstaged == {"volumeId": "h", "stagingTargetPath": f"{STAGED}/globalmount"}
    assert site.left() == []


def test_a_pods_file_whose_handle_is_no_text_is_damaged(site: Site) -> None:
    volume = persistent()
    mount(volume, site)
    said = f'{{"driverName":"{NAME}","volumeHandle":"\\ud800"}}'
    site.host.files.write(Path(POD_VOLUME, "vol_data.json"), said.encode())
    take_away(volume, site)
    assert [each["volumeId"] for each in site.requests("NodeUnpublishVolume")] == ["h"]
    assert site.left() == []
