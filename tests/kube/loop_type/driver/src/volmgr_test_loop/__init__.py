"""loop: image files of a node as disks, a driver of `csi` that is a Python class."""
