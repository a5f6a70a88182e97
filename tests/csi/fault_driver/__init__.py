"""A CSI driver whose every answer a test decides: see `running`."""
