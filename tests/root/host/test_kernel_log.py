"""The real log of the kernel: what was written before is not read, what programs write is not believed."""

from __future__ import annotations

import select
from pathlib import Path

from volmgr.host.kernel_log import KernelLog


def test_only_what_comes_later_is_read_and_what_a_program_wrote_is_not_believed() -> None:
    log = KernelLog()
    try:
        assert list(log.read()) == []
        Path("/dev/kmsg").write_text("nfs: server 10.0.0.1 not responding, still trying\n")
        assert select.select([log.fileno()], [], [], 10)[0]
        assert list(log.read()) == []
        assert not select.select([log.fileno()], [], [], 0)[0]
    finally:
        log.close()
