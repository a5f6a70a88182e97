"""What is over leaves nothing open in the daemon."""

import json
import os
import sys
from pathlib import Path

from tests.live_node import LiveNode
from volmgr.cli.client import Client


def test_released_holds_leave_no_descriptor_open(tmp_path: Path) -> None:
    with LiveNode(Path(sys.executable), tmp_path) as node:
        node.put("held", {"emptyDir": {}})
        node.tell("wait", "held")
        client = Client(str(node.socket))
        before = len(os.listdir(f"/proc/{node.daemon.pid}/fd"))
        for _ in range(50):
            hold = json.loads(client.post("/v1/holds", json.dumps({"pod": "held", "pid": os.getpid()}).encode()))
            client.request("DELETE", f"/v1/holds/{hold['id']}")
            client.get("/healthz")  # the reconciler has heard of it
        assert len(os.listdir(f"/proc/{node.daemon.pid}/fd")) <= before + 5
        client.close()
