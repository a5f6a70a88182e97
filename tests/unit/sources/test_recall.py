"""A start reads what is recorded; it writes nothing of it again."""

from __future__ import annotations

import json

from volmgr import manifest
from volmgr.model.objects import ref_of
from volmgr.sources.changes import ObjectChanged
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost
from volmgr.testing.fault_host import FaultHost

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": "value"}}


def test_an_object_that_is_read_from_its_record_is_not_recorded_again() -> None:
    host = FaultHost(FakeHost())
    parsed = manifest.parse(json.dumps(CONFIG).encode(), "settings.json")
    registry = Registry(host.files, host.paths, lambda _change: None)
    registry.start()
    registry.offer("directory", "settings.json", "1", parsed)
    registry.keep(frozenset(ref_of(item.value) for item in parsed.items))
    told: list[object] = []
    before = len(host.trace)
    again = Registry(host.files, host.paths, told.append)
    again.start()
    assert any(isinstance(change, ObjectChanged) and change.item == parsed.items[0].value for change in told)
    assert [call.verb for call in host.trace[before:] if call.verb == "files.write"] == []
    again.offer("directory", "settings.json", "1", parsed)
    assert [call.verb for call in host.trace[before:] if call.verb == "files.write"] == []
    changed = manifest.parse(json.dumps({**CONFIG, "data": {}}).encode(), "settings.json")
    again.offer("directory", "settings.json", "2", changed)
    assert [call.verb for call in host.trace[before:] if call.verb == "files.write"] == ["files.write"]
