"""What people are told of a volume whose growth fails: it is mounted, and smaller than its claim asks for."""

from __future__ import annotations

import json

from tests.flow.core.probes import Script, claim_of, storage
from volmgr.errors import OperationError
from volmgr.report.claims import claims_report
from volmgr.report.pods import status
from volmgr.testing.node import TestNode, pod

GIB = 1 << 30


def test_a_pod_whose_volume_cannot_grow_is_mounted_and_its_claim_says_what_is_there(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("volume.yaml", *storage("d1", size="1Gi"))
    node.put_file("web.yaml", pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web")
    disk_script.fail("expand", *[OperationError("the disk is stiff")] * 100)
    larger = json.loads(json.dumps(storage("d1", size="2Gi")))
    node.put_file("volume.yaml", *larger)
    assert disk_script.count("expand") > 0
    (summary,) = status(node.world).pods
    assert (summary.state, node.is_mounted("web")) == ("mounted", True)
    assert "expand failed once" in summary.reason
    (claim,) = claims_report(node.world).claims
    assert claim.reason == f"its node has {GIB} bytes of it, not {2 * GIB} yet: the disk is stiff"
    disk_script.plans.clear()
    node.advance(10)
    (claim,), (summary,) = claims_report(node.world).claims, status(node.world).pods
    assert (claim.reason, summary.reason) == ("", "")
