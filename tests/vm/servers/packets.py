"""Packets that a network swallows: the server is there, nobody hears from it, and nothing is refused."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tests.vm.servers.guest import tell

TABLE = "volmgr_swallowed"


@contextmanager
def swallowed(address: str, port: int) -> Generator[None]:
    """Drop, as long as the block lasts, each packet to and from a TCP port of an address (IPv4) of the guest."""
    table = f"{TABLE}_{address.replace('.', '_')}_{port}"
    tell(
        "nft",
        "-f",
        "-",
        text=f"table ip {table} {{\n"
        "  chain input {\n"
        "    type filter hook input priority 0;\n"
        f"    ip daddr {address} tcp dport {port} drop\n"
        f"    ip saddr {address} tcp sport {port} drop\n"
        "  }\n"
        "}\n",
    )
    try:
        yield
    finally:
        tell("nft", "delete", "table", "ip", table)
