"""A user's key: where it comes from, and the private place where a client finds it while it mounts.

It is in no command line, no mount option and no file but one of a tmpfs, which only root may enter, which is never
swapped where the kernel can do that, and which is gone when the mount is made or has failed. A daemon that is killed
in between leaves it behind until the volume is mounted or unmounted the next time: one of both is the first that is
done for the volume.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from volmgr.plugin import (
    Host,
    Mount,
    OperationError,
    Secret,
    UncertainError,
    VolmgrError,
    needed_object,
    uncertain_if_it_fails,
)
from volmgr_cephfs.source import CephFsSource, secret_ref

_OPTIONS = ("mode=0700", "size=64k", "nosuid", "nodev", "noexec")
_LONGEST = 4096  # bytes; a key has 40


def key_of(request: Mount[CephFsSource], host: Host) -> str:
    """Give the key in base64: a Secret's last value, as kubelet has it, else what the node's file holds.

    Raises TransientError for a Secret that is missing, which waits for it, and OperationError for what is no key.
    """
    ref = secret_ref(request.spec, request.pod)
    if ref is None:
        return _key_in_file(request.spec.source, host)
    found = needed_object(request.objects, ref, Secret, by=f"volume {request.spec.name}")
    values = list(found.data.values())
    if not values:
        raise OperationError(f"{ref} has no data; put the key of the Ceph user {request.spec.source.name} into it")
    return _checked(values[-1], str(ref), request.spec.source.name)


def _key_in_file(source: CephFsSource, host: Host) -> str:
    content = host.files.read(Path(source.file), _LONGEST)
    if content is None:
        raise OperationError(
            f"the secret file {source.file} is missing on this node; write the key of the Ceph user {source.name} into"
            " it, or name a Secret in cephfs.secretRef"
        )
    keyring = _keyring(content)
    key = keyring.get(f"[client.{source.name}]".encode(), keyring.get(b"")) if keyring else content
    if key is None:
        raise OperationError(f"the keyring {source.file} has no key of client.{source.name}; correct cephfs.user")
    return _checked(key, source.file, source.name)


def _keyring(content: bytes) -> dict[bytes, bytes]:
    """Give the keys in a keyring by the line that names their user; empty for what is a key alone, or anything else."""
    keys: dict[bytes, bytes] = {}
    user = b""
    for line in map(bytes.strip, content.splitlines()):
        name, _, value = line.partition(b"=")
        if line.startswith(b"["):
            user = line
        elif name.strip() == b"key":
            keys.setdefault(user, value)
    return keys


def _checked(value: bytes, where: str, user: str) -> str:
    """Refuse what is no key: the clients would show it in their errors."""
    text = value.strip()
    try:
        if not binascii.a2b_base64(text, strict_mode=True):
            raise binascii.Error
    except binascii.Error:
        raise OperationError(
            f"what {where} holds is no key in base64; put in what `ceph auth get-key client.{user}` says"
        ) from None
    return text.decode("ascii")


@contextmanager
def private_file(uid: str, name: str, content: str, host: Host) -> Generator[Path]:
    """Have a file that only root can reach, in memory, while a client runs that reads it."""
    place = _place(uid, name, host)
    try:
        host.files.ensure_directory(place, 0o700, exact=True, parents_mode=0o700)
        noswap = host.kernel.tmpfs_noswap and not host.kernel.user_namespace
        options = (*_OPTIONS, "noswap") if noswap else _OPTIONS
        host.mounts.ensure_mounted(place, "tmpfs", source="tmpfs", options=options)
        host.files.write(place / "key", content.encode(), 0o400)
        yield place / "key"
    except VolmgrError as error:
        try:
            forget(uid, name, host)
        except VolmgrError as second:
            raise UncertainError(f"{error}; and what {place} holds could not be removed: {second}") from error
        raise
    with uncertain_if_it_fails():
        forget(uid, name, host)


def forget(uid: str, name: str, host: Host) -> None:
    """Take the private place of one volume away, if there is one."""
    place = _place(uid, name, host)
    host.mounts.unmount(place)
    host.files.remove_directory(place)


def _place(uid: str, name: str, host: Host) -> Path:
    """Give the place of one Pod's volume, whose name alone may be as long as a file's may be."""
    volume = hashlib.sha256(f"{uid}/{name}".encode()).hexdigest()[:32]
    return host.paths.state / "cephfs" / volume
