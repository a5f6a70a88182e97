"""One connection to a container runtime: CRI v1 on its unix socket. Imports grpc: imported when a Pod is asked about.

An open channel of grpc wakes 18 times a second and has six threads, a closed one has none: none stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol, TypeVar

import grpc

from volmgr_cri.containers import POD_UID_LABEL, is_of
from volmgr_cri.v1 import api_pb2 as cri

RuntimeSilent = grpc.RpcError
"""The runtime did not answer, or refused to."""

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one message: kubelet's maxMsgSize."""

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits as long as one that failed before it
)


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's


_Answer = TypeVar("_Answer")


def method(name: str) -> str:
    """Give the path of a method of CRI's RuntimeService."""
    return f"/runtime.v1.RuntimeService/{name}"


def why_silent(error: grpc.RpcError) -> str:
    """Say in one line what came instead of an answer."""
    call: object = error  # grpc raises what is both, which its types do not say
    if not isinstance(call, grpc.Call):
        return type(error).__name__
    return f"{call.code().name.lower().replace('_', ' ')}: {' '.join((call.details() or '').split())}"


def has_expired(error: grpc.RpcError) -> bool:
    """Say whether a request ended since its time is over."""
    call: object = error
    return isinstance(call, grpc.Call) and call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


class Runtime:
    """A connection; each call raises RuntimeSilent after `timeout` seconds at the latest."""

    def __init__(self, endpoint: str, timeout: float) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)
        self._timeout = timeout

    def close(self) -> None:
        """End it, and what is being asked."""
        self._channel.close()

    def name(self) -> str:
        """Give the runtime's name for itself."""
        return self._ask("Version", cri.VersionRequest(), cri.VersionResponse.FromString).runtime_name

    def containers_of(self, pod_uid: str) -> list[cri.Container]:
        """List the containers of a Pod: those with its label, and those in a sandbox that is the Pod's."""
        sandboxes = self._ask("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse.FromString)
        filters = [
            cri.ContainerFilter(label_selector={POD_UID_LABEL: pod_uid}),
            *(cri.ContainerFilter(pod_sandbox_id=each.id) for each in sandboxes.items if is_of(each, pod_uid)),
        ]
        return [container for each in filters for container in self._list(each)]

    def _list(self, which: cri.ContainerFilter) -> Iterator[cri.Container]:
        request = cri.ListContainersRequest(filter=which)
        yield from self._ask("ListContainers", request, cri.ListContainersResponse.FromString).containers

    def _ask(self, name: str, request: _Message, read: Callable[[bytes], _Answer]) -> _Answer:
        call = self._channel.unary_unary(
            method(name), request_serializer=type(request).SerializeToString, response_deserializer=read
        )
        return call(request, timeout=self._timeout)

    def events(self, lifetime: float) -> Iterator[cri.ContainerEventResponse]:
        """Subscribe to what happens to containers, for `lifetime` seconds; iterating raises RuntimeSilent at its end.

        No answer says that it began: see `settle`.
        """
        call = self._channel.unary_stream(
            method("GetContainerEvents"),
            request_serializer=cri.GetEventsRequest.SerializeToString,
            response_deserializer=cri.ContainerEventResponse.FromString,
        )
        return iter(call(cri.GetEventsRequest(), timeout=lifetime))

    def settle(self) -> None:
        """Return when the runtime knows what was subscribed to: it has answered a later request on this connection."""
        with suppress(RuntimeSilent, ValueError):  # the subscription was refused, and the connection closed with it
            self.name()
