"""Mount options of NFS: which are refused, and what they say of the server's port. Pure.

Source: nfs(5), and `utils/mount` of nfs-utils.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from volmgr.plugin import SpecError, read_only_options, split_options

PORT = 2049
"""Where a server of version 4 listens, and one of version 3 by custom (RFC 7530)."""

_REFUSED = {
    "bg": "mount(8) would go on in the background, where nobody sees what becomes of it: leave it out, a failed mount"
    " is tried again anyway",
    "bind": "it is for directories of this node: use hostPath or local",
    "rbind": "it is for directories of this node: use hostPath or local",
    "remount": "a volume is mounted anew when its options change: leave it out",
}
_OLD = frozenset({"2", "3"})
_ASKS_RPCBIND = frozenset({"mounthost", "mountport", "mountproto", "mountvers", "mountaddr"})
_TCP = frozenset({"tcp", "tcp6"})


def mount_options(given: Iterable[str], *, read_only: bool) -> tuple[str, ...]:
    """Give the options of a mount: sorted, each once, as kubelet gives them; raises SpecError for what cannot be.

    Without `retry` mount.nfs would try again for two minutes and say nothing; who waits is told, and tries again, here.
    """
    options = set(read_only_options(given) if read_only else split_options(given))
    for option in sorted(options & _REFUSED.keys()):
        raise SpecError(f"mount option {option} is refused: {_REFUSED[option]}")
    if not any(option.startswith("retry=") for option in options):
        options.add("retry=0")
    return tuple(sorted(options))


def port_to_ask(given: Iterable[str]) -> int:
    """Give the TCP port that answers if the server does; 0 where only mount.nfs can find out."""
    words = {name: value for name, _, value in (option.partition("=") for option in split_options(given))}
    if not _is_tcp(words):
        return 0
    if words.get("port", "0") != "0":
        return int(words["port"]) if words["port"].isdecimal() and int(words["port"]) <= 0xFFFF else 0  # noqa: PLR2004
    return 0 if _is_old(words) else PORT


def _is_tcp(words: Mapping[str, str]) -> bool:
    return not {"udp", "rdma"} & words.keys() and words.get("proto", "tcp") in _TCP


def _is_old(words: Mapping[str, str]) -> bool:
    """Say whether version 3 is asked for, whose port rpcbind knows."""
    version = words.get("vers", words.get("nfsvers", ""))
    return version in _OLD or "v3" in words or bool(_ASKS_RPCBIND & words.keys())
