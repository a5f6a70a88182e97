"""One root directory that kubelet's volume manager and volmgrd have in turn, with disks and manifests."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.eventually import PATIENCE
from tests.root.acceptance.outside import Outside, mounts_below
from tests.takeover import objects
from volmgr.host import syscalls

DISK_SIZE = 32 << 20


class MountTable:
    """Tells whether anything was mounted or unmounted in this namespace since it was last asked."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._file = Path("/proc/self/mountinfo").open("rb")  # noqa: SIM115 - as long as the test
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLPRI)
        self.changed()

    def changed(self) -> bool:
        """Ask; the kernel answers each change once."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Watch no more."""
        self._file.close()


class Site:
    """A root directory, its disks, and who may have it."""

    pods = ("shop", "guest")

    def __init__(self, top: Path, program: Path) -> None:
        """Make disks and manifests; nothing runs."""
        self.top = top
        self.program = program
        configuration = top / "volmgr.yaml"
        git_repo = {"enabled": True, "local_below": [str(top / "repositories")]}
        configuration.write_text(json.dumps({"plugins": {"kubernetes.io/git-repo": git_repo}}))
        self.volmgr = Outside(top, "--node-name", objects.NODE, "--config", str(configuration))
        self.root = top / "root"
        self.driver_socket: Path | None = None
        """Where kubelet finds its CSI driver; it has none otherwise."""
        self.driver_name = "bench.csi.local"
        self.host_path = top / "host"
        self.directory = top / "directory"
        self.directory.mkdir()
        self.kubelet: subprocess.Popen[str] | None = None
        self.loops = {name: self._disk(name) for name in ("data", "raw")}
        storage = (
            *objects.local("dir", self.directory),
            *objects.local("data", self.loops["data"]),
            *objects.local("raw", self.loops["raw"], "Block"),
        )
        self.volmgr.put("node.json", objects.node())
        self.volmgr.put("storage.json", *storage)
        self.volmgr.put("settings.json", objects.config_map(color="red"))
        self.volmgr.put("login.json", objects.secret(password="one"))

    def _disk(self, name: str) -> Path:
        file = self.top / f"{name}.img"
        with file.open("wb") as image:
            image.truncate(DISK_SIZE)
        return Path(_told("losetup", "--find", "--show", str(file)))

    def repository(self) -> str:
        """Make a git repository with one file, and give its address."""
        place = self.top / "repositories" / "repository"
        _told("git", "init", "--quiet", str(place))
        (place / "file").write_text("content")
        git = ("git", "-C", str(place), "-c", "user.name=n", "-c", "user.email=n@example.com")
        _told(*git, "add", "file")
        _told(*git, "commit", "--quiet", "--message", "one")
        return f"file://{place}"

    def put_pods(self, *, subpaths: Sequence[str] = objects.SUBPATHS) -> None:
        """Let both Pods be wanted."""
        self.volmgr.put("shop.json", objects.shop(self.host_path, subpaths))
        self.volmgr.put("guest.json", objects.guest())

    def remove_pods(self) -> None:
        """Let neither Pod be wanted."""
        for name in self.pods:
            (self.volmgr.manifests / f"{name}.json").unlink()

    def forget_volmgr(self) -> None:
        """Remove volmgr's records, as its documentation says to whoever hands a root back."""
        shutil.rmtree(self.root / "volmgr")

    # kubelet

    def kubelet_mounts(self) -> None:
        """Let kubelet's volume manager mount all that is wanted, on whatever root there is."""
        self.kubelet = subprocess.Popen(
            self._kubelet("mount", "-manifests", str(self.volmgr.manifests)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.kubelet.stdout is not None
        said = self.kubelet.stdout.readline()
        assert said == "MOUNTED\n", said + self.kubelet_log()

    def kill_kubelet(self) -> None:
        """End it as kill -9 does."""
        assert self.kubelet is not None
        self.kubelet.kill()
        self.kubelet.communicate(timeout=PATIENCE)
        self.kubelet = None

    def kubelet_clears(self, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
        """Let kubelet's volume manager start with no Pod wanted; gives what it complains of at the end."""
        log = self.top / "kubelet.log"
        log.unlink(missing_ok=True)
        with subprocess.Popen(
            self._kubelet("clear"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as clearing:
            try:
                meanwhile()
                said, _ = clearing.communicate(timeout=PATIENCE)
            finally:
                clearing.kill()
        *problems, last = said.splitlines() or [""]
        assert last == "CLEARED", said + self.kubelet_log()
        return problems

    def _kubelet(self, command: str, *options: str) -> list[str]:
        log = str(self.top / "kubelet.log")
        driver = ("-csi", str(self.driver_socket), "-csi-name", self.driver_name) if self.driver_socket else ()
        return [str(self.program), command, "-root", str(self.root), "-log", log, "-v", "4", *driver, *options]

    def kubelet_log(self) -> str:
        """Give what kubelet has logged since its last start."""
        log = self.top / "kubelet.log"
        return log.read_text() if log.exists() else ""

    # what there is

    def path(self, plugin: str, name: str, uid: str = objects.SHOP) -> Path:
        """Give the directory of a volume."""
        return self.root / "pods" / uid / "volumes" / f"kubernetes.io~{plugin}" / name

    def volumes(self) -> Mapping[str, Path]:
        """Give each directory that the Pod `shop` has, by the volume's name."""
        return {
            "disk": self.path("empty-dir", "disk"),
            "mem": self.path("empty-dir", "mem"),
            "host": self.host_path,
            "login": self.path("secret", "login"),
            "settings": self.path("configmap", "settings"),
            "me": self.path("downward-api", "me"),
            "all": self.path("projected", "all"),
            "dir": self.path("local-volume", "pv-dir"),
            "data": self.path("local-volume", "pv-data"),
        }

    def device(self, uid: str = objects.SHOP) -> Path:
        """Give the link to the Block volume of a Pod."""
        return self.root / "pods" / uid / "volumeDevices/kubernetes.io~local-volume/pv-raw"

    def mark(self) -> None:
        """Write into every volume, as its Pod would."""
        for name, path in self.volumes().items():
            (path / "marker").write_text(name)
        for part in ("mem", "host"):
            (self.volumes()[part] / "part" / "marker").write_text(part)
        self.device().write_bytes(b"marked")

    def check_marks(self) -> None:
        """Find everything that mark() has written."""
        for name, path in self.volumes().items():
            assert (path / "marker").read_text() == name
        for part in ("mem", "host"):
            assert (self.subpath(part) / "marker").read_text() == part
        with self.device().open("rb") as device:
            assert device.read(6) == b"marked"

    def subpath(self, volume: str) -> Path:
        """Give where the subPath of a volume is bound for the container."""
        (found,) = (self.root / "pods" / objects.SHOP / "volume-subpaths" / volume / "main").iterdir()
        return found

    def check_files(self, *, password: str = "one", color: str = "red") -> None:
        """Find the files of Secret, ConfigMap and labels where containers read them."""
        assert (self.volumes()["login"] / "password").read_text() == password
        assert (self.volumes()["settings"] / "color").read_text() == color
        assert (self.volumes()["me"] / "labels").read_text() == 'app="shop"'
        everything = {name: (self.volumes()["all"] / name).read_text() for name in ("password", "color", "labels")}
        assert everything == {"password": password, "color": color, "labels": 'app="shop"'}

    def mounts(self) -> dict[str, int]:
        """Give the id of each mount below the root, which no other mount ever has had or will have."""
        return {path: syscalls.statx(path).mount for path in mounts_below(self.root)}

    def locks(self) -> dict[str, str]:
        """Give the loop devices that lock block volumes, with what backs each."""
        backings = Path("/sys/block").glob("loop*/loop/backing_file")
        found = {f"/dev/{path.parts[3]}": path.read_text().strip() for path in backings}
        return {loop: backing for loop, backing in found.items() if backing.startswith(f"{self.root}/")}

    def left(self) -> list[str]:
        """Name all below the Pods' and the types' directories but the directories of types themselves."""
        found: list[str] = []
        for top in ("pods", "plugins"):
            for place, directories, files in os.walk(self.root / top):
                found += [f"{place}/{name}" for name in files]
                if not directories and not files:
                    found.append(place)
        scaffold = {f"{self.root}/{path}" for path in SCAFFOLD}
        return sorted(set(found) - scaffold)

    def remove_root(self) -> None:
        """Remove the root directory, and what is still mounted in it."""
        for place in sorted(mounts_below(self.root), reverse=True):
            _told("umount", place)
        shutil.rmtree(self.root)

    def close(self) -> None:
        """End and remove whatever a failed test leaves."""
        if self.kubelet is not None:
            self.kill_kubelet()
        daemon = self.volmgr.daemon
        if daemon is not None and daemon.poll() is None:
            self.volmgr.kill()
        for lock in self.locks():
            _told("losetup", "--detach", lock)
        for place in sorted(mounts_below(self.top), reverse=True):
            _told("umount", place)
        for loop in self.loops.values():
            _told("losetup", "--detach", str(loop))


SCAFFOLD = (
    "pods",
    "plugins",
    "plugins/kubernetes.io/local-volume/mounts",
    "plugins/kubernetes.io~local-volume/volumeDevices",
)
"""Directories that stay, empty, when no volume is left: both kubelet and volmgr keep them."""


def _told(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
