"""A server that does not answer, below many Pods' host paths: whoever does not use it is mounted at once."""

import sys
from pathlib import Path

from tests.live_node import LiveNode
from tests.root.host.fuse import SilentFuse
from volmgr.host import syscalls

MANY = 40


def test_many_pods_on_a_dead_server_keep_no_other_pod_waiting(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    hanging.mkdir()
    with LiveNode(Path(sys.executable), tmp_path) as node:
        try:
            with SilentFuse(hanging) as server:
                server.serve_until_asked()
                for number in range(MANY):
                    path = {"path": str(hanging / "x"), "type": "DirectoryOrCreate"}
                    node.put(f"hanging-{number}", {"hostPath": path})
                assert server.asked()
                node.put("other", {"emptyDir": {}})
                node.put("path", {"hostPath": {"path": str(tmp_path), "type": "Directory"}})
                for name in ("other", "path"):
                    node.tell("wait", name)
                assert "hanging-0" in node.run("status").stdout
        finally:
            syscalls.umount(str(hanging), syscalls.UMOUNT_DETACH)
