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


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.get_closest_marker("root") for item in session.items) and not in_private_namespace():
        raise pytest.UsageError(
            "tests that mount need root and a mount namespace of their own: run `make test-3.11`, or put"
            " `unshare --mount --propagation private` before pytest; `-m 'not root'` leaves them out"
        )


def in_private_namespace() -> bool:
    """Tell whether this process is root and left the mount namespace that the machine booted with."""
    return os.geteuid() == 0 and os.readlink("/proc/self/ns/mnt") != os.readlink("/proc/1/ns/mnt")
