"""The driver behind its socket: each call is looked up in the script, done, answered and written down."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.csi.fault_driver.calls import CallLog
from tests.csi.fault_driver.controller import Controller
from tests.csi.fault_driver.identity import Identity
from tests.csi.fault_driver.node import Node
from tests.csi.fault_driver.profile import Profile
from tests.csi.fault_driver.rules import Rule, Script
from tests.csi.fault_driver.volumes import RefusalError, Volumes
from volmgr_csi.v1 import csi_pb2 as csi

Work = Callable[[Any], Message]
CALLS_AT_ONCE = 64


def works_of(profile: Profile, volumes: Volumes) -> Mapping[str, Work]:
    """Give what the driver does, by method; what it is not able to do is left out."""
    identity, controller, node = Identity(profile), Controller(profile, volumes), Node(profile, volumes)
    able: dict[str, Work] = {
        "GetPluginInfo": identity.info,
        "GetPluginCapabilities": identity.capabilities,
        "Probe": identity.probe,
        "NodeGetInfo": node.info,
        "NodeGetCapabilities": node.capabilities,
        "NodePublishVolume": node.publish,
        "NodeUnpublishVolume": node.unpublish,
    }
    by_node: dict[str, dict[str, Work]] = {
        "STAGE_UNSTAGE_VOLUME": {"NodeStageVolume": node.stage, "NodeUnstageVolume": node.unstage},
        "GET_VOLUME_STATS": {"NodeGetVolumeStats": node.stats},
        "EXPAND_VOLUME": {"NodeExpandVolume": node.expand},
    }
    by_controller: dict[str, dict[str, Work]] = {
        "CREATE_DELETE_VOLUME": {"CreateVolume": controller.create, "DeleteVolume": controller.delete},
        "PUBLISH_UNPUBLISH_VOLUME": {
            "ControllerPublishVolume": controller.attach,
            "ControllerUnpublishVolume": controller.detach,
        },
        "LIST_VOLUMES": {"ListVolumes": controller.list},
        "EXPAND_VOLUME": {"ControllerExpandVolume": controller.grow},
        "GET_CAPACITY": {"GetCapacity": controller.capacity},
        "GET_VOLUME": {"ControllerGetVolume": controller.get},
    }
    for name in profile.node:
        able |= by_node.get(name, {})
    for name in profile.controller:
        able |= by_controller.get(name, {})
    if profile.controller:
        able["ControllerGetCapabilities"] = controller.capabilities
        able["ValidateVolumeCapabilities"] = controller.validate
    return able


class Service:
    """What answers the calls of some services of a proto file on one socket."""

    def __init__(self, script: Script, log: CallLog, works: Mapping[str, Work], *, may_crash: bool) -> None:
        self._script = script
        self._log = log
        self._works = works
        self._may_crash = may_crash
        self._one_at_a_time = threading.Lock()

    def served_at(self, socket: Path, services: Mapping[str, Any]) -> grpc.Server:
        """Serve them on a new socket, in the place of what is there; `services` are descriptors."""
        socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE), options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    service.full_name, {method.name: self._handler(method) for method in service.methods}
                )
                for service in services.values()
            )
        )
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        return server

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[Message, Message]:
        path = f"/{method.containing_service.full_name}/{method.name}"

        def answer(request: Message, context: grpc.ServicerContext) -> Message:
            return self._answered(path, method, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=lambda response: response.SerializeToString(),
        )

    def _answered(
        self, path: str, method: MethodDescriptor, request: Message, context: grpc.ServicerContext
    ) -> Message:
        started = time.monotonic()
        rule = self._script.take(method.name, request)
        code, words, answer = grpc.StatusCode.OK, "", GetMessageClass(method.output_type)()
        try:
            self._pause("before", rule.gate_before, rule.delay_before, rule, path, request, started)
            if not rule.skips_work:
                answer = self._worked(method.name, request)
            self._pause("after", rule.gate_after, rule.delay_after, rule, path, request, started)
            if rule.code:
                raise RefusalError(grpc.StatusCode[rule.code], rule.message or f"told to answer {rule.code}")
            ParseDict(dict(rule.answer), answer)
        except RefusalError as refusal:
            code, words = refusal.code, str(refusal)
        except OSError as error:
            code, words = grpc.StatusCode.INTERNAL, str(error)
        self._log.note(path, request, code.name, words, started)
        if code is not grpc.StatusCode.OK:
            context.abort(code, words)
        return answer

    def _worked(self, name: str, request: Message) -> Message:
        if name not in self._works:
            raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not among the driver's capabilities")
        with self._one_at_a_time:
            return self._works[name](request)

    def _pause(
        self, when: str, gate: str, seconds: float, rule: Rule, path: str, request: Message, started: float
    ) -> None:
        self._script.wait_at(gate)
        if seconds:
            time.sleep(seconds)
        if rule.crash == when:
            self._crash(path, request, started)

    def _crash(self, path: str, request: Message, started: float) -> NoReturn:
        assert self._may_crash, "only a driver that is a process can crash"
        self._log.note(path, request, "", "crashed", started)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


def csi_services() -> Mapping[str, Any]:
    """Give the three services of CSI."""
    services = cast("Mapping[str, Any]", csi.DESCRIPTOR.services_by_name)
    return {name: services[name] for name in ("Identity", "Controller", "Node")}
