"""What `volmgr mounts` promises: subPaths, what they may name, and what a container is to be given."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

from tests.eventually import eventually
from tests.root.acceptance.objects import CLAIMED, Document, claim, config, directory, secret, shows_config
from tests.root.acceptance.outside import Outside, disk, host_path, pod

ENV: list[Document] = [
    {"name": "PLAIN", "value": "plain"},
    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}},
    {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "map"}}},
    {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
    {"name": "BOTH", "value": "$(PLAIN)-$(NAME)"},
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "GONE", "valueFrom": {"configMapKeyRef": {"name": "nowhere", "key": "map"}}},
]
FROM: list[Document] = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "login"}, "prefix": "S_"}]


def sub_paths(name: str, volume: Document, *paths: str, key: str = "subPath", **container: object) -> Document:
    """Give a Pod whose container mounts these parts of a volume."""
    mounts = [{"name": volume["name"], "mountPath": f"/{at}", key: path} for at, path in enumerate(paths)]
    return pod(name, volume, containers=[{"name": "main", "volumeMounts": mounts, **container}])


def bound(node: Outside, name: str, index: int, volume: str = "v") -> Path:
    """Give where a part of a volume is bound."""
    return node.root / "pods" / f"uid-{name}" / "volume-subpaths" / volume / "main" / str(index)


def sources(node: Outside, name: str, code: int = 0) -> list[str]:
    """Bind a Pod's subPaths and give what each of its mounts is to be bound from."""
    (container,) = json.loads(node.volmgr("mounts", name, "--format", "json", code=code).stdout)["containers"]
    return [mount["source"] for mount in container["mounts"]]


def test_links_that_stay_inside_are_followed_and_those_that_leave_are_each_named(node: Outside) -> None:
    inside = ("plain/new", "relative", "absolute", "up", "deep/er")
    outside = ("leaves", "parent", "absolutely", "through/leaves/passwd", "loop", "dangling")
    node.put("shop.json", sub_paths("shop", disk(), *inside, *outside))
    node.wait("shop")
    volume = node.volume("shop")
    (volume / "real" / "below").mkdir(parents=True)
    (volume / "real" / "file").write_text("x")
    (volume / "deep").symlink_to("real/below")
    (volume / "relative").symlink_to("real/file")
    (volume / "absolute").symlink_to(volume / "real")
    (volume / "real" / "below" / "er").symlink_to("../file")
    (volume / "up").symlink_to("real/below/../file")
    (volume / "leaves").symlink_to("/etc")
    (volume / "parent").symlink_to("../../..")
    (volume / "absolutely").symlink_to(volume.parent)
    (volume / "through").symlink_to("real")
    (volume / "real" / "leaves").symlink_to("/etc")
    (volume / "loop").symlink_to("loop")
    (volume / "dangling").symlink_to("nothing")
    done = node.volmgr("mounts", "shop", code=1)
    assert sources(node, "shop", 1) == [str(bound(node, "shop", at)) for at in range(5)] + [""] * 6
    for path in outside:
        assert f"subPath {path} of volume v" in done.stderr
    for path in inside:
        assert f"subPath {path} of" not in done.stderr
    assert bound(node, "shop", 1).read_text() == bound(node, "shop", 3).read_text() == "x"
    assert os.path.samefile(bound(node, "shop", 2), volume / "real")
    assert not (volume / "nothing").exists()
    assert set(node.mounts()) == {str(bound(node, "shop", at)) for at in range(5)}


def test_paths_that_are_none_are_refused_with_their_file(node: Outside) -> None:
    paths = ("/absolute", "a/../b", "..")
    for number, path in enumerate(paths):
        node.put(f"{number}.json", sub_paths(f"p{number}", disk(), path))
    for number, path in enumerate(paths):
        node.until_why(f"p{number}", f"'{path}' leads out of the volume")
        assert f"{number}.json" in node.why(f"p{number}")
    grown = sub_paths("grown", disk(), "$(PART)", key="subPathExpr", env=[{"name": "PART", "value": "a/../../b"}])
    node.put("grown.json", grown)
    node.wait("grown")
    assert "'..'" in node.volmgr("mounts", "grown", code=1).stderr
    assert not node.mounts()


def test_missing_directories_have_the_mode_of_the_volume_and_files_and_sockets_are_bound(
    node: Outside, tmp_path: Path
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    top.chmod(0o2751)
    (top / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(top / "socket"))
        node.put("shop.json", sub_paths("shop", host_path(top), "new/er", "file", "socket"))
        node.wait("shop")
        directory, file, end = map(Path, sources(node, "shop"))
        assert stat.S_IMODE(directory.stat().st_mode) == stat.S_IMODE((top / "new").stat().st_mode) == 0o2751
        assert (top / "new/er").is_dir()
        assert file.read_text() == "x"
        assert stat.S_ISSOCK(end.stat().st_mode)


def test_read_only_volumes_get_no_new_directories(node: Outside, tmp_path: Path) -> None:
    node.put("objects.json", directory("v", tmp_path / "pv"), claim(), config("settings", a="1"))
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "orders", "readOnly": True}}
    node.put(
        "pods.json", sub_paths("claimed", claimed, "missing"), sub_paths("shown", shows_config("settings"), "missing")
    )
    for name in ("claimed", "shown"):
        node.wait(name)
        done = node.volmgr("mounts", name, code=1)
        assert "missing" in done.stderr
        assert "does not exist" in done.stderr
    assert not list((tmp_path / "pv").iterdir())
    assert not (node.volume("shown", "c", "kubernetes.io~configmap") / "missing").exists()


def test_expressions_take_what_the_environment_has(node: Outside) -> None:
    node.put("objects.json", config("settings", map="mapped", OTHER="other"), secret("login", user="admin"))
    paths = (
        "$(PLAIN)/$(NAME)/$(LABEL)",
        "$(CPUS)",
        "$(MAP)",
        "$(SECRET)",
        "$(BOTH)",
        "$(OTHER)/$(S_user)",
        "$$(PLAIN)",
    )
    limits = {"limits": {"cpu": "3"}}
    shop = sub_paths("shop", disk(), *paths, key="subPathExpr", env=ENV, envFrom=FROM, resources=limits)
    shop["metadata"]["labels"] = {"tier": "front"}
    node.put("shop.json", shop)
    node.wait("shop")
    volume = node.volume("shop")
    expected = ("plain/shop/front", "3", "mapped", "admin", "plain-shop", "other/admin", "$(PLAIN)")
    for source, path in zip(sources(node, "shop"), expected, strict=True):
        assert os.path.samefile(source, volume / path), path


def test_what_an_expression_cannot_know_is_named_and_the_rest_is_bound(node: Outside) -> None:
    paths = ("$(PLAIN)", "$(IP)", "$(GONE)", "$(UNHEARD)")
    node.put("shop.json", sub_paths("shop", disk(), *paths, key="subPathExpr", env=ENV))
    node.wait("shop")
    done = node.volmgr("mounts", "shop", code=1)
    for part in ("status.podIP", "ConfigMap default/nowhere", "UNHEARD"):
        assert part in done.stderr
    assert [bool(source) for source in sources(node, "shop", 1)] == [True, False, False, False]


def test_a_sub_path_of_a_claim_is_named_after_its_volume_and_holds_over_kill_and_goes_with_its_pod(
    node: Outside, tmp_path: Path
) -> None:
    node.put("pv.json", directory("disk-1", tmp_path / "v"), claim())
    file = node.put("shop.json", sub_paths("shop", CLAIMED, "a", "b"))
    node.wait("shop")
    places = [str(bound(node, "shop", at, "disk-1")) for at in range(2)]
    assert sources(node, "shop") == places
    before = node.mounts()
    node.kill()
    node.start()
    node.wait("shop")
    assert sources(node, "shop") == places
    assert node.mounts() == before
    node.kill()
    file.unlink()
    node.start()
    node.wait("shop", "unmounted")
    eventually(lambda: not (node.root / "pods/uid-shop").exists())
    assert not node.mounts()
    assert {path.name for path in (tmp_path / "v").iterdir()} == {"a", "b"}


def test_a_sub_path_of_a_changed_source_is_right_again_with_the_next_call(node: Outside) -> None:
    node.put("settings.json", config("settings", a="1"))
    node.put("shop.json", sub_paths("shop", shows_config("settings"), "a"))
    node.wait("shop")
    place = bound(node, "shop", 0, "c")
    assert sources(node, "shop") == [str(place)]
    node.put("settings.json", config("settings", a="2"))
    eventually(lambda: "older version" in node.why("shop"))
    assert place.read_text() == "1"
    assert sources(node, "shop") == [str(place)]
    assert place.read_text() == "2"
    node.put("settings.json", config("settings", b="3"))
    eventually(lambda: "older version" in node.why("shop"))
    assert "subPath a of volume c" in node.volmgr("mounts", "shop", code=1).stderr


def test_a_container_is_told_propagation_read_only_groups_and_devices(node: Outside, tmp_path: Path) -> None:
    mounts = [
        {"name": "v", "mountPath": "/a", "mountPropagation": "HostToContainer"},
        {"name": "v", "mountPath": "/b", "readOnly": True},
        {"name": "h", "mountPath": "/c", "mountPropagation": "Bidirectional"},
    ]
    containers = [{"name": "main", "volumeMounts": mounts, "securityContext": {"privileged": True}}]
    volumes = disk(), host_path(tmp_path, name="h")
    context = {"fsGroup": 4321, "supplementalGroups": [7]}
    node.put("shop.json", pod("shop", *volumes, containers=containers, securityContext=context))
    node.wait("shop")
    (told,) = json.loads(node.volmgr("mounts", "shop", "--format", "json").stdout)["containers"]
    assert [(each["target"], each["propagation"], each["read_only"]) for each in told["mounts"]] == [
        ("/a", "rslave", False),
        ("/b", "rprivate", True),
        ("/c", "rshared", False),
    ]
    assert set(told["supplemental_groups"]) == {7, 4321}
    fragment = json.loads(node.volmgr("mounts", "shop", "--container", "main", "--format", "oci").stdout)
    assert [each["destination"] for each in fragment["mounts"]] == ["/a", "/b", "/c"]
    assert "rslave" in fragment["mounts"][0]["options"]
    assert "ro" in fragment["mounts"][1]["options"]
    assert set(fragment["process"]["user"]["additionalGids"]) == {7, 4321}
