"""Claims whose names and lives are arranged to take another Pod's volume."""

from typing import Any

import pytest

from tests.flow.core.test_claims import HERE
from tests.unit.sources.claim_bench import asking, pv
from volmgr.errors import OperationError
from volmgr.report.claims import check_unused, claims_report
from volmgr.testing import FakeHost
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_hostpath.plugin import HostPath


def ephemeral(name: str) -> dict[str, Any]:
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": asking()}}}


@pytest.mark.parametrize(("first", "second"), [("aaa", "zzz"), ("zzz", "aaa")])
def test_a_pod_whose_claim_has_the_name_of_another_pods_takes_nothing_from_it_at_a_restart(
    first: str, second: str
) -> None:
    node = TestNode(FakeHost(), plugins_of(HostPath()), sources=("api", FILES))
    node.sources_ready()
    node.put_file("pv.yaml", pv("v", **HERE))
    node.put_file("first.yaml", pod("a-b", ephemeral("c"), uid=first))
    node.put_file("second.yaml", pod("a", ephemeral("b-c"), uid=second))
    for _ in range(2):
        assert [node.is_mounted(name) for name in ("a-b", "a")] == [True, False]
        assert [(each.phase, each.pods) for each in claims_report(node.world).volumes] == [("Bound", ("default/a-b",))]
        node.start()
        node.sources_ready()
    node.put_file("pv.yaml", pv("v", **HERE), pv("w", **HERE))
    node.remove_file("first.yaml")
    assert node.is_mounted("a")
    assert [each.phase for each in claims_report(node.world).volumes] == ["Released", "Bound"]


def test_a_volume_is_not_released_before_it_is_known_whether_it_is_mounted() -> None:
    node = TestNode(FakeHost(), plugins_of(HostPath()), sources=("api", FILES))
    with pytest.raises(OperationError, match="what is mounted is looked for yet"):
        check_unused(node.world, "v")
    node.sources_ready()
    check_unused(node.world, "v")
