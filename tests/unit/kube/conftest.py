"""What tests of Kubernetes mode's transport share: certificates, a server, a kubeconfig for it, and the thread."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.kube.recording import Clock, Kubeconfigs
from tests.unit.kube.scripted_server import Certificates, ScriptedServer
from volmgr.kube.thread import KubeThread


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made_in(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(certificates: Certificates) -> Generator[ScriptedServer]:
    with ScriptedServer(certificates) as running:
        yield running


@pytest.fixture
def kubeconfigs(tmp_path: Path, certificates: Certificates) -> Kubeconfigs:
    return Kubeconfigs(tmp_path, certificates)


@pytest.fixture
def thread() -> Generator[KubeThread]:
    running = KubeThread(requests=6)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clocked(clock: Clock) -> Generator[KubeThread]:
    """The thread, whose time passes only where the test lets it."""
    running = KubeThread(requests=2, clock=clock)
    running.start()
    yield running
    running.stop()
