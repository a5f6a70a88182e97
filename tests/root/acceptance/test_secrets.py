"""Where no value of a Secret may ever be: arguments, logs, answers, events, metrics, records, in any usual encoding."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.root.acceptance.objects import Document, named, projected, secret, shows_secret
from tests.root.acceptance.outside import Outside, disk, pod

CONFIG = {
    "token_issuer": "https://issuer.example",
    "plugins": {
        "kubernetes.io/git-repo": {"enabled": True},
        "kubernetes.io/image": {"insecure_registries": ["127.0.0.1:9"]},
    },
}
COMMANDS = ("status", "plan", "orphans", "claims", "doctor", "plugins", "events")
PER_POD = ("status", "why", "mounts")
FOR_FILES = (("check",), ("apply", "-f"))


class Traced(Outside):
    """A node with a tracer of each program that its daemon executes, or what that starts, with its environment."""

    def argv(self, *options: str) -> list[str]:
        """Put the tracer beside the daemon, which stays our own child."""
        trace = ("strace", "-D", "-f", "-qq", "--seccomp-bpf", "-v", "-s", "1000000", "-e", "trace=execve,execveat")
        return [*trace, "-A", "-o", str(self.trace), *super().argv(*options)]

    @property
    def trace(self) -> Path:
        """What the tracer writes."""
        return self.top / "trace"


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    """The node, which says as much as it can."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    with Traced(tmp_path, "--config", str(config), "--verbose") as node:
        yield node


class Hidden:
    """Makes values that are to be hidden, and finds them, also in URLs, JSON, base64 and hexadecimal digits."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def word(self, about: str) -> str:
        """Make a value; all encodings but base64 and hexadecimal leave letters and digits as they are."""
        word = f"hush{about}{secrets.token_hex(8)}"
        self.words.append(word)
        return word

    def in_(self, data: bytes) -> list[str]:
        """Name what is found."""
        return [word for word in self.words if any(form in data for form in _forms(word.encode()))]


def _forms(word: bytes) -> Iterable[bytes]:
    yield word
    yield word.hex().encode()
    for before in range(3):  # base64 of it within something else: what depends on the neighbours is cut off
        whole = base64.b64encode(b"\0" * before + word)
        yield whole[4 if before else 0 : -4]


def docker(auths: object) -> Document:
    """Give what an imagePullSecret names."""
    return {".dockerconfigjson": base64.b64encode(json.dumps({"auths": auths}).encode()).decode()}


def expression(name: str, value: str) -> Document:
    """Give a Pod with a subPathExpr of a key of a Secret."""
    env = [{"name": "HIDDEN", "valueFrom": {"secretKeyRef": {"name": "parts", "key": value}}}]
    mounts = [{"name": "v", "mountPath": "/v", "subPathExpr": "$(HIDDEN)"}]
    return pod(name, disk(), containers=[{"name": "main", "env": env, "volumeMounts": mounts}])


def image(name: str, secret_name: str) -> Document:
    """Give a Pod with an image of a registry that does not answer."""
    volume = {"name": "v", "image": {"reference": "127.0.0.1:9/some/thing:v1"}}
    return pod(name, volume, imagePullSecrets=[{"name": secret_name}])


def offer(node: Outside, hidden: Hidden) -> dict[str, str]:
    """Give the node Secrets that are used in every way, and each Pod with what it is to say, if it fails."""
    login = secret("login", user=hidden.word("user"), password=hidden.word("password"))
    word = hidden.word
    parts = secret("parts", good=word("good"), dots=f"a/../{word('dots')}", up=f"up/{word('up')}", empty="")
    large = secret("large", key=word("large") * 8000)
    auths = {"127.0.0.1:9": {"username": "me", "password": word("pull")}}
    pulls = named("Secret", "pulls", type="kubernetes.io/dockerconfigjson", data=docker(auths))
    whole = base64.b64encode(f"me:{word('auth')}".encode()).decode()
    encoded = named(
        "Secret", "encoded", type="kubernetes.io/dockerconfigjson", data=docker({"127.0.0.1:9": {"auth": whole}})
    )
    broken = named("Secret", "broken", type="kubernetes.io/dockerconfigjson")
    broken["stringData"] = {".dockerconfigjson": '{"auths": {' + word("broken")}
    node.put("objects.json", login, parts, large, pulls, encoded, broken)
    sources = {"secret": {"name": "login"}}, {"serviceAccountToken": {"path": "token"}}
    wrong = shows_secret("login", items=[{"key": "unheard", "path": "x"}])
    outside = shows_secret("login", items=[{"key": "password", "path": "../x"}])
    small = {
        "resources": {"limits": {"memory": "64Ki", "cpu": "1"}},
        "volumeMounts": [{"name": "s", "mountPath": "/s"}],
    }
    address = {"name": "v", "gitRepo": {"repository": f"https://me:{word('git')}@127.0.0.1:9/r.git"}}
    pods = (
        (pod("web", shows_secret("login"), projected(*sources)), ""),
        (expression("good", "good"), ""),
        (expression("dots", "dots"), ""),
        (expression("up", "up"), ""),
        (expression("empty", "empty"), ""),
        (image("pulls", "pulls"), "127.0.0.1:9"),
        (image("encoded", "encoded"), "127.0.0.1:9"),
        (image("broken", "broken"), "broken"),
        (pod("wrong", wrong), "unheard"),
        (pod("outside", outside), ".."),
        (pod("small", shows_secret("large"), containers=[{"name": "main", **small}]), "ENOSPC"),
        (pod("address", address), "gitRepo"),
    )
    for each, _ in pods:
        node.put(f"{each['metadata']['name']}.json", each)
    return {each["metadata"]["name"]: said for each, said in pods}


def damaged(hidden: Hidden) -> dict[str, str]:
    """Give texts of Secrets with all kinds of mistakes, each in the line of the value."""
    head = "apiVersion: v1\nkind: Secret\nmetadata: {name: bad}\n"
    lines = (
        "data: {{password: '%{}%'}}",
        "data: {{password: {}}}",
        "data: [{}]",
        "data: {{password: {{nested: {}}}}}",
        "stringData: {{password: [{}]}}",
        "stringData: {}",
        'stringData: {{password: "{}',
        "stringData:\n\tpassword: {}",
        "stringData: {{password: *{}}}",
        "stringData: {{password: !{} x}}",
        "stringData: {{password: x, password: {}}}",
        "stringData:\n  password: {}: more",
        "stringData:\n  password: |\n  {}\n at: all",
        "stringData: {{'../{}': x}}",
        "stringData: {{'': {}}}",
        "stringDatum: {{password: {}}}",
        "type: [{}]",
        "immutable: {}",
        "metadata: {{name: bad, annotations: [{}]}}",
        "data: {{password: \x01{}}}",
    )
    return {f"bad{at}.yaml": head + line.format(hidden.word(f"bad{at}")) + "\n" for at, line in enumerate(lines)}


def answered(node: Outside, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Give every answer of the API."""
    listed: list[dict[str, Any]] = json.loads(node.http("GET", "/")[1])["paths"]
    for path in (each["path"] for each in listed if each["method"] == "GET"):
        for name in names if "{pod}" in path else ("",):
            whole = path.replace("{pod}", name) + ("?timeout=1ms" if path.endswith("wait") else "")
            yield whole, node.http("GET", whole)[1]
    for name in names:
        yield f"mounts {name}", node.http("POST", f"/v1/pods/{name}/mounts", b"")[1]


def printed(node: Outside, names: Iterable[str], files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Give what the commands print."""
    commands: list[tuple[str, ...]] = [(each,) for each in COMMANDS]
    commands += [(each, name) for each in PER_POD for name in names]
    commands += [(*each, *(str(node.manifests / file) for file in files)) for each in FOR_FILES]
    commands += [("mounts", name, "--format", "oci") for name in ("good", "dots")]
    commands += [("plan", "--root-dir", str(node.root), "--manifests", str(node.manifests))]
    for command in commands:
        done = node.volmgr(*command, code=None)
        yield str(command), (done.stdout + done.stderr).encode()


def recorded(node: Outside) -> Iterator[tuple[str, bytes]]:
    """Give the path and content of each file below the root that is on disk and not the content of a Pod's volume."""
    disk_of_root = node.root.stat().st_dev
    for top, directories, names in os.walk(node.root):
        volumes = Path(top).match("pods/*/volumes/kubernetes.io~empty-dir")
        directories[:] = [] if volumes else [each for each in directories if _is_on(Path(top) / each, disk_of_root)]
        for path in (Path(top) / name for name in names):
            yield str(path), str(path).encode() + b"\0" + (path.read_bytes() if path.is_file() else b"")


def _is_on(path: Path, device: int) -> bool:
    return path.lstat().st_dev == device


@pytest.mark.timeout(300)
def test_no_value_of_a_secret_is_shown_recorded_logged_or_executed(traced: Traced) -> None:
    hidden = Hidden()
    expected = offer(traced, hidden)
    for name in ("web", "good", "dots", "up", "empty"):
        traced.wait(name)
    (traced.volume("up") / "up").symlink_to("/etc")
    answers = list(answered(traced, expected))
    bad = damaged(hidden)
    for name, text in bad.items():
        traced.put_text(name, text)
    for name, said in expected.items():
        traced.until_why(name, said)
    eventually(lambda: all(name in traced.log_text() for name in bad), "each broken file in the log")
    place = traced.volume("web", "s", "kubernetes.io~secret")
    token = traced.volume("web", "p", "kubernetes.io~projected") / "token"
    hidden.words.append(token.read_text().rpartition(".")[2])
    objects = traced.manifests / "objects.json"
    changed = hidden.word("changed")
    objects.write_text(objects.read_text().replace((place / "password").read_text(), changed))
    eventually(lambda: (place / "password").read_text() == changed)
    answers += answered(traced, expected)
    answers += printed(traced, expected, (objects.name, *bad))
    answers += [
        (f"POST {name}", traced.http("POST", "/v1/pods", (traced.manifests / name).read_bytes())[1]) for name in bad
    ]
    traced.kill()
    answers += recorded(traced)
    traced.start()
    traced.wait("web")
    answers += answered(traced, expected)
    answers += recorded(traced)
    answers += [(f"/proc/{each}", Path(f"/proc/{traced.pid}/{each}").read_bytes()) for each in ("cmdline", "environ")]
    answers += [("log", traced.log.read_bytes()), ("executed", traced.trace.read_bytes())]
    assert hidden.in_(objects.read_bytes()), "the search finds nothing at all"
    assert b"skopeo" in traced.trace.read_bytes(), "the tracer saw nothing"
    own = str(traced.root / "volmgr/pods/uid-address.json")  # the Pod as its author wrote it, readable for root alone
    assert {where: found for where, data in answers if where != own and (found := hidden.in_(data))} == {}
