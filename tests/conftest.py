"""What every test shares: Hypothesis profiles, and that no test mounts in the machine's own namespace."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT_TESTS = Path(__file__).parent / "root"

settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(ROOT_TESTS):
            item.add_marker("root")
    longest: dict[Path, float] = {}
    for item in items:
        longest[item.path] = max(longest.get(item.path, 0.0), limit_of(item))
    # Modules with long tests begin, lest all wait at the end for one; beyond that all stay shuffled.
    items.sort(key=lambda item: longest[item.path], reverse=True)


def limit_of(item: pytest.Item) -> float:
    """Give how long a test may take, if it says so itself."""
    marker = item.get_closest_marker("timeout")
    return 0.0 if marker is None else float(marker.args[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and not in_private_namespace():
        pytest.fail(
            "mounts on the real kernel: run `make test-3.11` as root, or put"
            " `unshare --mount --propagation private` before pytest, or leave it out with `-m 'not root'`",
            pytrace=False,
        )


def in_private_namespace() -> bool:
    """Tell whether this process is root and in another mount namespace than the shell it descends from.

    /proc/1/ns/mnt would be the shorter question, but containers do not let even root read it.
    """
    if os.geteuid() != 0:
        return False
    own, pid = os.readlink("/proc/self/ns/mnt"), os.getppid()
    while pid > 0:
        try:
            if os.readlink(f"/proc/{pid}/ns/mnt") != own:
                return True
            pid = parent_of(pid)
        except OSError:
            return False
    return False


def parent_of(pid: int) -> int:
    """Return the parent of a process. The fields follow its name, which may hold all but the last `)`."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
