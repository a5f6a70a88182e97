"""Plugin registration v1: `api.proto` of k8s.io/kubelet v0.37.2, unchanged, and what `make protos` makes of it."""
