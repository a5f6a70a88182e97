"""volmgr: the volume manager of a node, as a framework whose volume types are installed separately."""

__version__ = "0.1.0"

ROOT = "/var/lib/volmgr"
"""Where volumes and records live when nobody says otherwise."""
SOCKET = "/run/volmgr/volmgr.sock"
"""Where the daemon listens when nobody says otherwise, and where the command line looks for it."""
