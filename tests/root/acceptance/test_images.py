"""What image and gitRepo volumes promise: content of others, made safe, shared, and gone with its Pods."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.eventually import eventually
from tests.root.acceptance.objects import Document
from tests.root.acceptance.outside import Outside, pod

Entry = tuple[str, bytes | None, str]
"""The name of a tar entry, its type, and the name that a link has."""
TYPE = "application/vnd.oci.image"


def layer(files: Mapping[str, str], entries: Iterable[Entry] = ()) -> bytes:
    """Give a tar archive of files and of other entries."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
        for name, kind, target in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind or tarfile.REGTYPE, target
            archive.addfile(info)
    return made.getvalue()


def layout(top: Path, *layers: bytes, tag: str = "v1") -> Path:
    """Write an image as an OCI layout."""
    blobs = top / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(data: bytes, kind: str) -> Document:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"{TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    plain = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": plain}}
    manifest: Document = {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json"}
    manifest["config"] = add(json.dumps(config).encode(), "config.v1+json")
    manifest["layers"] = [add(gzip.compress(each), "layer.v1.tar+gzip") for each in layers]
    found = add(json.dumps(manifest).encode(), "manifest.v1+json")
    found["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (top / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [found]}))
    (top / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return top


def image(reference: str, **fields: str) -> Document:
    return {"name": "v", "image": {"reference": reference, **fields}}


def place(node: Outside, name: str) -> Path:
    """Give where an image is mounted for a Pod."""
    return node.root / "volmgr/images/mounts" / f"uid-{name}" / "v"


def configured(top: Path, **settings: Document) -> Outside:
    """Give a node with settings of volume types, by the last parts of their names."""
    config = {"plugins": {f"kubernetes.io/{name}": each for name, each in settings.items()}}
    (top / "config.json").write_text(json.dumps(config))
    return Outside(top, "--config", str(top / "config.json"))


def test_an_image_is_read_only_shared_kept_over_kill_and_nothing_of_it_is_below_the_pod(
    node: Outside, tmp_path: Path
) -> None:
    lower = layer({"a/file": "lower", "gone/file": "x", "kept": "x"})
    upper = layer({"a/file": "upper", ".wh.gone": ""}, [("link", tarfile.SYMTYPE, "/etc/passwd")])
    source = layout(tmp_path / "layout", lower, upper)
    with tarfile.open(tmp_path / "image.tar", "w") as archive:
        archive.add(source, ".")
    node.put("a.json", pod("a", image(f"oci:{source}:v1")))
    node.put("b.json", pod("b", image(f"oci:{source}")), pod("c", image(f"oci-archive:{tmp_path}/image.tar:v1")))
    for name in ("a", "b", "c"):
        node.wait(name)
        seen = place(node, name)
        assert (seen / "a/file").read_text() == "upper"
        assert {path.name for path in seen.iterdir()} == {"a", "kept", "link"}
        assert (seen / "link").readlink() == Path("/etc/passwd")
        assert node.json("status", name)["volumes"][0]["path"] == str(seen)
        assert not (node.root / "pods" / f"uid-{name}" / "volumes").exists()
    before = node.mounts()
    assert set(before) == {str(place(node, name)) for name in ("a", "b", "c")}
    for row in before.values():
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(row.split(" ")[5].split(","))
    assert len(list((node.root / "volmgr/images/content").iterdir())) == 1
    node.kill()
    node.start()
    node.wait("a")
    assert node.mounts() == before


def test_an_image_that_cannot_be_trusted_is_refused_and_nothing_leaves_its_directory(
    node: Outside, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    evil: dict[str, bytes] = {
        "device": layer({}, [("null", tarfile.CHRTYPE, "")]),
        "fifo": layer({}, [("pipe", tarfile.FIFOTYPE, "")]),
        "climb": layer({"../../../../climbed": "x"}),
        "hard": layer({}, [("hard", tarfile.LNKTYPE, "../../../../../../etc/passwd")]),
    }
    for name, each in evil.items():
        node.put(f"{name}.json", pod(name, image(f"oci:{layout(tmp_path / name, each)}:v1")))
    through = layer({"out/file": "x"}), layer({}, [("out", tarfile.SYMTYPE, str(outside))]), layer({"out/new": "x"})
    node.put("through.json", pod("through", image(f"oci:{layout(tmp_path / 'through', *through)}:v1")))
    for name, entry in (("device", "null"), ("fifo", "pipe"), ("climb", "climbed"), ("hard", "hard")):
        node.until_why(name, entry)
    eventually(lambda: place(node, "through").is_mount() or "out" in node.why("through"))
    assert not list(outside.iterdir())
    assert not list(tmp_path.rglob("climbed"))
    eventually(lambda: not list(node.root.glob("volmgr/images/work/*/*")), "the end of what was unpacked in vain")


def test_what_is_wrong_with_a_reference_is_said_and_the_pod_is_mounted_when_it_is_right(
    node: Outside, tmp_path: Path
) -> None:
    damaged = layout(tmp_path / "damaged", layer({"a": "x" * 100}))
    (compressed,) = (path for path in (damaged / "blobs/sha256").iterdir() if path.read_bytes()[:2] == b"\x1f\x8b")
    with compressed.open(
        "r+b"
    ) as file:  # the time that gzip keeps: the content is the same, and yet it is another blob
        file.seek(4)
        file.write(b"then")
    layout(tmp_path / "good", layer({"a": "x"}))
    cases: dict[str, tuple[Document, str]] = {
        "damaged": (image(f"oci:{damaged}:v1"), "layer 1 of 1"),
        "missing": (image(f"oci:{tmp_path}/missing:v1"), f"{tmp_path}/missing"),
        "tag": (image(f"oci:{tmp_path}/good:v2"), "v2"),
        "never": (image(f"oci:{tmp_path}/good:v1", pullPolicy="Never"), "Never"),
        "policy": (image(f"oci:{tmp_path}/good:v1", pullPolicy="Sometimes"), "Sometimes"),
        "name": (image("no such name"), "no such name"),
        "registry": (image("127.0.0.1:9/a/b:v1"), "127.0.0.1:9"),
    }
    for name, (volume, _) in cases.items():
        node.put(f"{name}.json", pod(name, volume))
    for name, (_, part) in cases.items():
        node.until_why(name, part)
    assert not list(node.root.glob("volmgr/images/mounts/*/*"))
    layout(tmp_path / "missing", layer({"a": "x"}))
    node.put("good.json", pod("good", image(f"oci:{tmp_path}/good:v1")))
    for name in ("missing", "good", "never"):
        node.wait(name)


def test_an_image_that_nobody_uses_leaves_the_cache(tmp_path: Path) -> None:
    with configured(tmp_path, image={"image_cache_limit": "0"}) as node:
        source = layout(tmp_path / "layout", layer({"a": "x"}))
        files = [node.put(f"{name}.json", pod(name, image(f"oci:{source}:v1"))) for name in ("a", "b")]
        node.wait("a")
        node.wait("b")
        content = node.root / "volmgr/images/content"
        files[0].unlink()
        node.wait("a", "unmounted")
        assert (place(node, "b") / "a").read_text() == "x"
        files[1].unlink()
        node.wait("b", "unmounted")
        eventually(lambda: not list(content.iterdir()))
        assert not node.mounts()


def repository(top: Path) -> Path:
    """Make a repository with one file and a hook."""
    top.mkdir()
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "x")):
        (top / "file").write_text("x")
        subprocess.run(["git", *command], cwd=top, check=True, env={**os.environ, **identity})
    return top


def git(repository: str, **fields: str) -> Document:
    return {"name": "v", "gitRepo": {"repository": repository, **fields}}


def test_a_git_repo_is_off_and_says_what_to_use_instead(node: Outside, tmp_path: Path) -> None:
    node.put("shop.json", pod("shop", git(str(repository(tmp_path / "r")))))
    node.until_why("shop", "gitRepo volumes are off on this node")
    assert "init container" in node.why("shop")
    assert "{kubernetes.io/git-repo: {enabled: true}}" in node.why("shop")
    assert not (node.root / "pods/uid-shop/volumes/kubernetes.io~git-repo/v").exists()


def test_a_git_repo_is_cloned_where_it_may_be_and_nothing_else_is(tmp_path: Path) -> None:
    top = tmp_path / "repositories"
    top.mkdir()
    ours, other = repository(top / "ours"), repository(tmp_path / "other")
    with configured(tmp_path, **{"git-repo": {"enabled": True, "local_below": [str(top)]}}) as node:
        node.put("shop.json", pod("shop", git(str(ours), directory=".")))
        bad = {
            "other": (git(str(other)), "local_below"),
            "ext": (git("ext::sh -c touch% /tmp/owned"), "ext"),
            "ssh": (git("ssh://host/r"), "ssh"),
            "dash": (git("--upload-pack=touch"), "--upload-pack"),
            "directory": (git(str(ours), directory="../x"), ".."),
            "dotgit": (git(str(ours), directory="a/.GIT/hooks"), ".GIT"),
            "revision": (git(str(ours), revision="-x"), "-x"),
        }
        for name, (volume, _) in bad.items():
            node.put(f"{name}.json", pod(name, volume))
        node.wait("shop")
        clone = node.volume("shop", plugin="kubernetes.io~git-repo")
        assert (clone / "file").read_text() == "x"
        for name, (_, part) in bad.items():
            node.until_why(name, part)
        (clone / "file").write_text("the container's")
        node.kill()
        node.start()
        node.wait("shop")
        assert (clone / "file").read_text() == "the container's"
