"""The iSCSI volume type."""
