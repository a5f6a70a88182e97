"""One guest: an emulated machine with the lane's kernel and disk, which runs one command and is gone.

kvm is not used, where it is there, either: what runs on every machine is what is tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_GUEST = Path(__file__).parent / "guest"
_KERNEL = (
    "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off audit=0 random.trust_cpu=on cryptomgr.notests"
    " init_on_alloc=0 net.ifnames=0 no_timer_check"  # a busy machine emulates the timer late: a panic otherwise
    " tsc=reliable clocksource=tsc"  # reading a device instead takes a system call and an exit each time
    " clearcpuid=rep_good"
)
_PROCESSOR = "max,-erms,-fsrm,-smap,-smep,-umip,-pku,-la57"
"""`rep movs` and `rep stos` are emulated an item at a time: nobody should prefer them to plain loops. Nor are guards of
the kernel against its processes of use here, for which each system call would pay."""
_LSM = "lsm=landlock,yama,bpf"
_CARDS = 3
"""Network cards on one hub, which nobody but the tests of Fibre Channel uses."""
_CONSOLE_LINES = 30


class Ended(NamedTuple):
    """How the command of a guest ended."""

    status: int
    """Its exit code."""
    processor: float
    """Seconds of processors that all of the guest took."""


class GuestError(Exception):
    """A guest that did not run its command to the end: its time was over, or it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a guest has; `shared` directories it sees, read-only, at their own paths.

    What it writes, but to /vm, is gone with it.
    """

    image: Path
    clone: Path
    """Where the clone is, here and in the guest."""
    code: Path
    """The disk that has it: see `code.packed`."""
    shared: tuple[Path, ...] = ()
    memory: int = 2048
    """MiB."""
    processors: int = 2
    kernel: tuple[str, ...] = ()
    """More arguments of the kernel; the last one of a name counts."""
    limit: float = 1800.0
    """Seconds that it may run."""

    def run(self, script: str, results: Path, say: Callable[[str], None]) -> Ended:
        """Boot, run a shell script as root, and say how it ended; `say` gets each line of its output.

        The guest has the directory `results` at /vm, to write to. Raises GuestError.
        """
        (results / "command").write_text(script)
        (results / "shares").write_text(
            "".join(f"share{number} {directory}\n" for number, directory in enumerate(self.shared))
        )
        (results / "clone").write_text(str(self.clone))
        for file in _GUEST.iterdir():
            shutil.copy2(file, results)
        # Its standard input must never end: that would close the port that the output comes from.
        with (
            (results / "qemu").open("w") as complaints,
            subprocess.Popen(
                self._argv(results), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True
            ) as qemu,
        ):
            late = threading.Event()

            def stop() -> None:
                late.set()
                qemu.kill()

            clock = threading.Timer(self.limit, stop)
            clock.daemon = True
            clock.start()
            try:
                assert qemu.stdout is not None
                for line in qemu.stdout:
                    say(line.rstrip("\n"))
                os.waitid(os.P_PID, qemu.pid, os.WEXITED | os.WNOWAIT)
                processor = _processor(qemu.pid)
                qemu.wait()
            finally:
                clock.cancel()
                qemu.kill()
        status = results / "status"
        if not status.exists():
            why = f"was not done after {self.limit:.0f} s" if late.is_set() else f"died (qemu: {qemu.returncode})"
            raise GuestError(f"the guest {why}; the end of its console:\n{_console(results)}")
        return Ended(int(status.read_text()), processor)

    def _argv(self, results: Path) -> list[str]:
        words: list[str] = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]
        words += ["-accel", "tcg,thread=multi", "-cpu", _PROCESSOR, "-M", "q35"]
        words += ["-m", str(self.memory), "-smp", str(self.processors)]
        words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        words += ["-kernel", str(self.image / "vmlinux"), "-initrd", str(self.image / "initrd")]
        words += ["-append", " ".join((_KERNEL, _LSM, *self.kernel))]
        for disk in (self.image / "root.img", self.code):
            words += ["-drive", f"file={disk},if=virtio,format=raw,snapshot=on,cache=unsafe"]
        words += ["-device", "virtio-rng-pci", "-serial", f"file:{results / 'console'}"]
        words += ["-device", "virtio-serial-pci", "-chardev", "stdio,id=output,signal=off"]
        words += ["-device", "virtserialport,chardev=output,name=output"]
        words += _share(results, "run")
        for number, directory in enumerate(self.shared):
            words += _share(directory, f"share{number}", ",readonly=on")
        for number in range(_CARDS):
            card = f"virtio-net-pci,netdev=hub{number},mac=52:54:00:00:00:1{number},host_mtu=2500,romfile="
            words += ["-netdev", f"hubport,id=hub{number},hubid=0", "-device", card]
        return words


def _share(directory: Path, tag: str, more: str = "") -> list[str]:
    return ["-virtfs", f"local,path={directory},mount_tag={tag},security_model=none,multidevs=remap{more}"]


def _processor(pid: int) -> float:
    """Give the seconds of processors of a process that has ended, and was not waited for."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime of proc(5)


def _console(results: Path) -> str:
    texts = (file.read_text(errors="replace") for file in (results / "qemu", results / "console") if file.exists())
    return "\n".join(line for text in texts for line in text.splitlines()[-_CONSOLE_LINES:])
