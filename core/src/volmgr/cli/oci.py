"""What a container is to be given, as a fragment of an OCI runtime configuration (`config.json`). Pure.

Source: `config.md` and `config-linux.md` of the OCI runtime specification 1.2.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from volmgr.report.mounts import ContainerReport, DeviceReport, MountReport

Fragment = dict[str, object]


def fragments(containers: Iterable[ContainerReport]) -> dict[str, Fragment]:
    """Give the fragment of each container by its name; what could not be had is left out."""
    return {container.name: fragment(container) for container in containers}


def fragment(container: ContainerReport | SimpleNamespace) -> Fragment:
    """Give `mounts`, `linux.devices`, `linux.resources.devices` and `process.user.additionalGids`.

    A runtime mounts in the order of the list, so that what lies inside another mount comes after it.
    """
    mounts = sorted((each for each in container.mounts if not each.problem), key=_depth)
    devices = [each for each in container.devices if not each.problem]
    return {
        "mounts": [_mount(each) for each in mounts],
        "process": {"user": {"additionalGids": list(container.supplemental_groups)}},
        "linux": {
            "devices": [_device(each) for each in devices],
            "resources": {"devices": [_permission(each) for each in devices]},
        },
    }


def _depth(mount: MountReport) -> int:
    return len([part for part in mount.target.split("/") if part])


def _mount(mount: MountReport) -> dict[str, object]:
    return {"destination": mount.target, "type": "bind", "source": mount.source, "options": list(mount.options)}


def _device(device: DeviceReport) -> dict[str, object]:
    numbers = {"major": device.major, "minor": device.minor}
    return {"path": device.path, "type": "b", **numbers, "fileMode": device.mode, "uid": 0, "gid": 0}


def _permission(device: DeviceReport) -> dict[str, object]:
    access = "rwm" if device.permissions == "mrw" else "rm"
    return {"allow": True, "type": "b", "major": device.major, "minor": device.minor, "access": access}
