"""volmgr: the volume manager of a node, as a framework whose volume types are installed separately."""

__version__ = "0.1.0"
