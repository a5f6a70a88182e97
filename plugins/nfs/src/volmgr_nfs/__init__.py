"""The NFS volume type."""
