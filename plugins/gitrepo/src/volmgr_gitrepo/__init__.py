"""The gitRepo volume type."""
