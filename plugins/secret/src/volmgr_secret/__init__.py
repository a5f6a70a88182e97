"""The secret volume type."""
