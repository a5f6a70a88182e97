"""CRI v1: `api.proto` of the Go module k8s.io/cri-api v0.37.2, unchanged, and what `make protos` generates from it."""
