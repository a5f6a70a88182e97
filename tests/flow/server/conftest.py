from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.server.engines import FakeEngine, serving
from volmgr.cli.client import Client


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "volmgr.sock"


@pytest.fixture
def client(engine: FakeEngine, path: Path) -> Iterator[Client]:
    with serving(engine, path):
        client = Client(str(path))
        yield client
        client.close()
