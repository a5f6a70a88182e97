"""What each path of the API answers; everything that is asked of the world is a report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.model.meta import ObjectRef
from volmgr.report import pods as pod_reports
from volmgr.report.claims import claims_report
from volmgr.report.doctor import doctor as doctor_report
from volmgr.report.installed import plugins_report
from volmgr.report.plan import plan_report
from volmgr.report.why import WhyReport, why
from volmgr.server import messages
from volmgr.server.messages import HttpError, Request

if TYPE_CHECKING:
    from volmgr.report.gauge import Gauge
    from volmgr.report.world import World
    from volmgr.server.engine import ApplyResult, Engine

CONDITIONS = ("mounted", "unmounted")
WAIT_DEFAULT = 30.0
"""Seconds that a client waits for a condition when it does not say how long."""
MOUNTS_DEFAULT = 30.0
"""Seconds that a client waits for subPaths when it does not say how long."""
DELETE_DEFAULT = 60.0
"""Seconds that a client waits for the deletion of a volume when it does not say how long."""
DRAIN_DEFAULT = 60.0
"""Seconds that a client waits for a drain when it does not say how long."""
HEALTH_TIMEOUT = 5.0
"""Seconds after which a daemon whose main thread does not answer is not healthy."""


@dataclass(frozen=True, slots=True)
class Health:
    """That the daemon works; `pid` is its process."""

    status: str
    pid: int


@dataclass(frozen=True, slots=True)
class Reached:
    """The condition that was waited for."""

    reached: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the objects that were sent."""

    results: tuple[ApplyResult, ...]


@dataclass(frozen=True, slots=True)
class WhyPods:
    """Every Pod of a selector, those not leaving first."""

    pods: tuple[WhyReport, ...]


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """What to hold: a Pod, while the process `pid` lives; `who` is a word for people."""

    pod: str
    pid: int
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldMade:
    """A hold that was made."""

    id: str
    pod_uid: str
    pid: int
    start_time: int
    boot_id: str
    who: str


@dataclass(frozen=True, slots=True)
class Released:
    """The hold that was given back."""

    id: str


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in words."""

    message: str


def healthz(engine: Engine, request: Request, argument: str) -> bytes:
    """Answer once the reconciler has answered."""
    del request, argument
    engine.ask(lambda world: world.clock, HEALTH_TIMEOUT)
    return messages.json(Health("ok", os.getpid()))


def readyz(engine: Engine, request: Request, argument: str) -> bytes:
    """Say whether the daemon is ready, with 503 when it is not."""
    del request, argument
    found = engine.ask(pod_reports.ready, HEALTH_TIMEOUT)
    return messages.json(found, 200 if found.ready else 503)


def metrics(engine: Engine, request: Request, argument: str) -> bytes:
    """Count, in Prometheus' format."""
    del request, argument
    from volmgr.report.metrics import metrics as count
    from volmgr.server.exposition import CONTENT_TYPE, exposition

    gauges: tuple[Gauge, ...] = engine.ask(count)
    return messages.reply(200, exposition(gauges), CONTENT_TYPE)


def pods(engine: Engine, request: Request, argument: str) -> bytes:
    """List all Pods."""
    del request, argument
    return messages.json(engine.ask(pod_reports.status))


def pod(engine: Engine, request: Request, argument: str) -> bytes:
    """Give one Pod."""
    del request

    def query(world: World) -> pod_reports.PodStatus:
        return pod_reports.pod_status(world, world.find_pods(argument)[0].pod.uid)

    try:
        return messages.json(engine.ask(query))
    except IndexError:
        raise HttpError(404, f"no Pod {argument} is known; volmgr why {argument} may say more") from None


def why_pod(engine: Engine, request: Request, argument: str) -> bytes:
    """Say what is wrong with a Pod, 404 with what may be the reason when nothing is known of it."""
    del request
    found = engine.ask(lambda world: why(world, argument))
    if all(item.state == pod_reports.PodState.UNKNOWN for item in found):
        return messages.problem(404, "\n".join(item.text for item in found), "urn:volmgr:unknown-pod")
    return messages.json(WhyPods(found))


def wait(engine: Engine, request: Request, argument: str) -> bytes:
    """Answer when the condition is reached, with 504 and the reason at the timeout."""
    condition = request.query.get("for", CONDITIONS[0])
    if condition not in CONDITIONS:
        raise HttpError(400, f"for={condition[:20]!r} is not one of {', '.join(CONDITIONS)}")
    reason = engine.wait(argument, condition, _timeout(request, WAIT_DEFAULT))
    if reason is not None:
        return messages.problem(504, reason, "urn:volmgr:wait-timeout")
    return messages.json(Reached(condition))


def mounts(engine: Engine, request: Request, argument: str) -> bytes:
    """Prepare what a Pod's containers need, and say where it is."""
    container = request.query.get("container", "")
    return messages.json(engine.mounts(argument, container, _timeout(request, MOUNTS_DEFAULT)))


def apply(engine: Engine, request: Request, argument: str) -> bytes:
    """Accept Pods."""
    del argument
    if not request.body:
        raise HttpError(400, "the body is empty; send a manifest as YAML or JSON")
    return messages.json(Applied(engine.apply(request.body)))


def delete(engine: Engine, request: Request, argument: str) -> bytes:
    """Let a Pod leave."""
    del request
    return messages.json(engine.delete(argument))


def claims(engine: Engine, request: Request, argument: str) -> bytes:
    """Give claims and PersistentVolumes."""
    del request, argument
    return messages.json(engine.ask(claims_report))


def release_volume(engine: Engine, request: Request, argument: str) -> bytes:
    """Let another claim have a volume whose claim is gone."""
    del request
    try:
        return messages.json(Done(engine.release_volume(argument)))
    except KeyError:
        raise HttpError(404, f"no PersistentVolume {argument} is known; volmgr claims lists them") from None


def delete_claimed(engine: Engine, request: Request, argument: str) -> bytes:
    """Delete the volume of a claim that is gone, with what is on it."""
    namespace, _, name = argument.rpartition("/")
    claim = ObjectRef("PersistentVolumeClaim", namespace or "default", name)
    return _delete_data(engine, request, claim, "", f"no PersistentVolume of a claim {claim.namespace}/{name} is known")


def delete_volume(engine: Engine, request: Request, argument: str) -> bytes:
    """Delete a volume whose claim is gone, with what is on it."""
    return _delete_data(engine, request, None, argument, f"no PersistentVolume {argument} is known")


def _delete_data(engine: Engine, request: Request, claim: ObjectRef | None, volume: str, unknown: str) -> bytes:
    if request.query.get("data") != "true":
        raise HttpError(400, "what is on a volume is deleted with it: say so by ?data=true")
    try:
        done = engine.delete_volume(claim, volume, _timeout(request, DELETE_DEFAULT))
    except KeyError:
        raise HttpError(404, f"{unknown}; volmgr claims lists them") from None
    return messages.json(Done(done))


def plan(engine: Engine, request: Request, argument: str) -> bytes:
    """Give what would be done."""
    del request, argument
    return messages.json(engine.ask(plan_report))


def plugins(engine: Engine, request: Request, argument: str) -> bytes:
    """Give the installed types."""
    del request, argument
    return messages.json(engine.ask(plugins_report))


def reload(engine: Engine, request: Request, argument: str) -> bytes:
    """Use the packages that are installed now."""
    del request, argument
    return messages.json(Done(engine.reload()))


def orphans(engine: Engine, request: Request, argument: str) -> bytes:
    """Give what was kept without a Pod or a claim."""
    del request, argument
    return messages.json(engine.orphans())


def doctor(engine: Engine, request: Request, argument: str) -> bytes:
    """Give what the daemon finds wrong."""
    del request, argument
    return messages.json(engine.ask(doctor_report))


def hold(engine: Engine, request: Request, argument: str) -> bytes:
    """Hold a Pod's volumes."""
    del argument
    try:
        wanted = msgspec.json.decode(request.body, type=HoldRequest)
    except msgspec.DecodeError as error:
        raise HttpError(400, f'the body is not {{"pod": …, "pid": …, "who": …}}: {error}') from None
    try:
        made = engine.hold(wanted.pod, wanted.pid, wanted.who)
    except KeyError:
        raise HttpError(404, f"no Pod {wanted.pod} is known") from None
    return messages.json(
        HoldMade(
            id=made.id,
            pod_uid=made.pod_uid,
            pid=made.pid,
            start_time=made.start_time,
            boot_id=made.boot_id,
            who=made.who,
        )
    )


def release(engine: Engine, request: Request, argument: str) -> bytes:
    """Give a hold back."""
    del request
    if not engine.release(argument):
        raise HttpError(404, f"there is no hold {argument}")
    return messages.json(Released(argument))


def drain(engine: Engine, request: Request, argument: str) -> bytes:
    """Take everything down."""
    del argument
    return messages.json(engine.drain(_timeout(request, DRAIN_DEFAULT)))


def adopt(engine: Engine, request: Request, argument: str) -> bytes:
    """Take over a foreign root directory."""
    del request, argument
    return messages.json(Done(engine.adopt()))


def accept(engine: Engine, request: Request, argument: str) -> bytes:
    """Confirm that the manifests directory was moved."""
    del request, argument
    return messages.json(Done(engine.accept_manifests()))


def accept_cluster(engine: Engine, request: Request, argument: str) -> bytes:
    """Confirm that Pods which the API server has not have gone."""
    del request, argument
    return messages.json(Done(engine.accept_cluster()))


def _timeout(request: Request, default: float) -> float:
    text = request.query.get("timeout")
    if text is None:
        return default
    from volmgr.model.duration import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise HttpError(400, f"timeout={text[:20]!r}: {error}") from None
