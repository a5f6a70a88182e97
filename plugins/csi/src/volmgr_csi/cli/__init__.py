"""`volmgr csi`: calls of a driver by its socket, for who develops one. Needs no daemon and touches none."""
