"""A real volmgrd with projected volumes: tokens that are replaced while it runs, and shown to nobody else."""

import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.eventually import eventually
from tests.live_node import PATIENCE, LiveNode
from volmgr.cli.client import Client
from volmgr_downwardapi.plugin import DownwardApi
from volmgr_projected.plugin import Projected

PYTHON = Path(sys.executable)
SHORT = {"issuer": "https://issuer.example", "audiences": ["here"], "min_expiration": "1s"}


def started(top: Path, **options: object) -> LiveNode:
    path = top / "config.json"
    path.write_text(json.dumps(options))
    return LiveNode(PYTHON, top, "--config", str(path))


def projected(*sources: dict[str, object]) -> dict[str, object]:
    return {"projected": {"sources": list(sources)}}


def token(seconds: int = 3600) -> dict[str, object]:
    return {"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}}


def put(node: LiveNode, name: str, document: dict[str, object]) -> None:
    draft = node.manifests / f".{name}"
    draft.write_text(json.dumps(document))
    draft.rename(node.manifests / f"{name}.json")


@contextmanager
def mounts_of(node: LiveNode, uid: str) -> Generator[Iterator[None]]:
    """Give something each time that a volume of a Pod was mounted, old and new."""
    client = Client(str(node.socket))
    events = map(json.loads, client.follow())
    yield (None for event in events if (event["reason"], event["pod_uid"]) == ("SuccessfulMountVolume", uid))
    client.close()


def checked(node: LiveNode, value: str) -> dict[str, Any]:
    """Read a token as a verifier does that was given the key set."""
    keys = jwt.PyJWKSet.from_json((node.root / "volmgr/tokens/jwks.json").read_text())
    key = keys[jwt.get_unverified_header(value)["kid"]]
    said: dict[str, Any] = jwt.decode(value, key, [key.algorithm_name], audience="here", issuer=SHORT["issuer"])
    return said


def test_a_token_is_replaced_while_it_is_good_and_any_verifier_takes_both(tmp_path: Path) -> None:
    with started(tmp_path, token_issuer=SHORT) as node:
        node.put("web", projected(token(4)))
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        place = node.volume("web", Projected.name) / "token"
        with mounts_of(node, "uid-web") as mounts:
            next(mounts)
            first = place.read_text()
            said = checked(node, first)
            next(mounts)
            second = place.read_text()
        assert second != first
        assert checked(node, second)["iat"] <= said["exp"]
        assert said["kubernetes.io"]["pod"] == {"name": "web", "uid": "uid-web"}


def test_a_daemon_that_was_killed_goes_on_with_the_same_token_and_key(tmp_path: Path) -> None:
    with started(tmp_path, token_issuer="https://issuer.example") as node:
        node.put("web", projected(token()))
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        place, key = node.volume("web", Projected.name) / "token", node.root / "volmgr/tokens/key.pem"
        before = (place.read_text(), key.read_bytes())
        node.kill()
        node.start()
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        assert (place.read_text(), key.read_bytes()) == before
        assert key.stat().st_mode & 0o777 == 0o600


def test_the_key_set_is_made_before_anybody_asks_for_a_token(tmp_path: Path) -> None:
    with started(tmp_path, token_issuer="https://issuer.example") as node:
        key_set = node.root / "volmgr/tokens/jwks.json"
        eventually(key_set.exists, "a key set")
        (key,) = json.loads(key_set.read_text())["keys"]
        assert key["alg"] == "ES256"


def test_without_an_issuer_the_pod_says_what_to_configure(tmp_path: Path) -> None:
    with started(tmp_path) as node:
        node.put("web", projected(token()))
        node.await_why("uid-web", "set token_issuer in the configuration, such as token_issuer: https://")
        assert node.run("wait", "uid-web", "--for", "mounted", "--timeout", "0s").returncode != 0
        assert not node.volume("web", Projected.name).exists()


def test_a_volume_is_mounted_when_the_last_of_its_objects_appears(tmp_path: Path) -> None:
    with started(tmp_path) as node:
        node.put("web", projected({"configMap": {"name": "settings"}}))
        node.await_why("uid-web", "ConfigMap default/settings")
        done = node.run("wait", "uid-web", "--for", "mounted", "--timeout", "0s")
        assert "ConfigMap default/settings" in done.stdout + done.stderr
        meta = {"name": "settings"}
        put(node, "settings", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}})
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        assert (node.volume("web", Projected.name) / "a").read_text() == "1"


def test_a_pod_sees_itself_and_what_the_machine_has(tmp_path: Path) -> None:
    with started(tmp_path) as node:
        items = [
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu", "containerName": "main"}},
        ]
        node.put("web", {"downwardAPI": {"items": items}})
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        place = node.volume("web", DownwardApi.name)
        assert (place / "name").read_text() == "web"
        assert int((place / "cpu").read_text()) == os.cpu_count()


@pytest.mark.parametrize(
    "command", [["status"], ["status", "--format", "json"], ["why", "uid-web"], ["plan"], ["events"]]
)
def test_no_token_is_shown_recorded_or_logged(tmp_path: Path, command: list[str]) -> None:
    with started(tmp_path, token_issuer=SHORT) as node:
        node.put("web", projected(token(), {"configMap": {"name": "gone", "optional": True}}))
        node.tell("wait", "uid-web", "--for", "mounted", "--timeout", f"{PATIENCE}s")
        inside = node.volume("web", Projected.name)
        secret = (inside / "token").read_text().rpartition(".")[2]
        done = node.run(*command)
        assert secret not in done.stdout + done.stderr + (tmp_path / "log").read_text()
        rest = [path for path in node.root.rglob("*") if path.is_file() and inside not in path.parents]
        assert len(rest) > 3
        assert not [path for path in rest if secret.encode() in path.read_bytes()]
        assert secret.encode() not in Path(f"/proc/{node.daemon.pid}/cmdline").read_bytes()
