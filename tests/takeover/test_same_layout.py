"""What kubelet and volmgrd make of the same manifests is the same on disk and in the mount table."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.root.acceptance.outside import mounts_below
from tests.takeover import objects
from tests.takeover.site import Site

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

_STAMP = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+")


def layout(root: Path) -> Mapping[str, str]:
    """Describe everything below the Pods' and the types' directories: kind, mode, owner, and what a link names."""
    found: dict[str, str] = {}
    for top in ("pods", "plugins"):
        for place, directories, files in os.walk(root / top):
            for name in ("", *directories, *files):
                path = Path(place, name)
                info = path.lstat()
                target = os.readlink(path) if path.is_symlink() else ""
                said = f"{stat.filemode(info.st_mode)} {info.st_uid}:{info.st_gid} {target}"
                found[_STAMP.sub("STAMP", str(path.relative_to(root)))] = _STAMP.sub("STAMP", said)
    return found


def table(root: Path) -> Mapping[str, str]:
    """Describe each mount below a root: options, type, source and options of the file system."""
    rows = {path: line.split(" ") for path, line in mounts_below(root).items()}
    return {path.removeprefix(f"{root}/"): " ".join((row[5], *row[row.index("-") + 1 :])) for path, row in rows.items()}


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Give what either says otherwise than the other; missing is empty."""
    paths = sorted(ours.keys() | theirs.keys())
    both = {path: (ours.get(path, ""), theirs.get(path, "")) for path in paths}
    return {path: said for path, said in both.items() if said[0] != said[1]}


def test_both_lay_out_the_same(site: Site) -> None:
    site.put_pods()
    site.kubelet_mounts()
    site.kill_kubelet()
    kubelets = layout(site.root), table(site.root)
    site.kubelet_clears()
    site.remove_root()
    site.volmgr.start()
    for name in site.pods:
        site.volmgr.wait(name)
        site.volmgr.volmgr("mounts", name)
    ours = layout(site.root), table(site.root)
    assert site.volmgr.stop() == 0
    assert len(ours[0]) > 80
    assert differences(ours[0], kubelets[0]) == KNOWN
    assert differences(ours[1], kubelets[1]) == {}


_POD = f"pods/{objects.SHOP}"
_TYPES = [
    f"{_POD}/volumes/kubernetes.io~{name}" for name in ("configmap", "downward-api", "empty-dir", "projected", "secret")
]
_MARKERS = [
    f"{_POD}/plugins/kubernetes.io~empty-dir/{name}/ready"
    for name in ("disk", "mem", "wrapped_all", "wrapped_login", "wrapped_me", "wrapped_settings")
]
_IN_MEMORY = [
    f"{_POD}/volume-subpaths/mem/main/9",
    *(
        f"{_POD}/volumes/kubernetes.io~{name}"
        for name in ("downward-api/me", "empty-dir/mem", "empty-dir/mem/part", "projected/all", "secret/login")
    ),
]
KNOWN = {
    **dict.fromkeys(_TYPES, ("drwxr-x--- 0:0 ", "drwxr-xr-x 0:0 ")),
    **dict.fromkeys(_MARKERS, ("-rw-r----- 0:0 ", "-rw-r--r-- 0:0 ")),
    **dict.fromkeys(_IN_MEMORY, (f"drwxrwsrwx 0:{objects.GROUP} ", f"drwxrwsrwt 0:{objects.GROUP} ")),
    f"pods/{objects.GUEST}/plugins": ("", "drwxr-x--- 0:0 "),
}
"""All of them modes, but for a directory that kubelet makes for every Pod: others may not read here what lies around
volumes, and kubelet's volumes in memory have the sticky bit."""
