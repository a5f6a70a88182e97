"""A Pod of the API that is replaced by another UID: a failing disk decides for one of the two, never against both."""

from __future__ import annotations

import pytest

from volmgr.errors import OperationError
from volmgr.testing import FakeHost, Fault, FaultHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

VOLUME: dict[str, object] = {"name": "data", "emptyDir": {}}


@pytest.mark.parametrize("at", range(1, 8))
def test_a_refused_replacement_leaves_the_old_pod_over_a_crash(at: int) -> None:
    host = FakeHost()
    faulty = FaultHost(host)
    node = TestNode(faulty, plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(pod("web", VOLUME, uid="old"))
    file = host.paths.volume("old", EmptyDir.name, "data") / "order"
    host.put(file, b"x")
    done = faulty.verbs.count("files.write")
    faulty.faults = [Fault(done + at, OperationError("no space"), verb="files.write", times=99)]
    try:
        node.apply(pod("web", VOLUME, uid="new"))
    except OperationError:
        stays = {"old"}
    else:
        stays = {"new"}
    node.host = FaultHost(host)
    node.start()
    node.sources_ready()
    node.advance(300)
    assert {uid for uid, entry in node.world.pods.items() if not entry.leaving} == stays
    assert (host.machine.look(file) is not None) == ("old" in stays)
    assert node.is_mounted("web")
