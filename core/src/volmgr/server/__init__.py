"""The HTTP API on a unix socket: what the daemon knows and does, for the command line and for node agents."""
