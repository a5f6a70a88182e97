"""The emptyDir volume type."""
