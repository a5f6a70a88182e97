"""The local volume type."""
