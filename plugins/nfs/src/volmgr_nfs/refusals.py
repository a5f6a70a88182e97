"""What mount.nfs says when it fails, and what it means for whoever reads it. Pure."""

from __future__ import annotations

from volmgr.plugin import CommandError, OperationError, PluginError, UnansweredError, VolmgrError

_SILENCES = (
    "Connection timed out",
    "Connection refused",
    "No route to host",
    "Host is down",
    "Network is unreachable",
    "Connection reset by peer",
)
_NO_HELPER = ("helper program", "unknown filesystem type")  # of mount(8), which knows whether the kernel has the type
_REMEDIES = (
    ("access denied by server", "the server does not export it to this node: see `exportfs -v` there"),
    ("No such file or directory", "the server has no such export: make it there, or correct nfs.path"),
    ("rpc.statd is not running", "start rpc-statd, or add the mount option nolock if nobody else locks files in it"),
    ("version or transport protocol is not supported", "the server has another version: see mount option vers"),
    ("Protocol not supported", "the server has another version: see mount option vers"),
    ("incorrect mount option", "check the mount options against nfs(5)"),
    ("Invalid argument", "check the mount options against nfs(5)"),
    ("No such device", "this kernel has no client of NFS: install the kernel's package that has the module nfs"),
    ("Failed to resolve server", "correct nfs.server, or see whether this node's name server answers"),
)


def explained(error: CommandError, export: str) -> VolmgrError:
    """Say whose turn it is."""
    said = error.stderr.strip()
    attempt = f"cannot mount {export}"
    if any(word in said for word in _NO_HELPER):
        return PluginError(f"{attempt}: mount.nfs is not installed; install nfs-common (Debian) or nfs-utils (Fedora)")
    if any(word in said for word in _SILENCES):
        return UnansweredError(f"{attempt}: {said}")
    remedy = next((remedy for word, remedy in _REMEDIES if word in said), "")
    return OperationError(f"{attempt}: {said or error}{'; ' if remedy else ''}{remedy}")
