"""A real daemon that is started without a source that it had."""

import os
import sys
from pathlib import Path

from tests.live_node import LiveNode
from volmgr_emptydir.plugin import EmptyDir

MEMORY: dict[str, object] = {"emptyDir": {"medium": "Memory"}}


class WithoutManifests(LiveNode):
    """Has a manifests directory only while `reads` is true."""

    reads = True

    def sources(self) -> tuple[str, ...]:
        """Give the options that say where its Pods come from."""
        return super().sources() if self.reads else ()


def test_a_pod_whose_source_is_read_no_more_stays_is_named_and_is_deleted_on_demand(tmp_path: Path) -> None:
    with WithoutManifests(Path(sys.executable), tmp_path) as node:
        node.put("web", MEMORY)
        node.tell("wait", "web")
        assert "comes from" in node.run("delete", "web").stderr
        node.kill()
        node.reads = False
        node.start()
        assert os.path.ismount(node.volume("web", EmptyDir.name))
        for command in (("status",), ("why", "web")):
            assert "until volmgrd is started with --manifests, or `volmgr delete POD`" in node.tell(*command)
        assert "WRONG source directory: the Pod is of source directory" in node.run("doctor").stdout
        said = node.tell("delete", "web")
        assert said.endswith("deleted: it was of source directory, which this daemon does not read\n")
        node.tell("wait", "web", "--for", "unmounted")
        assert not node.volume("web", EmptyDir.name).exists()
