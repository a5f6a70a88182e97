"""A CSI driver that works on a host in memory, behind a real socket: its answers are a test's, its calls are kept."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.csi.fault_driver.calls import Call, CallLog, read_calls
from tests.csi.fault_driver.rules import Rule, Script
from tests.csi.fault_driver.server import Service, csi_services
from volmgr.plugin import CSIDriver, CsiSource, DriverInfo, Object, ObjectMeta, PersistentVolume, VolumeMode
from volmgr.testing import FakeHost, Sample, Volume, pod
from volmgr_csi.contract import IMAGE, works
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import Abilities, Driver, drivers_of
from volmgr_csi.v1 import csi_pb2 as csi
from volmgr_csi.volume import Csi

NAME = "memory.csi.test"
NODE = "node-1"
ROOT = "/var/lib/volmgr"
PLUGIN = f"{ROOT}/plugins/kubernetes.io/csi"
STAGED = f"{PLUGIN}/{NAME}/aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123"
"""What belongs to the handle `h` on the node: its name is the SHA-256 of that."""
POD_VOLUME = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/data"
SCAFFOLD = frozenset(
    {
        Path(PLUGIN, "volumeDevices"),
        Path(ROOT, "pods/uid-web/volumes/kubernetes.io~csi"),
        Path(ROOT, "pods/uid-web/volumeDevices"),
    }
)
"""Directories that stay when no volume is left, or that the core removes."""
ALL = Abilities(stage=True, expand=True, stats=True)
IMAGE_FILE = Path("/srv/disk.img")


@dataclass
class Site:
    """A host in memory and the driver on it."""

    host: FakeHost
    socket: Path
    calls_file: Path
    script: Script = field(default_factory=Script)
    controller: frozenset[str] = frozenset()
    wipes: bool = False
    """Whether NodeUnpublishVolume and NodeUnstageVolume delete all that is in their way, as some drivers do."""

    def __post_init__(self) -> None:
        self.known = drivers_of(self.host)
        self.register(ALL)

    def register(self, abilities: Abilities, *, retired: bool = False) -> None:
        """Let the driver be registered, as one that can do this."""
        info = DriverInfo(name=NAME, node_id="machine-1")
        connection = Connection(NAME, str(self.socket))
        controller = self.controller
        self.known.put(
            Driver(info=info, abilities=abilities, connection=connection, controller=controller, retired=retired)
        )

    def answer(self, method: str, code: str, *, works: bool = False, **said: Any) -> None:  # noqa: ANN401 - of Rule
        """Let the next call of a method end with a code; `works`: it does its work all the same."""
        self.script.add((Rule(method=method, code=code, skip_work=not works, **said),))

    def calls(self, *methods: str) -> list[Call]:
        """Give the calls that ended, of some methods or of all."""
        return read_calls(self.calls_file, *methods)

    def requests(self, method: str) -> list[Mapping[str, Any]]:
        """Give what was asked of a method."""
        return [call.request for call in self.calls(method)]

    def named(self) -> list[str]:
        """Name the calls, in the order in which they ended."""
        return [call.method for call in self.calls()]

    def tree(self) -> dict[str, str]:
        """Give all that is on the machine, by path: its kind, mode and owner, and what is in it."""
        return {str(path): what for path, what in self.host.tree().items()}

    def files(self) -> dict[str, str]:
        """Give every kubelet's file, by its path."""
        found = (path for path in self.tree() if path.endswith("/vol_data.json"))
        return {path: (self.host.files.read(Path(path)) or b"").decode() for path in found}

    def forget_records(self) -> None:
        """Let all that is there be kubelet's doing."""
        for kind in ("staged", "published"):
            for name in self.host.files.names(self.host.paths.state / "csi" / kind):
                self.host.files.remove_file(self.host.paths.state / "csi" / kind / name)

    def left(self) -> list[str]:
        """Name all below the Pods' and the type's directories, and our records, but what the core makes and removes."""
        tops = (f"{ROOT}/pods/", f"{PLUGIN}/", f"{ROOT}/volmgr/csi/staged/", f"{ROOT}/volmgr/csi/published/")
        found = [Path(path) for path in self.tree() if path.startswith(tops)]
        above = {parent for path in found for parent in path.parents}
        return sorted(str(path) for path in found if path not in above and path not in SCAFFOLD)


@contextmanager
def running_in_memory(top: Path) -> Generator[Site]:
    """Serve a driver on a new host in memory; `top` is for its socket and its records."""
    host = FakeHost()
    site = Site(host, top / "csi.sock", top / "calls")
    done = {method.name: partial(_done, work, site) for method, work in works().items()}
    service = Service(site.script, CallLog(site.calls_file), done, may_crash=False)
    server = service.served_at(site.socket, csi_services())
    try:
        yield site
    finally:
        site.script.end()
        server.stop(grace=None).wait()


def _done(work: Any, site: Site, request: Any) -> Any:  # noqa: ANN401 - any messages
    if site.wipes and isinstance(request, (csi.NodeUnpublishVolumeRequest, csi.NodeUnstageVolumeRequest)):
        path = (
            request.target_path if isinstance(request, csi.NodeUnpublishVolumeRequest) else request.staging_target_path
        )
        site.host.mounts.unmount(Path(path))
        site.host.files.remove_tree(Path(path))
    return work(request, site.host)


def csi_driver(**said: Any) -> CSIDriver:  # noqa: ANN401 - fields
    """Give the driver's CSIDriver: nobody attaches its volumes unless it says so."""
    fields: dict[str, Any] = {"attach_required": False, "volume_lifecycle_modes": ("Persistent", "Ephemeral"), **said}
    return CSIDriver(metadata=ObjectMeta(name=NAME), **fields)


def persistent(
    *objects: Object,
    mode: VolumeMode = VolumeMode.FILESYSTEM,
    pv: Mapping[str, Any] | None = None,
    **source: Any,  # noqa: ANN401 - fields
) -> Volume:
    """Give a PersistentVolume `data` of the driver, that of the handle `h`; `pv` are fields of it."""
    fields: dict[str, Any] = {"access_modes": ("ReadWriteOnce",), "volume_mode": mode, **(pv or {})}
    wanted = PersistentVolume(metadata=ObjectMeta(name="data"), type="csi", **fields)
    made_of = {IMAGE: str(IMAGE_FILE)} if mode is VolumeMode.BLOCK else {}
    said: dict[str, Any] = {"volume_attributes": made_of, **source}
    sample = Sample(
        source=CsiSource(driver=NAME, volume_handle="h", **said),
        objects=objects or (csi_driver(),),
        spec={"pv": wanted, "access_modes": wanted.access_modes, "mode": mode},
    )
    return Volume.of(Csi(), sample)


def inline(*objects: Object, **source: Any) -> Volume:  # noqa: ANN401 - fields
    """Give an inline volume `data` of the driver."""
    return Volume.of(Csi(), Sample(source=CsiSource(driver=NAME, **source), objects=objects or (csi_driver(),)))


def of_pod(volume: Volume, **spec: Any) -> Volume:  # noqa: ANN401 - fields
    """Give a volume of a Pod `web` whose spec says this."""
    return replace(volume, pod=pod("web", **spec))
