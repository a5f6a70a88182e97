"""`volmgr csi publish` and `volmgr csi unpublish`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from volmgr.commands import TIMEOUT, Failure, Session, common_options, print_value
from volmgr_csi.cli import parameters
from volmgr_csi.cli.driver import calling, failures_said
from volmgr_csi.cli.records import Presence, Record, Records, Target, Wish
from volmgr_csi.cli.report import show_call, show_no_call, shown, state_host

if TYPE_CHECKING:
    from volmgr.plugin import Host
    from volmgr_csi.cli.steps import Steps

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What `publish` is told."""

    endpoint: str
    volume: str
    controller: str | None
    target: str
    staging: str | None
    read_only: bool
    create: int
    parameter: Mapping[str, str]
    attribute: Mapping[str, str]
    publish_context: Mapping[str, str]
    secret: Mapping[str, str] = field(repr=False)
    access_mode: str
    block: bool
    fs_type: str
    mount_flag: Sequence[str]
    mount_group: str
    ephemeral: bool
    timeout: float

    @property
    def wish(self) -> Wish:
        """What of it concerns the volume, not one target."""
        return Wish(
            size=self.create,
            parameters=self.parameter,
            attributes=self.attribute,
            publish_context=self.publish_context,
            access_mode=self.access_mode.upper(),
            block=self.block,
            fs_type=self.fs_type,
            mount_flags=tuple(self.mount_flag),
            mount_group=self.mount_group,
            ephemeral=self.ephemeral,
        )


class _Publish(click.Command):
    """A command whose options are given to it as one value."""

    def invoke(self, ctx: click.Context) -> object:
        """Run it."""
        ctx.params = {"said": Publication(**ctx.params)}
        result: object = super().invoke(ctx)
        return result


def _calls(function: F) -> F:
    """Add what every command takes that calls a driver's node and controller services."""
    for decorate in (
        click.option("--timeout", type=TIMEOUT, default="2m", show_default=True, help="How long one call may take."),
        click.option(
            "--secret",
            metavar="KEY=@FILE",
            multiple=True,
            callback=parameters.secrets,
            help="For every call that takes secrets; not recorded. Again and again.",
        ),
        click.option(
            "--controller",
            type=parameters.Socket(),
            help="Socket of the controller service, where it is another one.",
        ),
        click.argument("volume"),
        click.argument("endpoint", metavar="SOCKET", type=parameters.Socket()),
    ):
        function = decorate(function)
    return function


def _pairs(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, metavar="KEY=VALUE", multiple=True, callback=parameters.pairs, help=text)


@click.command("publish", cls=_Publish)
@_calls
@click.option("--target", required=True, metavar="PATH", help="Where; the directory that it is in has to be there.")
@click.option("--staging", metavar="DIR", help="Where to stage it.  [default: in the state directory]")
@click.option("--create", type=parameters.Size(), default=0, metavar="SIZE", help="Let it be made, such as 64Mi.")
@_pairs("--parameter", "For --create: what a StorageClass has in parameters. Again and again.")
@_pairs("--attribute", "What a PersistentVolume has in volumeAttributes. Again and again.")
@_pairs("--publish-context", "It is attached already, and the controller said this. Again and again.")
@click.option(
    "--access-mode",
    type=click.Choice(parameters.ACCESS_MODES, case_sensitive=False),
    default="SINGLE_NODE_WRITER",
    show_default=True,
    metavar="MODE",
    help="CSI's name of it.",
)
@click.option("--block", is_flag=True, help="As a device; TARGET becomes a file.")
@click.option("--fs-type", default="", help="The file system.  [default: the driver's]")
@click.option("--mount-flag", multiple=True, help="A mount option. Again and again.")
@click.option("--mount-group", default="", metavar="GID", help="Whose files they are to be: a Pod's fsGroup.")
@click.option("--read-only", is_flag=True, help="At this target.")
@click.option("--ephemeral", is_flag=True, help="As an inline volume of a Pod: only NodePublishVolume is called.")
@common_options
@click.pass_obj
def publish(session: Session, said: Publication) -> None:
    """Publish VOLUME at a target, by all the calls that the driver's capabilities ask for.

    CreateVolume (with --create; VOLUME is a name then), ControllerPublishVolume, NodeStageVolume, NodePublishVolume.
    Repeat it after a failure; give the same options for a second target. What was done stays until unpublish.
    Exits with 1 also when the driver has published it where it is not seen from here.
    """
    _check(said)
    with _steps(session, said.endpoint, said.volume, said.controller, said.secret, said.timeout) as steps:
        steps.record = _agreed(steps.record, said)
        target = Target(path=os.path.abspath(said.target), read_only=said.read_only)
        steps.publish(target)
    _print(session, steps, f"{said.volume} is published at {target.path}")
    if not said.block and not _is_seen(Path(target.path), steps.host):
        click.echo(
            f"volmgr: nothing is mounted at {target.path} as seen from here: the driver mounts in another mount"
            " namespace, or under another path; give it this directory, with propagation rshared (Bidirectional)",
            err=True,
        )
        raise SystemExit(1)


def _is_seen(target: Path, host: Host) -> bool:
    """Say whether a volume is where its driver says that it published it: mounted, or as files that it wrote there."""
    return host.mounts.is_mount_point(target) or bool(host.files.names(target))


@click.command("unpublish")
@_calls
@click.option("--target", "targets", multiple=True, metavar="PATH", help="Only there. Again and again.")
@click.option("--keep", is_flag=True, help="Do not delete a volume that publish made.")
@common_options
@click.pass_obj
def unpublish(
    session: Session,
    endpoint: str,
    volume: str,
    controller: str | None,
    secret: Mapping[str, str],
    timeout: float,
    targets: Sequence[str],
    *,
    keep: bool,
) -> None:
    """Undo what publish did for VOLUME, as far as it came, and nothing else.

    NodeUnpublishVolume at each target; with the last one NodeUnstageVolume, ControllerUnpublishVolume, and DeleteVolume
    of what --create had made, with all that is in it. Repeat it after a failure; nothing to undo is success.
    """
    with _steps(session, endpoint, volume, controller, secret, timeout) as steps:
        known = tuple(each.path for each in steps.record.targets)
        paths = tuple(map(os.path.abspath, targets)) or known
        made = steps.record.created is not Presence.NO
        steps.unpublish(paths, keep=keep)
    left = ", ".join(each.path for each in steps.record.targets)
    if left:
        said = f"{volume} is still published at {left}"
    elif made and keep:
        said = f"{volume} is published nowhere, and kept: its volume_id is {steps.record.volume_id or 'not known'}"
    else:
        said = f"nothing is left of {volume}"
    _print(session, steps, said)


@contextmanager
def _steps(
    session: Session, endpoint: str, volume: str, controller: str | None, secrets: Mapping[str, str], timeout: float
) -> Generator[Steps]:
    """Have a volume and its driver, alone."""
    from volmgr_csi.cli.described import name_of
    from volmgr_csi.cli.steps import Steps

    host = state_host()
    records = Records(host)
    show = show_no_call if session.json else show_call
    with failures_said(secrets.values()), calling(endpoint, timeout, show) as node:
        driver = name_of(node)
        with records.held(driver, volume) as directory:
            known = records.read(directory)
            other = controller or (known.controller if known else "") or endpoint
            with calling(other, timeout, show) as called:
                record = known or Record(
                    driver=driver,
                    volume=volume,
                    socket=endpoint,
                    controller=other,
                    wish=Wish(),
                    boot_id=records.boot_id,
                )
                yield Steps(records, directory, record, node, called, secrets, host)


def _agreed(record: Record, said: Publication) -> Record:
    """Give what to begin with; another target of a volume has to say of it what the first one did."""
    wish, staging = said.wish, os.path.abspath(said.staging) if said.staging else ""
    if record.is_empty:
        volume_id = "" if wish.size else record.volume
        return replace(record, wish=wish, volume_id=volume_id, staging=staging)
    different = [each.name for each in fields(Wish) if getattr(record.wish, each.name) != getattr(wish, each.name)]
    if staging and record.staging and staging != record.staging:
        different.append("staging")
    if different:
        message = (
            f"{record.volume} of {record.driver} is there with another {', '.join(different).replace('_', ' ')};"
            " give the same options, or unpublish it first"
        )
        raise Failure(message)
    return record


def _check(said: Publication) -> None:
    parent = Path(os.path.abspath(said.target)).parent
    if not parent.is_dir():
        raise click.BadParameter(f"{parent} is no directory; make it", param_hint="--target")
    if said.staging and not Path(said.staging).is_dir():
        raise click.BadParameter(f"{said.staging} is no directory; make it", param_hint="--staging")
    if said.ephemeral and (said.create or said.block or said.publish_context):
        message = "an inline volume is neither created nor attached, and no device"
        raise click.UsageError(f"{message}: leave out --create, --block and --publish-context")
    if said.parameter and not said.create:
        raise click.UsageError("--parameter is for --create SIZE; an existing volume has --attribute")


def _print(session: Session, steps: Steps, text: str) -> None:
    host: Host = steps.host
    if session.json:
        print_value(shown(steps.record, steps.records, host))
    else:
        click.echo(text)
