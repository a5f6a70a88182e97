"""The hostPath volume type."""
