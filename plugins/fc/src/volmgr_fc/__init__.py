"""The Fibre Channel volume type."""
