"""For tests of volmgr and of volume types: a host in memory, a host that fails on demand, and the contract suite.

`FakeHost` is a whole machine in memory; `FaultHost` wraps any host and fails or kills at a chosen call.
`pytest --pyargs volmgr.testing.contract --volmgr-plugin NAME` holds a volume type to its promises.
"""

from volmgr.testing.disks import Disk, Node
from volmgr.testing.fake_host import FakeHost
from volmgr.testing.fake_scsi import Lun
from volmgr.testing.fault_host import Call, Fault, FaultHost, Killed, When
from volmgr.testing.machine import Machine
from volmgr.testing.volume import Sample, Volume, pod

__all__ = [
    "Call",
    "Disk",
    "FakeHost",
    "Fault",
    "FaultHost",
    "Killed",
    "Lun",
    "Machine",
    "Node",
    "Sample",
    "Volume",
    "When",
    "pod",
]
