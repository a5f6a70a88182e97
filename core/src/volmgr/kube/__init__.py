"""Kubernetes mode: the Pods of one node from a real API server, and what a node tells it.

Imported by the daemon in that mode only: the extra `volmgr[kube]` brings what it needs.
"""
