"""The downwardAPI volume type."""
