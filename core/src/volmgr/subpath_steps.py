"""What is done on the host before a Pod's containers are started: subPaths bound, devices looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, VolmgrError
from volmgr.journal import Journal
from volmgr.report.mounts import ContainerReport, DeviceReport, MountReport, MountsReport, Part, Plan, refused

if TYPE_CHECKING:
    from volmgr.host.interface import Host
    from volmgr.model.expansion import Text

_HIDDEN = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A plan that was carried out: its report, and the parts that are bound now."""

    report: MountsReport
    parts: tuple[Part, ...] = ()


def carry_out(host: Host, plan: Plan) -> Bound:
    """Bind the subPaths of a plan, each on its own: what is refused is a problem of that one."""
    done: list[Part] = []
    containers = tuple(_carry_out(host, plan, container, done) for container in plan.report.containers)
    _record(host, plan.report.uid, done)
    report = replace(plan.report, containers=containers, problems=tuple(_problems(containers)))
    return Bound(report=report, parts=tuple(done))


def _carry_out(host: Host, plan: Plan, container: ContainerReport, done: list[Part]) -> ContainerReport:
    mounts: list[MountReport] = []
    for index, mount in enumerate(container.mounts):
        part = plan.parts.get((container.name, index))
        mounts.append(mount if part is None or mount.problem else _bind(host, mount, part, done))
    devices = tuple(device if device.problem else _look_at(host, device) for device in container.devices)
    return replace(container, mounts=tuple(mounts), devices=devices)


def _bind(host: Host, mount: MountReport, part: Part, done: list[Part]) -> MountReport:
    try:
        host.subpaths.bind(part.path, part.sub_path.text, part.target, create=part.create)
    except VolmgrError as error:
        return refused(mount, _shown(str(error), part.sub_path))
    done.append(part)
    return mount


def _shown(problem: str, sub_path: Text) -> str:
    """Give a problem as it may be shown: without the value of a Secret."""
    if not sub_path.secret:
        return problem
    values = {sub_path.text, *sub_path.text.split("/")}
    values |= {repr(value)[1:-1] for value in values}  # as some messages quote it
    for value in sorted(values - {""}, key=len, reverse=True):
        problem = problem.replace(value, _HIDDEN)
    return problem


def _look_at(host: Host, device: DeviceReport) -> DeviceReport:
    try:
        info = host.files.info(Path(device.source), follow=True)
    except OperationError as error:
        return replace(device, source="", problem=f"device of volume {device.volume}: {error}")
    if info is None or info.kind != "block":
        what = "does not exist" if info is None else f"is a {info.kind}"
        return replace(device, source="", problem=f"device of volume {device.volume}: {device.source} {what}")
    return replace(device, major=os.major(info.rdev), minor=os.minor(info.rdev), mode=info.mode & 0o777)


def _record(host: Host, uid: str, parts: list[Part]) -> None:
    """Note which revision each subPath shows, so that it is known after a restart, too; it is not vital."""
    journal = Journal(host)
    for name in {part.spec_name for part in parts}:
        shown = {part.key: part.revision for part in parts if part.spec_name == name}
        record = journal.read_mount(uid, name)
        if record is not None and not shown.items() <= record.subpaths.items():
            journal.write_mount(replace(record, subpaths={**record.subpaths, **shown}), again=True)


def _problems(containers: tuple[ContainerReport, ...]) -> Iterator[str]:
    for container in containers:
        found = [mount.problem for mount in container.mounts] + [device.problem for device in container.devices]
        yield from (f"container {container.name}: {problem}" for problem in found if problem)
