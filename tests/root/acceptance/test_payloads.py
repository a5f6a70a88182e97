"""What secret, configMap, downwardAPI and projected volumes promise, seen as files."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.objects import Document, config, named, projected, secret, shows_config, shows_secret
from tests.root.acceptance.outside import Outside, pod

SECRET, CONFIG = "kubernetes.io~secret", "kubernetes.io~configmap"
DOWNWARD, PROJECTED = "kubernetes.io~downward-api", "kubernetes.io~projected"
LABELS: Document = {
    "name": "d",
    "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
}
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhQziwkoLqvCa5ZX5zO6XMRQvYvkojAFBgMrZXAwDzENMAsG
A1UEAwwEb3VyczAgFw0yNjExMzAwMjI4NDdaGA8yMTI2MTEwNjAyMjg0N1owDzEN
MAsGA1UEAwwEb3VyczAqMAUGAytlcAMhAK5RGPZ2GftKYtfayuD4arfPN1CuxECe
5avDNMnMrssIo1MwUTAdBgNVHQ4EFgQUP1+Xa3tF55Pd/Z3j1kD5QdmV4VwwHwYD
VR0jBBgwFoAUP1+Xa3tF55Pd/Z3j1kD5QdmV4VwwDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQBq3+XCYT49zsNbgLk+owvjiCWWbR0poVE2UGfmxdhDx5w+Ns9vU4Jz
ekJYaENzej7TK3+qadW09WX6Dxq60yMM
-----END CERTIFICATE-----
"""
TOKEN: Document = {"serviceAccountToken": {"path": "token"}}


@pytest.fixture
def issuing(tmp_path: Path) -> Iterator[Outside]:
    """A node that issues tokens."""
    (tmp_path / "config.yaml").write_text("token_issuer: https://issuer.example\n")
    with Outside(tmp_path, "--config", str(tmp_path / "config.yaml")) as node:
        yield node


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(volume: Path) -> dict[str, str]:
    """Give the content of each file that a container sees."""
    found: dict[str, str] = {}
    for top, directories, names in os.walk(volume, followlinks=True):
        directories[:] = [name for name in directories if not name.startswith("..")]
        paths = [Path(top) / name for name in names]
        found |= {str(path.relative_to(volume)): path.read_text() for path in paths if path.exists()}
    return found


def test_modes_are_those_of_the_item_then_of_the_volume_then_0644(node: Outside) -> None:
    items = [{"key": "a", "path": "deep/er/a", "mode": 0o400}, {"key": "b", "path": "b"}]
    node.put("objects.json", secret("login", a="1", b="2"), config("settings", a="3"))
    volumes = shows_secret("login", items=items, defaultMode=0o640), shows_config("settings")
    node.put("shop.json", pod("shop", *volumes))
    node.wait("shop")
    login, settings = node.volume("shop", "s", SECRET), node.volume("shop", "c", CONFIG)
    assert files(login) == {"deep/er/a": "1", "b": "2"}
    assert files(settings) == {"a": "3"}
    assert [mode(login / "deep/er/a"), mode(login / "b"), mode(settings / "a")] == [0o400, 0o640, 0o644]


def test_an_fs_group_may_read_every_file(node: Outside) -> None:
    node.put("objects.json", secret("login", a="1"), config("settings", a="1"))
    volumes = shows_secret("login", defaultMode=0o400), shows_config("settings", defaultMode=0o600), LABELS
    node.put("shop.json", pod("shop", *volumes, securityContext={"fsGroup": 4321}))
    node.wait("shop")
    secret_file = node.volume("shop", "s", SECRET) / "a"
    config_file = node.volume("shop", "c", CONFIG) / "a"
    label_file = node.volume("shop", "d", DOWNWARD) / "l"
    assert {path.stat().st_gid for path in (secret_file, config_file, label_file)} == {4321}
    assert [mode(path) & 0o477 for path in (secret_file, config_file, label_file)] == [0o440, 0o440, 0o444]


def test_optional_objects_and_keys_may_be_missing_and_fill_in_when_they_come(node: Outside) -> None:
    items = [{"key": "a", "path": "a"}, {"key": "gone", "path": "gone"}]
    node.put("have.json", config("have", a="1"))
    whole = shows_secret("late", optional=True)
    parts = shows_config("have", items=items, optional=True)
    mixed = projected({"secret": {"name": "late", "optional": True}}, {"configMap": {"name": "have"}})
    node.put("shop.json", pod("shop", whole, parts, mixed))
    node.wait("shop")
    late, have = node.volume("shop", "s", SECRET), node.volume("shop", "c", CONFIG)
    both = node.volume("shop", "p", PROJECTED)
    assert [files(late), files(have), files(both)] == [{}, {"a": "1"}, {"a": "1"}]
    node.put("late.json", secret("late", password="x"))
    node.put("have.json", config("have", a="1", gone="2"))
    eventually(lambda: files(late) == {"password": "x"})
    eventually(lambda: files(have) == {"a": "1", "gone": "2"})
    eventually(lambda: files(both) == {"password": "x", "a": "1", "gone": "2"})


def test_what_is_not_optional_is_waited_for_by_name_and_other_pods_are_not_kept(node: Outside) -> None:
    items = [{"key": "gone", "path": "gone"}]
    node.put("have.json", config("have", a="1"), pod("calm", shows_config("have")))
    node.put("shop.json", pod("shop", shows_secret("late"), shows_config("have", items=items)))
    node.until_why("shop", "Secret default/late")
    node.until_why("shop", "references non-existent config key: gone")
    node.wait("calm")
    assert not node.volume("shop", "s", SECRET).exists()
    node.put("late.json", secret("late", a="1"))
    node.put("have.json", config("have", gone="2"))
    node.wait("shop")
    assert files(node.volume("shop", "c", CONFIG)) == {"gone": "2"}


def test_secrets_are_in_memory_never_swapped_and_config_maps_on_disk_with_kubelet_s_markers(node: Outside) -> None:
    node.put("objects.json", secret("login", a="1"), config("settings", a="1"))
    everything = projected({"secret": {"name": "login"}})
    node.put("shop.json", pod("shop", shows_secret("login"), shows_config("settings"), LABELS, everything))
    node.wait("shop")
    memory = {("s", SECRET), ("d", DOWNWARD), ("p", PROJECTED)}
    rows = node.mounts()
    assert set(rows) == {str(node.volume("shop", *each)) for each in memory}
    assert all(" - tmpfs tmpfs " in row and "noswap" in row for row in rows.values())
    markers = node.root / "pods/uid-shop/plugins/kubernetes.io~empty-dir"
    assert {path.name for path in markers.iterdir()} == {f"wrapped_{name}" for name in "scdp"}
    assert all((path / "ready").is_file() for path in markers.iterdir())


def test_the_next_write_removes_what_a_broken_one_left(node: Outside) -> None:
    node.put("settings.json", config("settings", a="1"))
    node.put("shop.json", pod("shop", shows_config("settings")))
    node.wait("shop")
    volume = node.volume("shop", "c", CONFIG)
    stray = volume / "..2020_01_01_00_00_00.123456789"
    stray.mkdir()
    (stray / "a").write_text("old")
    (volume / "..data_tmp").symlink_to(stray.name)
    (volume / "own").write_text("the container's")
    node.put("settings.json", config("settings", a="2"))
    eventually(lambda: (volume / "a").read_text() == "2")
    current = str((volume / "..data").readlink())
    eventually(lambda: {path.name for path in volume.iterdir()} == {"a", "own", "..data", current})
    assert (volume / "own").read_text() == "the container's"


def no_data_link(volume: Path) -> None:
    (volume / "..data").unlink()


def no_visible_link(volume: Path) -> None:
    (volume / "a").unlink()


def no_content(volume: Path) -> None:
    shutil.rmtree(volume / (volume / "..data").readlink())


def other_content(volume: Path) -> None:
    (volume / "..data" / "a").write_text("meddled with")


def nothing_whole(volume: Path) -> None:
    (volume / "..data" / "a").unlink()
    (volume / "b").unlink()
    (volume / "..data").unlink()


def test_a_start_restores_what_living_pods_lost(node: Outside) -> None:
    harms = no_data_link, no_visible_link, no_content, other_content, nothing_whole
    names = [harm.__name__.replace("_", "-") for harm in harms]
    node.put("objects.json", secret("login", a="1", b="2"), config("settings", a="1", b="2"))
    node.put("pods.json", *(pod(name, shows_secret("login"), shows_config("settings")) for name in names))
    for name in names:
        node.wait(name)
    before = node.mounts()
    node.kill()
    volumes = [node.volume(name, *which) for name in names for which in (("s", SECRET), ("c", CONFIG))]
    for volume, harm in zip(volumes, [harm for harm in harms for _ in range(2)], strict=True):
        harm(volume)
    node.start()
    eventually(lambda: all(files(volume) == {"a": "1", "b": "2"} for volume in volumes))
    assert node.mounts() == before
    assert not [each for name in names for each in node.json("status", name)["volumes"] if not each["healthy"]]


def test_what_changed_while_no_daemon_ran_is_in_the_files_after_its_start(node: Outside) -> None:
    node.put("settings.json", config("settings", a="1", old="x"))
    node.put("shop.json", pod("shop", shows_config("settings"), LABELS))
    node.wait("shop")
    node.kill()
    node.put("settings.json", config("settings", a="2", new="y"))
    shop = pod("shop", shows_config("settings"), LABELS)
    shop["metadata"]["labels"] = {"tier": "front"}
    node.put("shop.json", shop)
    node.start()
    eventually(lambda: files(node.volume("shop", "c", CONFIG)) == {"a": "2", "new": "y"})
    eventually(lambda: files(node.volume("shop", "d", DOWNWARD)) == {"l": 'tier="front"'})


def test_a_living_pod_keeps_its_files_when_their_objects_vanish(node: Outside) -> None:
    objects = node.put("objects.json", secret("login", a="1"), config("settings", a="1"))
    node.put("shop.json", pod("shop", shows_secret("login"), shows_config("settings")))
    node.wait("shop")
    before = node.mounts()
    objects.unlink()
    node.settle()
    node.kill()
    node.start()
    node.settle()
    assert files(node.volume("shop", "s", SECRET)) == files(node.volume("shop", "c", CONFIG)) == {"a": "1"}
    assert node.mounts() == before


def test_a_later_source_of_a_projected_volume_wins_and_what_is_wrong_is_one_message(node: Outside) -> None:
    node.put("objects.json", config("one", a="1", b="1"), secret("two", b="2"))
    node.put("shop.json", pod("shop", projected({"configMap": {"name": "one"}}, {"secret": {"name": "two"}})))
    wrong = projected({"configMap": {"name": "no"}}, {"secret": {"name": "nor"}})
    node.put("wrong.json", pod("wrong", wrong))
    node.wait("shop")
    assert files(node.volume("shop", "p", PROJECTED)) == {"a": "1", "b": "2"}
    node.until_why("wrong", "ConfigMap default/no")
    assert "Secret default/nor" in node.why("wrong")


def test_a_cluster_trust_bundle_is_selected_by_signer_and_labels(node: Outside) -> None:
    bundle = named("ClusterTrustBundle", "ours", spec={"signerName": "example.com/ca", "trustBundle": CERTIFICATE})
    bundle["apiVersion"] = "certificates.k8s.io/v1beta1"
    bundle["metadata"]["labels"] = {"live": "yes"}
    source = {"signerName": "example.com/ca", "labelSelector": {"matchLabels": {"live": "yes"}}, "path": "ca.pem"}
    node.put("shop.json", pod("shop", projected({"clusterTrustBundle": source})))
    node.until_why("shop", "example.com/ca")
    node.put("bundle.json", bundle)
    node.wait("shop")
    assert files(node.volume("shop", "p", PROJECTED)) == {"ca.pem": CERTIFICATE}


def test_a_pod_certificate_is_refused_with_what_it_needs(node: Outside) -> None:
    source = {"signerName": "example.com/ca", "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}
    node.put("shop.json", pod("shop", projected({"podCertificate": source})))
    node.until_why("shop", "kube mode")
    assert "podCertificate" in node.why("shop")
    assert not node.mounts()


def users(name: str, *each: int | None, **context: int) -> Document:
    """Give a Pod whose containers run as these users."""
    mounts = [{"name": "p", "mountPath": "/p"}]
    containers = [
        {"name": f"c{number}", "volumeMounts": mounts, "securityContext": {} if user is None else {"runAsUser": user}}
        for number, user in enumerate(each)
    ]
    return pod(name, projected(TOKEN), containers=containers, securityContext=context)


def test_a_token_is_for_the_common_user_or_the_group_and_needs_no_service_account(issuing: Outside) -> None:
    cases = [
        (users("nobody", None), (0, 0, 0o644)),
        (users("of-pod", None, None, runAsUser=1001), (1001, 0, 0o600)),
        (users("one", 1002, 1002), (1002, 0, 0o600)),
        (users("two", 1002, 1003), (0, 0, 0o644)),
        (users("group", None, fsGroup=4321), (0, 4321, 0o640)),
        (users("both", None, runAsUser=1001, fsGroup=4321), (1001, 4321, 0o640)),
    ]
    issuing.put("pods.json", *(each for each, _ in cases))
    for each, owner in cases:
        name = each["metadata"]["name"]
        issuing.wait(name)
        token = issuing.volume(name, "p", PROJECTED) / "token"
        found = token.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == owner, name
        said = json.loads(base64.urlsafe_b64decode(f"{token.read_text().split('.')[1]}=="))
        assert (said["iss"], said["sub"]) == ("https://issuer.example", "system:serviceaccount:default:default")
        assert said["exp"] - said["iat"] == 3600
        assert said["kubernetes.io"]["pod"] == {"name": name, "uid": f"uid-{name}"}
