"""A runtime that says what a test lets it: CRI on a unix socket, with events or without, before a real one or alone."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from plugins.cri.tests.client import Client

from volmgr_cri.runtime import method
from volmgr_cri.v1 import api_pb2 as cri

STOPPED = cri.CONTAINER_STOPPED_EVENT


class RuntimeServer(grpc.GenericRpcHandler):
    """Serves lists, of its own or of the runtime behind it, and events if it has them."""

    def __init__(self, socket: Path, *, events: bool, behind: Client | None = None) -> None:
        self.socket = socket
        self.endpoint = f"unix://{socket}"
        self.sandboxes: list[cri.PodSandbox] = []
        self.containers: list[cri.Container] = []
        self.subscribed = threading.Semaphore(0)
        """Released by each subscription to events."""
        self.unsubscribed = threading.Semaphore(0)
        """Released by each end of one."""
        self.asked = 0
        """How often containers were listed."""
        self.goes_on = threading.Event()
        """Cleared: it hangs when it is asked for containers."""
        self.goes_on.set()
        self._behind = behind
        self._has_events = events
        self._subscriptions: list[queue.Queue[cri.ContainerEventResponse | None]] = []
        self.start()

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.stop()

    def start(self) -> None:
        """Serve."""
        self._threads = ThreadPoolExecutor(8)
        self._server = grpc.server(self._threads, handlers=[self])
        self._server.add_insecure_port(self.endpoint)
        self._server.start()

    def stop(self) -> None:
        """Serve no more, and end each subscription."""
        self._server.stop(0).wait()  # subscriptions end as their calls do
        self._threads.shutdown()

    def send(self, kind: cri.ContainerEventType = STOPPED, uid: str = "") -> None:
        """Let one event happen, in a Pod or in one that is not named; who has not subscribed does not hear of it."""
        event = cri.ContainerEventResponse(container_id="c", container_event_type=kind)
        event.pod_sandbox_status.metadata.uid = uid
        for subscription in tuple(self._subscriptions):
            subscription.put(event)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Find who serves a method; none: it is unimplemented."""
        answers: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {
            method("Version"): self._version,
            method("ListPodSandbox"): self._list_sandboxes,
            method("ListContainers"): self._list_containers,
        }
        name = handler_call_details.method
        if name == method("GetContainerEvents") and self._has_events:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(answers[name]) if name in answers else None

    def _version(self, _request: bytes, _context: grpc.ServicerContext) -> bytes:
        return cri.VersionResponse(runtime_name="testd").SerializeToString()

    def _list_sandboxes(self, request: bytes, _context: grpc.ServicerContext) -> bytes:
        asked = cri.ListPodSandboxRequest.FromString(request)
        if self._behind is not None:
            return self._behind.ask("ListPodSandbox", asked, cri.ListPodSandboxResponse).SerializeToString()
        return cri.ListPodSandboxResponse(items=self.sandboxes).SerializeToString()

    def _list_containers(self, request: bytes, _context: grpc.ServicerContext) -> bytes:
        self.asked += 1
        self.goes_on.wait()
        asked = cri.ListContainersRequest.FromString(request)
        if self._behind is not None:
            return self._behind.ask("ListContainers", asked, cri.ListContainersResponse).SerializeToString()
        found = [
            each
            for each in self.containers
            if asked.filter.pod_sandbox_id in {"", each.pod_sandbox_id}
            and asked.filter.label_selector.items() <= each.labels.items()
        ]
        return cri.ListContainersResponse(containers=found).SerializeToString()

    def _stream(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        events: queue.Queue[cri.ContainerEventResponse | None] = queue.Queue()
        context.add_callback(lambda: events.put(None))
        self._subscriptions.append(events)
        self.subscribed.release()
        while (event := events.get()) is not None:
            yield event.SerializeToString()
        self._subscriptions.remove(events)
        self.unsubscribed.release()
