"""gRPC, whose own log is for who debugs it: what it says of a driver that ends is no error of the daemon's."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read once, when it is imported

import grpc

__all__ = ["grpc"]
