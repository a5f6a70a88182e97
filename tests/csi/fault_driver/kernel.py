"""What the driver does with the kernel: bind mounts, tmpfs, loop devices; each may be done twice."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run(*argv: str) -> str:
    """Run a command that must succeed, and give what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout.strip()


def is_mounted(path: str) -> bool:
    """Tell whether something is mounted there."""
    escaped = path.replace("\\", r"\134").replace(" ", r"\040").replace("\t", r"\011").replace("\n", r"\012")
    return any(line.split(" ")[4] == escaped for line in Path("/proc/self/mountinfo").read_text().splitlines())


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Mount a directory or a file at another."""
    run("mount", "--bind", *(("-o", "ro") if read_only else ()), source, target)


def mount_tmpfs(target: str, size: int) -> None:
    """Mount an empty tmpfs of `size` bytes."""
    run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", target)


def resize_tmpfs(target: str, size: int) -> None:
    """Let a tmpfs be of `size` bytes."""
    run("mount", "-o", f"remount,size={size}", target)


def unmount(target: str) -> None:
    """Take one mount away, also one whose server is gone."""
    run("umount", target)


def loop_of(image: Path) -> str:
    """Give the loop device of a file, or nothing."""
    return run("losetup", "-n", "-O", "NAME", "-j", str(image)).partition("\n")[0].strip() if image.exists() else ""


def attach_loop(image: Path) -> str:
    """Let a file have a loop device, and give it."""
    return loop_of(image) or run("losetup", "-f", "--show", str(image))


def grow_loop(device: str) -> None:
    """Let a loop device see that its file grew."""
    run("losetup", "-c", device)


def detach_loop(image: Path) -> None:
    """Let a file have no loop device."""
    if device := loop_of(image):
        run("losetup", "-d", device)
