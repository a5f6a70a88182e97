"""`volmgr check`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from volmgr.cli import output
from volmgr.cli.files import manifests
from volmgr.cli.session import Session, common_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.manifest import Parsed
    from volmgr.plugins import Plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a file."""

    document: int
    field: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One file; `notes` are what is not wrong, but worth knowing."""

    file: str
    objects: tuple[str, ...]
    errors: tuple[Problem, ...]
    notes: tuple[str, ...]


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@common_options
@click.pass_obj
def command(session: Session, files: tuple[str, ...]) -> None:
    """Check manifests, without a daemon.

    Takes files and directories, and reads them as the daemon would, with the volume types that are installed here.
    Exits with 1 when anything is wrong, naming file, document, field and remedy.
    """
    from volmgr.discovery import load

    plugins = load()
    found = [_check(file, plugins) for file in manifests(files)]
    if session.json:
        output.print_value({"files": [asdict(checked) for checked in found]})
    else:
        for checked in found:
            _print(checked)
    if any(checked.errors for checked in found):
        raise SystemExit(1)


def _check(file: str, plugins: Plugins) -> Checked:
    from volmgr.manifest import LIMIT, parse, too_large

    try:
        if file == "-":
            data = sys.stdin.buffer.read(LIMIT + 1)
        else:
            size = os.stat(file).st_size
            if size > LIMIT:
                error = too_large(file, size)
                problem = Problem(document=0, field="", problem=error.problem, remedy=error.remedy)
                return Checked(file=file, objects=(), errors=(problem,), notes=())
            with open(file, "rb") as stream:
                data = stream.read()
    except OSError as error:
        remedy = "check its name" if isinstance(error, FileNotFoundError) else "check its mode"
        problem = Problem(document=0, field="", problem=f"cannot be read: {error.strerror}", remedy=remedy)
        return Checked(file=file, objects=(), errors=(problem,), notes=())
    return _checked(file, parse(data, file, plugins), plugins)


def _checked(file: str, parsed: Parsed, plugins: Plugins) -> Checked:
    from volmgr.model.objects import ref_of

    return Checked(
        file=file,
        objects=tuple(str(ref_of(item.value)) for item in parsed.items),
        errors=(
            *(
                Problem(document=error.document, field=error.field, problem=error.problem, remedy=error.remedy)
                for error in parsed.errors
            ),
            *_twice(parsed),
            *_refused(parsed, plugins),
        ),
        notes=(*parsed.notes, *_unserved(parsed, plugins), *_unused(parsed)),
    )


def _twice(parsed: Parsed) -> list[Problem]:
    """Find objects that an earlier document of the file has already, by name or by the UID of a Pod."""
    from volmgr.model.objects import ref_of
    from volmgr.model.pod import Pod

    problems: list[Problem] = []
    names: dict[object, int] = {}
    uids: dict[str, int] = {}
    for item in parsed.items:
        ref = ref_of(item.value)
        uid = item.value.uid if isinstance(item.value, Pod) else ""
        if ref in names:
            problem = f"the {ref} is also in document {names[ref]} of this file"
            remedy = "remove it from one of them"
            problems.append(Problem(document=item.document, field="", problem=problem, remedy=remedy))
        elif uid in uids:
            problem = f"the Pod in document {uids[uid]} of this file has this UID, too"
            remedy = "give each Pod a UID of its own, or none"
            problems.append(Problem(document=item.document, field="metadata.uid", problem=problem, remedy=remedy))
        names.setdefault(ref, item.document)
        if uid:
            uids.setdefault(uid, item.document)
    return problems


def _refused(parsed: Parsed, plugins: Plugins) -> list[Problem]:
    """Find values that no mount could take."""
    from volmgr.cli.refusals import refusals

    return [
        Problem(document=item.document, field=refusal.field, problem=refusal.problem, remedy="")
        for item in parsed.items
        for refusal in refusals(item.value, plugins)
    ]


def _unserved(parsed: Parsed, plugins: Plugins) -> list[str]:
    """Name the volumes whose type no installed package serves: right manifests that would wait here."""
    from volmgr.claims import CLAIM_FIELDS
    from volmgr.errors import PluginError
    from volmgr.model.pod import Pod
    from volmgr.model.volume import PersistentVolume
    from volmgr.plugin import Where

    def note(document: int, name: str, field: str, source: Mapping[str, object], where: Where) -> None:
        driver = source.get("driver")
        try:
            if not plugins.migrates(field):
                plugins.find(field, driver if isinstance(driver, str) else None, where)
        except PluginError as error:
            notes.append(f"document {document}: {name}: {error}")

    notes: list[str] = []
    for item in parsed.items:
        value = item.value
        if isinstance(value, PersistentVolume):
            note(item.document, f"PersistentVolume {value.metadata.name}", value.type, value.source, Where.PV)
        for volume in value.spec.volumes if isinstance(value, Pod) else ():
            if volume.type not in CLAIM_FIELDS:
                note(item.document, f"volume {volume.name}", volume.type, volume.source, Where.POD)
    return notes


def _unused(parsed: Parsed) -> list[str]:
    """Name the volumes that no container uses, as after a misspelt `volumeMounts`: they are never mounted."""
    from volmgr.model.pod import Pod
    from volmgr.report.waiting import used_names

    notes: list[str] = []
    for item in parsed.items:
        if isinstance(item.value, Pod):
            used = used_names(item.value)
            notes += [
                f"document {item.document}: volume {volume.name}: no container names it in its volumeMounts (or"
                " volumeDevices), so it is not mounted"
                for volume in item.value.spec.volumes
                if volume.name not in used
            ]
    return notes


def _print(checked: Checked) -> None:
    for error in checked.errors:
        place = [checked.file, f"document {error.document}" if error.document else "", error.field, error.problem]
        text = ": ".join(part for part in place if part)
        click.echo(f"{text}; {error.remedy}" if error.remedy else text, err=True)
    if not checked.errors:
        click.echo(f"{checked.file}: ok: {', '.join(checked.objects) or 'nothing that volumes need'}")
    for note in checked.notes:
        click.echo(f"{checked.file}: note: {note.removeprefix(f'{checked.file}: ')}")
