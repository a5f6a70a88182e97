"""What the running kernel and machine can do, read once at start and without mounting anything."""

from __future__ import annotations

import os
import re
from pathlib import Path

from volmgr.host.interface import Kernel

_NOSWAP = (6, 4)  # the first version whose tmpfs knows noswap; it refuses it in a user namespace
_WHOLE_MACHINE = ["0", "0", "4294967295"]


def read_kernel() -> Kernel:
    """Read the facts of this machine."""
    user_namespace = Path("/proc/self/uid_map").read_text(encoding="ascii").split() != _WHOLE_MACHINE
    return Kernel(
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        processors=os.cpu_count() or 1,
        memory=memory_of(Path("/proc/meminfo").read_text(encoding="ascii")),
        tmpfs_noswap=version_of(os.uname().release) >= _NOSWAP and not user_namespace,
        huge_page_sizes=page_sizes_of(_names(Path("/sys/kernel/mm/hugepages"))),
        user_namespace=user_namespace,
        container_label=container_label(Path("/")),
    )


def container_label(root: Path) -> str:
    """Give the label of containers' files by the policy that is loaded; empty without SELinux, or when it names none.

    Where runtimes look (`github.com/opencontainers/selinux`), so that they and volmgr mean the same: the file of
    container-selinux first, then that of the policy. Before a policy is loaded all processes are labelled `kernel`.
    """
    if not (root / "sys/fs/selinux/enforce").exists():
        return ""
    current = _text(root / "proc/self/attr/current").rstrip("\0\n")
    if current in {"", "kernel"}:
        return ""
    kind = _assignments(root / "etc/selinux/config").get("SELINUXTYPE", "")
    own = root / "usr/share/containers/selinux/contexts"
    contexts = own if own.exists() else root / "etc/selinux" / kind / "contexts/lxc_contexts"
    label = _assignments(contexts).get("file", "")
    return label if re.fullmatch(r"[^:\s]+:[^:\s]+:[^:\s]+(:\S+)?", label) else ""


def _assignments(file: Path) -> dict[str, str]:
    """Read lines `key = "value"`."""
    lines = (line.strip() for line in _text(file).splitlines())
    parts = (line.partition("=") for line in lines if not line.startswith(("#", ";")))
    return {key.strip(): value.strip().strip('"') for key, equals, value in parts if equals}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def memory_of(meminfo: str) -> int:
    """Give the bytes of MemTotal, 0 when it is missing."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def version_of(release: str) -> tuple[int, int]:
    """Give major and minor of a kernel release such as `6.18.44-fc-v669`; (0, 0) when it is none."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def page_sizes_of(names: list[str]) -> tuple[int, ...]:
    """Give the sizes in bytes of directories such as `hugepages-2048kB`, smallest first."""
    matches = (re.fullmatch(r"hugepages-(\d+)kB", name) for name in names)
    return tuple(sorted(int(match[1]) * 1024 for match in matches if match))


def _names(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []
