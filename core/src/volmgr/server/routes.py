"""The API's paths: which function answers what, and what becomes of an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, PluginError, SpecError, VolmgrError
from volmgr.server import endpoints, messages
from volmgr.server.messages import HttpError, Request
from volmgr.server.stream import EventStream, follow_events

if TYPE_CHECKING:
    from volmgr.server.engine import Engine

log = logging.getLogger(__name__)

Answer = bytes | EventStream


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path; `{pod}`, `{claim}`, `{volume}` and `{id}` stand for a part that differs."""

    method: str
    path: str
    answer: Callable[[Engine, Request, str], Answer]
    about: str


@dataclass(frozen=True, slots=True)
class Paths:
    """What `GET /` says."""

    paths: tuple[PathReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReport:
    """One method on one path."""

    method: str
    path: str
    about: str


def _index(engine: Engine, request: Request, argument: str) -> bytes:
    del engine, request, argument
    paths = tuple(PathReport(method=route.method, path=route.path, about=route.about) for route in ROUTES)
    return messages.json(Paths(paths))


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", _index, "the paths of this API"),
    Route("GET", "/healthz", endpoints.healthz, "200 while the daemon works"),
    Route("GET", "/readyz", endpoints.readyz, "200 once every source was read and reconstruction is done, else 503"),
    Route("GET", "/metrics", endpoints.metrics, "metrics in Prometheus' text format"),
    Route("GET", "/v1/pods", endpoints.pods, "all Pods, each in short"),
    Route("POST", "/v1/pods", endpoints.apply, "accept the Pods of a YAML or JSON body"),
    Route("GET", "/v1/pods/{pod}", endpoints.pod, "one Pod with its volumes"),
    Route("DELETE", "/v1/pods/{pod}", endpoints.delete, "let a Pod of the API leave"),
    Route("GET", "/v1/pods/{pod}/why", endpoints.why_pod, "what is wrong with a Pod's volumes"),
    Route("GET", "/v1/pods/{pod}/wait", endpoints.wait, "answer when ?for=mounted|unmounted is so, within ?timeout="),
    Route("POST", "/v1/pods/{pod}/mounts", endpoints.mounts, "bind subPaths, and say what containers are given"),
    Route("GET", "/v1/claims", endpoints.claims, "claims and PersistentVolumes, and which belongs to which"),
    Route(
        "DELETE", "/v1/claims/{claim}", endpoints.delete_claimed, "with ?data=true: delete the volume of a gone claim"
    ),
    Route(
        "DELETE", "/v1/volumes/{volume}", endpoints.delete_volume, "with ?data=true: delete a volume without a claim"
    ),
    Route("POST", "/v1/volumes/{volume}/release", endpoints.release_volume, "let another claim have a volume"),
    Route("GET", "/v1/plan", endpoints.plan, "what would be done now, in order"),
    Route("GET", "/v1/plugins", endpoints.plugins, "the installed volume types"),
    Route("POST", "/v1/plugins/reload", endpoints.reload, "use the packages that are installed now"),
    Route("GET", "/v1/orphans", endpoints.orphans, "what is there without a Pod or a claim, and why"),
    Route("GET", "/v1/doctor", endpoints.doctor, "what the daemon finds wrong with the node"),
    Route("GET", "/v1/events", follow_events, "events, one JSON object a line; ?after=NUMBER, ?follow=true"),
    Route("POST", "/v1/holds", endpoints.hold, "keep a Pod's volumes while a process lives"),
    Route("DELETE", "/v1/holds/{id}", endpoints.release, "give a hold back"),
    Route("POST", "/v1/drain", endpoints.drain, "take everything down, within ?timeout="),
    Route("POST", "/v1/adopt", endpoints.adopt, "take over a root directory that somebody else filled"),
    Route("POST", "/v1/manifests/accept", endpoints.accept, "confirm that the manifests directory was moved"),
    Route("POST", "/v1/cluster/accept", endpoints.accept_cluster, "confirm that the API server is the right one"),
)

_BY_SHAPE: dict[tuple[str, ...], dict[str, Route]] = {}
for _route in ROUTES:
    _shape = tuple(part for part in _route.path.strip("/").split("/") if part)
    _BY_SHAPE.setdefault(_shape, {})[_route.method] = _route

_PROBLEMS: tuple[tuple[type[VolmgrError], int, str], ...] = (
    (SpecError, 422, "urn:volmgr:spec"),
    (OperationError, 409, "urn:volmgr:refused"),
    (PluginError, 409, "urn:volmgr:refused"),
    (VolmgrError, 503, "urn:volmgr:unfinished"),
)
"""Which status an error of ours becomes: the first class that fits."""

_OF_PODS = frozenset({"why", "wait", "mounts"})
_POD_DEPTH = 3
"""Parts of the shortest path that names a Pod."""


def _shape_of(path: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Give a path with its variable part replaced, and that part; a Pod may take two parts, or one with `%2F`."""
    if path[:2] == ("v1", "pods") and len(path) >= _POD_DEPTH:
        rest = path[2:]
        if len(rest) > 1 and rest[-1] in _OF_PODS:
            return ("v1", "pods", "{pod}", rest[-1]), "/".join(rest[:-1])
        return ("v1", "pods", "{pod}"), "/".join(rest)
    if path[:2] == ("v1", "holds") and len(path) == _POD_DEPTH:
        return ("v1", "holds", "{id}"), path[2]
    if path[:2] == ("v1", "volumes") and path[3:] == ("release",):
        return ("v1", "volumes", "{volume}", "release"), path[2]
    if path[:2] == ("v1", "volumes") and len(path) == _POD_DEPTH:
        return ("v1", "volumes", "{volume}"), path[2]
    if path[:2] == ("v1", "claims") and len(path) >= _POD_DEPTH:
        return ("v1", "claims", "{claim}"), "/".join(path[2:])
    return path, ""


def respond(engine: Engine, request: Request) -> Answer:
    """Answer a request; an error becomes a problem, one that nobody raises on purpose is logged."""
    shape, argument = _shape_of(request.path)
    routes = _BY_SHAPE.get(shape)
    if routes is None:
        return messages.problem(404, f"there is no {request.raw}; GET / lists the paths")
    route = routes.get(request.method)
    if route is None:
        return messages.problem(405, f"{request.raw} takes {' and '.join(sorted(routes))}, not {request.method}")
    try:
        return route.answer(engine, request, argument)
    except Exception as error:  # noqa: BLE001 - whatever it is, this client is told and the others are served
        return _problem_of(error, request, argument)


def _problem_of(error: Exception, request: Request, argument: str) -> bytes:
    if isinstance(error, HttpError):
        return messages.problem(error.status, error.detail, close=error.fatal)
    if isinstance(error, KeyError):
        return messages.problem(404, f"no Pod {argument} is known", "urn:volmgr:unknown-pod")
    if isinstance(error, TimeoutError):
        return messages.problem(503, "the daemon is too busy to answer in time; try again", "urn:volmgr:busy")
    for cls, status, kind in _PROBLEMS:
        if isinstance(error, cls):
            return messages.problem(status, str(error), kind)
    log.error("bug: %s %s", request.method, request.raw, exc_info=error)
    return messages.problem(500, f"bug in volmgrd, see its log: {type(error).__name__}")
