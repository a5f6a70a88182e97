"""The CephFS volume type."""
