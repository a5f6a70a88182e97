"""CSI drivers as a volume type of volmgr."""
