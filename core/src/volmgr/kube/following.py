"""Following one object of an API server: by a watch, or by asking again and again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.kube.attempt import Attempt
from volmgr.kube.intake import Intake
from volmgr.kube.pace import longer
from volmgr.kube.reflector import REFUSED_PAUSE, Reflector
from volmgr.kube.resources import ATTACHMENTS, BY_KIND, CLAIMS
from volmgr.kube.wire import Seen, seen_of
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import CLUSTER_WIDE

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.resources import Resource
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.sources.registry import Registry
    from volmgr.timers import Timer

_SECRET_REMEDY = "; Secrets are kept over a restart only with kubernetes.checkpoint_secrets: true"  # noqa: S105 - a text


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What following an object takes."""

    thread: KubeThread
    api: Api
    settings: KubeSettings
    intake: Intake
    registry: Registry
    jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2)  # noqa: S311 - spreads requests, guards nothing


class _Told:
    """What the registry was told of one object, so that it is told once."""

    def __init__(self, around: Surroundings, ref: ObjectRef) -> None:
        self._around = around
        self._ref = ref
        self._resource = BY_KIND[ref.kind]
        self._known = False
        """What the server showed stands, also that there is none; an outage changes nothing."""

    def is_it(self, seen: Seen) -> bool:
        """Say whether this is the object: what lies before a server may lose the field selector, or mix up answers."""
        return (seen.namespace, seen.name) == (self._ref.namespace, self._ref.name)

    def there(self, seen: Seen) -> None:
        self._around.intake.offer(self._resource, seen)
        self._known = True

    def absent(self) -> None:
        self._around.intake.withdraw(self._resource, self._ref.namespace, self._ref.name)
        self._around.registry.absent_object(self._ref)
        self._known = True

    def outdated(self) -> None:
        self._around.intake.withdraw(self._resource, self._ref.namespace, self._ref.name)
        self._known = False

    def awaited(self, error: ApiError) -> None:
        if not self._known:
            secret = self._ref.kind == "Secret" and error.is_unreachable
            remedy = _SECRET_REMEDY if secret and not self._around.settings.checkpoint_secrets else ""
            self._around.registry.await_object(self._ref, f"{error}{remedy}")


class Watched:
    """One object, by a watch of its own."""

    def __init__(self, around: Surroundings, ref: ObjectRef) -> None:
        self._told = _Told(around, ref)
        resource = BY_KIND[ref.kind]
        self._reflector = Reflector(
            around.thread,
            around.api,
            resource,
            self,
            around.settings,
            namespace="" if ref.kind in CLUSTER_WIDE else ref.namespace,
            field_selector=f"metadata.name={ref.name}",
        )

    def start(self) -> None:
        """Begin to follow it."""
        self._reflector.start()

    def stop(self) -> None:
        """Follow it no longer."""
        self._reflector.stop()

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take it as it is, or that there is none."""
        found = [each for each in seen if self._told.is_it(each)]
        for each in found:
            self._told.there(each)
        if not found:
            self._told.absent()

    def changed(self, seen: Seen) -> None:
        """Take it as it is now."""
        if self._told.is_it(seen):
            self._told.there(seen)

    def gone(self, seen: Seen) -> None:
        """Take note that it was deleted."""
        if self._told.is_it(seen):
            self._told.absent()

    def troubled(self, error: ApiError | None) -> None:
        """Say why it is not known."""
        if error is not None:
            self._told.awaited(error)


class Asked:
    """One object, by GET: again and again while a Pod waits for what it will say, else when it counts as old."""

    def __init__(self, around: Surroundings, ref: ObjectRef) -> None:
        self._around = around
        self._told = _Told(around, ref)
        self._resource = BY_KIND[ref.kind]
        self._path = self._resource.path(ref.namespace, ref.name)
        self._pause = 0.0
        self._timer: Timer | None = None
        self._stopped = False
        self._asked = 0
        """How often it was asked for: only the last answer counts."""
        self._settled = ""
        """The version that nobody waits to see changed: what is not older will do, which the server has in memory."""

    def start(self) -> None:
        """Begin to follow it."""
        self._ask()

    def renew(self) -> None:
        """Ask for it now, and let what was read before stand no longer: that may be of another one of its name."""
        if self._timer is not None:
            self._timer.cancel()
        self._told.outdated()
        self._settled = ""
        self._pause = 0.0
        self._ask()

    def stop(self) -> None:
        """Follow it no longer."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _ask(self) -> None:
        self._timer = None
        self._asked += 1
        number = self._asked
        query = {"resourceVersion": self._settled} if self._settled else {}
        self._around.thread.ask(
            lambda: self._get(query),
            lambda answer: self._take(answer, number),
            lambda error: self._refused(error, number),
            self._resource.plural,
        )

    def _get(self, query: Mapping[str, str]) -> tuple[Seen, bool]:
        """Give the object, and whether it is settled."""
        raw = self._around.api.get(self._path, query)
        try:
            seen = seen_of(raw)
            if not self._told.is_it(seen):
                raise ValueError(f"it is {seen.namespace}/{seen.name}")
            return seen, is_settled(self._resource, raw)
        except ValueError as error:
            attempt = Attempt("get", self._path, self._around.api.address, "")
            raise attempt.failed(f"the server sent what is no {self._resource.kind}: {error}") from error

    def _take(self, answer: tuple[Seen, bool], number: int) -> None:
        if self._stopped or number != self._asked:
            return
        seen, settled = answer
        self._settled = seen.version if settled else ""
        self._told.there(seen)
        if settled:
            self._pause = 0.0
            self._again(self._around.settings.object_lifetime)
        else:
            self._again_after_pause(self._around.settings.await_initial)

    def _refused(self, error: ApiError, number: int) -> None:
        if self._stopped or number != self._asked:
            return
        self._settled = ""  # versions go back when a backup was restored
        if error.is_missing:
            self._told.absent()
        else:
            self._told.awaited(error)
        first = REFUSED_PAUSE if error.is_refused else self._around.settings.await_initial
        self._again_after_pause(first, error.retry_after)

    def _again_after_pause(self, first: float, least: float = 0.0) -> None:
        self._pause = longer(self._pause, first, self._around.settings.await_max)
        self._again(self._pause, least)

    def _again(self, seconds: float, least: float = 0.0) -> None:
        self._timer = self._around.thread.later(max(least, seconds * self._around.jitter()), self._ask)


Following = Watched | Asked


class _Claim(msgspec.Struct):
    class Spec(msgspec.Struct):
        volumeName: str = ""  # noqa: N815 - as on the wire

    class Status(msgspec.Struct):
        phase: str = ""

    spec: Spec
    status: Status = msgspec.field(default_factory=Status)


class _Attachment(msgspec.Struct):
    class Status(msgspec.Struct):
        attached: bool = False

    status: Status = msgspec.field(default_factory=Status)


def is_settled(resource: Resource, raw: bytes) -> bool:
    """Say whether an object says already what a Pod waits for: a claim its volume, an attachment that it is made."""
    if resource is CLAIMS:
        claim = msgspec.json.decode(raw, type=_Claim)
        return bool(claim.spec.volumeName) and claim.status.phase == "Bound"
    if resource is ATTACHMENTS:
        return msgspec.json.decode(raw, type=_Attachment).status.attached
    return True
