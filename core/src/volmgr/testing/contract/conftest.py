"""Each promise is tested for each sample of the chosen type, on hosts of the chosen kind (see `pytest_options`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from volmgr.host.interface import Host
from volmgr.plugin import VolumePlugin
from volmgr.testing.contract.subject import (
    NoSubjectError,
    Samples,
    Subject,
    contract_module,
    find_plugin,
    find_samples,
    sample_of,
)
from volmgr.testing.fake_host import FakeHost
from volmgr.testing.real_host import RealHosts

pytest.register_assert_rewrite("volmgr.testing.contract.attempts")  # so that its failures show what differs

Machine = Callable[[], tuple[Host, Path]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each promise for each sample of the type."""
    if "sample" not in metafunc.fixturenames:
        return
    key = metafunc.config.getoption("--volmgr-plugin")
    if not key:
        message = "say which volume type is tested: --volmgr-plugin KEY"
        raise pytest.Collector.CollectError(message)
    try:
        plugin = find_plugin(key)
        offer_backend(metafunc.config, plugin)
        samples = find_samples(plugin)
        names = [str(sample_of(sample)) for sample in samples(Path("TOP"))]
    except NoSubjectError as error:
        raise pytest.Collector.CollectError(str(error)) from error
    metafunc.parametrize("sample", [(key, index) for index in range(len(names))], ids=names)


def offer_backend(config: pytest.Config, plugin: type[VolumePlugin[Any]]) -> None:
    """Let the module that offers samples define fixtures, too: `volmgr_backend` above all."""
    module = contract_module(plugin)
    if module is not None and not config.pluginmanager.is_registered(module):
        config.pluginmanager.register(module)


@pytest.fixture(scope="session")
def real_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    """Give hosts of this machine, in a mount namespace of their own."""
    if os.geteuid() != 0:
        pytest.exit("--volmgr-host real mounts on this machine's kernel: run it as root", returncode=4)
    with RealHosts(tmp_path_factory.mktemp("volmgr")) as hosts:
        yield hosts


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Give fresh hosts of the chosen kind."""
    if request.config.getoption("--volmgr-host") == "real":
        hosts: RealHosts = request.getfixturevalue("real_hosts")
        yield hosts.fresh
        hosts.clear()
    else:
        yield fake_machine


def fake_machine() -> tuple[Host, Path]:
    """Give a fresh host in memory, and a directory outside its root."""
    host, top = FakeHost(), Path("/srv/contract")
    host.mkdir(top)
    return host, top


@pytest.fixture
def subject(sample: tuple[str, int], machine: Machine, volmgr_backend: object) -> Subject:
    """Give the type under test with one of its samples."""
    key, index = sample
    plugin = find_plugin(key)
    samples: Samples = find_samples(plugin)
    return Subject(plugin, machine, samples, index, volmgr_backend)
