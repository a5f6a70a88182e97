"""What can be counted of SELinux labels: kubelet's metrics of them, each as it is now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from volmgr.model.selinux import LabelTrouble, Trouble, access_mode
from volmgr.report.gauge import Gauge

if TYPE_CHECKING:
    from volmgr.desired import DesiredVolume
    from volmgr.report.world import World

_PREFIX = "volume_manager_selinux"
_ABOUT = {
    Trouble.CONTAINER: "containers of a Pod whose SELinux options are no label",
    Trouble.POD: "containers of one Pod want other SELinux labels than each other",
    Trouble.VOLUME: "Pods want another SELinux label than the first Pod that has the volume",
}


def label_gauges(world: World) -> Iterator[Gauge]:
    """Count the volumes mounted with a label, and those whose label is in trouble, errors apart from warnings."""
    troubles = Counter(trouble for entry in world.pods.values() for trouble in entry.label_troubles)
    for volume in world.desired:
        troubles.update(_mismatches(volume))
    for kind in Trouble:
        for error in (True, False):
            yield _gauge(kind, troubles, error=error)
    admitted = _count((counted_type(v), access_mode(v.spec.pv)) for v in world.desired if v.selinux_label)
    about = "Wanted volumes that are mounted with an SELinux label."
    yield Gauge(f"{_PREFIX}_volumes_admitted_total", about, ("volume_plugin", "access_mode"), admitted)


def counted_type(volume: DesiredVolume) -> str:
    """Name a volume's type as kubelet's metrics of labels do: with its driver, after a slash."""
    driver = volume.spec.driver
    return f"{volume.plugin}/{driver}" if driver and not volume.plugin.endswith(f"/{driver}") else volume.plugin


def _mismatches(volume: DesiredVolume) -> Iterator[LabelTrouble]:
    """Give one for each Pod whose label differs from the first one's, where none is applied; else it has no volume."""
    wishes = [mount.labelling for mount in volume.mounts.values()]
    for wish in wishes[1:]:
        if wish.label != wishes[0].label and not wish.applied:
            plugin, mode = counted_type(volume), access_mode(volume.spec.pv)
            yield LabelTrouble(kind=Trouble.VOLUME, error=False, plugin=plugin, access_mode=mode)


def _gauge(kind: Trouble, troubles: Counter[LabelTrouble], *, error: bool) -> Gauge:
    by_type = kind is Trouble.VOLUME
    what = "cannot be mounted" if error else "are mounted without a label"
    return Gauge(
        f"{_PREFIX}_{kind}_{'errors' if error else 'warnings'}_total",
        f"Volumes of Pods that {what}, because {_ABOUT[kind]}.",
        ("volume_plugin", "access_mode") if by_type else ("access_mode",),
        _count(
            (each.plugin, each.access_mode) if by_type else (each.access_mode,)
            for each in troubles.elements()
            if (each.kind, each.error) == (kind, error)
        ),
    )


def _count(keys: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], float]:
    return {key: float(number) for key, number in Counter(keys).items()}
