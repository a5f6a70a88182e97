"""CSI v1: `csi.proto` of the module container-storage-interface/spec v1.13.0, unchanged, and what is made of it."""
