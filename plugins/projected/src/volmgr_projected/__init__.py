"""The projected volume type."""
