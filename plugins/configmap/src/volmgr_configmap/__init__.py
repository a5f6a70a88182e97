"""The configMap volume type."""
