"""The areas: what each one proves, and the guest that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


def _nothing() -> tuple[Path, ...]:
    return ()


def _kubelet() -> tuple[Path, ...]:
    from tests.bench import kubelet

    program = kubelet.program()
    if program is None:
        raise SystemExit(
            "tests/vm: takeover needs Go 1.26, which builds kubelet's volume manager: see tests/bench/kubelet"
        )
    return (program.parent,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A directory of tests, and the guest that they share: what one area leaves would disturb the next."""

    name: str
    memory: int = 2048
    """MiB."""
    kernel: tuple[str, ...] = ()
    """Arguments of the kernel."""
    is_full: bool = False
    """It runs only when all faults are asked for, or it by its name: all of it takes long."""
    built: Callable[[], tuple[Path, ...]] = _nothing
    """Builds what the tests need from outside, and gives the directories."""

    @property
    def directory(self) -> Path:
        """Where its tests are."""
        return HERE / self.name

    @property
    def not_proved(self) -> tuple[str, ...]:
        """What its tests cannot show, a sentence each."""
        file = self.directory / "not_proved.txt"
        return tuple(file.read_text().splitlines()) if file.exists() else ()


# The longest first: two run at once.
AREAS = (
    Area(name="hung", memory=3072, is_full=True),
    Area(name="cephfs", memory=3072),
    Area(name="iscsi"),
    Area(name="nfs"),
    Area(name="takeover", built=_kubelet),
    Area(name="fc"),
    Area(name="systemd", memory=3072, kernel=("volmgr.systemd",)),
    Area(name="block"),
    # Enforcing, the policy of a whole machine would forbid the guest's own set-up; labels are the same.
    Area(name="selinux", kernel=("lsm=landlock,yama,selinux,bpf", "enforcing=0")),
)
