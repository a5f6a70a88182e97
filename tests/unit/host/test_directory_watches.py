"""What is heard of directories, by a real inotify."""

import shutil
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from volmgr.host.directory_watches import Happening, Watches


@pytest.fixture
def watches() -> Generator[Watches]:
    with closing(Watches()) as opened:
        yield opened


def test_what_happened_before_a_watch_changed_is_heard(watches: Watches, tmp_path: Path) -> None:
    place = str(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    watches.keep({place: Watches.PLACE, str(inner): Watches.AWAITED})
    shutil.rmtree(inner)
    watches.keep({place: Watches.AWAITED})
    assert Happening(place, "inner") in watches.happenings()


def test_a_directory_that_is_watched_no_more_is_silent(watches: Watches, tmp_path: Path) -> None:
    for _ in range(3):
        watches.keep({str(tmp_path): Watches.AWAITED})
        watches.keep({})
        (tmp_path / "file").touch()
        (tmp_path / "file").unlink()
        assert watches.happenings() == []
