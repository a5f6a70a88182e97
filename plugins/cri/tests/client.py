"""What the tests ask of a real runtime: Pods and containers, by CRI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from volmgr_cri.containers import POD_UID_LABEL
from volmgr_cri.runtime import method
from volmgr_cri.v1 import api_pb2 as cri

TIMEOUT = 60.0
_Answer = TypeVar("_Answer", bound=Message)


class Client:
    """One connection to a runtime."""

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)])

    def close(self) -> None:
        """End it."""
        self._channel.close()

    def ask(self, name: str, request: Message, answer: type[_Answer], service: str = "RuntimeService") -> _Answer:
        """Call one method."""
        call = self._channel.unary_unary(
            method(name).replace("RuntimeService", service),
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=TIMEOUT, wait_for_ready=True)

    def has_image(self, image: str) -> bool:
        """Say whether the runtime knows an image."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
        return bool(self.ask("ImageStatus", request, cri.ImageStatusResponse, "ImageService").image.id)

    def run_sandbox(self, name: str, uid: str, labels: Mapping[str, str]) -> tuple[str, cri.PodSandboxConfig]:
        """Start the sandbox of a Pod."""
        node = cri.NamespaceOption(network=cri.NODE)
        context = cri.LinuxSandboxSecurityContext(namespace_options=node)
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace="default"),
            labels=dict(labels),
            linux=cri.LinuxPodSandboxConfig(security_context=context),
        )
        request = cri.RunPodSandboxRequest(config=config)
        return self.ask("RunPodSandbox", request, cri.RunPodSandboxResponse).pod_sandbox_id, config

    def create(
        self, sandbox: tuple[str, cri.PodSandboxConfig], name: str, image: str, volume: Path, *command: str
    ) -> str:
        """Create a container with a volume at /v."""
        pod_sandbox_id, sandbox_config = sandbox
        context = cri.LinuxContainerSecurityContext(namespace_options=cri.NamespaceOption(network=cri.NODE))
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=image),
            command=command,
            labels=dict(sandbox_config.labels),
            mounts=[cri.Mount(container_path="/v", host_path=str(volume))],
            linux=cri.LinuxContainerConfig(security_context=context),
        )
        request = cri.CreateContainerRequest(
            pod_sandbox_id=pod_sandbox_id, config=config, sandbox_config=sandbox_config
        )
        return self.ask("CreateContainer", request, cri.CreateContainerResponse).container_id

    def start(self, container: str) -> None:
        """Start a container."""
        self.ask("StartContainer", cri.StartContainerRequest(container_id=container), cri.StartContainerResponse)

    def stop(self, container: str) -> None:
        """Kill a container; returns when the runtime knows that it ended."""
        self.ask("StopContainer", cri.StopContainerRequest(container_id=container), cri.StopContainerResponse)

    def remove(self, container: str) -> None:
        """Remove a container."""
        self.ask("RemoveContainer", cri.RemoveContainerRequest(container_id=container), cri.RemoveContainerResponse)

    def remove_all(self) -> None:
        """Stop and remove every sandbox."""
        for sandbox in self.ask("ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse).items:
            self.ask("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), cri.StopPodSandboxResponse)
            gone = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id)
            self.ask("RemovePodSandbox", gone, cri.RemovePodSandboxResponse)


def labelled(uid: str) -> dict[str, str]:
    """Give the labels of a Pod's sandbox and containers."""
    return {POD_UID_LABEL: uid}
