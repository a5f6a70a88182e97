"""Requests: what is sent, and what is said when they fail."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from queue import Queue

import pytest

from tests.unit.kube.recording import Kubeconfigs
from tests.unit.kube.scripted_server import HEAD, WAIT, Exchange, ScriptedServer, chunk
from volmgr.kube.api import PAGE_ROOM, ApiServer, PatchKind, configured
from volmgr.kube.errors import ApiError
from volmgr.kube.resources import NODES, PODS, SECRETS
from volmgr.model.kube import KubeSettings

SETTINGS = KubeSettings()
NODE = NODES.path(name="n1")


@pytest.fixture
def api(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> ApiServer:
    return configured(kubeconfigs.write(server.address), SETTINGS)


def outcome(request: Callable[[], object]) -> Queue[object]:
    """Ask on a thread of its own, as request threads do."""
    came: Queue[object] = Queue()

    def ask() -> None:
        try:
            came.put(request())
        except ApiError as error:
            came.put(error)

    threading.Thread(target=ask, daemon=True).start()
    return came


def agree(exchange: Exchange) -> None:
    exchange.answer({})


def error_of(came: Queue[object]) -> ApiError:
    error = came.get(timeout=WAIT)
    assert isinstance(error, ApiError)
    return error


def test_an_object_is_read_as_the_server_sent_it(server: ScriptedServer, api: ApiServer) -> None:
    came = outcome(lambda: api.get(NODE, {"limit": "5", "fieldSelector": "spec.nodeName=a/b"}))
    exchange = server.next()
    exchange.answer(b'{"x": 1}')

    assert came.get(timeout=WAIT) == b'{"x": 1}'
    assert (exchange.method, exchange.path) == ("GET", "/api/v1/nodes/n1")
    assert exchange.query == {"limit": "5", "fieldSelector": "spec.nodeName=a/b"}
    assert exchange.headers["accept"] == "application/json"
    assert exchange.headers["user-agent"].startswith("volmgr/")


def test_an_answer_in_chunks_is_read(server: ScriptedServer, api: ApiServer) -> None:
    came = outcome(lambda: api.get(NODE))
    exchange = server.next()
    exchange.bytewise(HEAD + chunk(b'{"x":') + chunk(b" 1}") + b"0\r\n\r\n")
    exchange.over.set()

    assert came.get(timeout=WAIT) == b'{"x": 1}'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PatchKind.STRATEGIC, {"status": {"volumesInUse": []}}),
        (PatchKind.MERGE, {"metadata": {"annotations": {"a": None}}}),
        (PatchKind.JSON, [{"op": "remove", "path": "/metadata/annotations/a"}]),
    ],
)
def test_a_patch_says_of_which_kind_it_is(
    server: ScriptedServer, api: ApiServer, kind: PatchKind, body: object
) -> None:
    came = outcome(lambda: api.patch(NODES.path(name="n1", subresource="status"), body, kind=kind))
    exchange = server.next()
    exchange.answer({})
    came.get(timeout=WAIT)

    assert (exchange.method, exchange.path) == ("PATCH", "/api/v1/nodes/n1/status")
    assert exchange.headers["content-type"] == kind.value
    assert json.loads(exchange.body) == body


def test_objects_are_made_replaced_and_deleted(server: ScriptedServer, api: ApiServer) -> None:
    sent: list[tuple[str, str, object]] = []
    for request in (
        lambda: api.create(PODS.path("default"), {"kind": "Pod"}),
        lambda: api.update(NODE, {"kind": "Node"}),
        lambda: api.delete(NODE),
    ):
        came = outcome(request)
        exchange = server.next()
        exchange.answer({}, status=201)
        came.get(timeout=WAIT)
        sent.append((exchange.method, exchange.path, json.loads(exchange.body) if exchange.body else None))

    assert sent == [
        ("POST", "/api/v1/namespaces/default/pods", {"kind": "Pod"}),
        ("PUT", "/api/v1/nodes/n1", {"kind": "Node"}),
        ("DELETE", "/api/v1/nodes/n1", None),
    ]


def test_a_connection_is_used_again(server: ScriptedServer, api: ApiServer) -> None:
    for _ in range(3):
        came = outcome(lambda: api.get(NODE))
        server.next().answer({})
        came.get(timeout=WAIT)

    assert server.accepted == 1


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (401, "Unauthorized", ["does not accept the credentials of kubeconfig", "renew"]),
        (403, "Forbidden", ['grant "get" on "secrets" of the API group ""']),
        (404, "NotFound", []),
        (409, "Conflict", []),
        (410, "Expired", []),
        (500, "InternalError", []),
    ],
)
def test_a_refusal_says_what_was_asked_where_and_the_servers_words(
    server: ScriptedServer, api: ApiServer, status: int, reason: str, words: list[str]
) -> None:
    came = outcome(lambda: api.get(SECRETS.path("default", "key")))
    server.next().refuse(status, reason, "the server's own words")
    error = error_of(came)

    assert (error.status, error.reason) == (status, reason)
    expected = ["cannot get secrets default/key at https://127.0.0.1", str(status), "the server's own words", *words]
    assert [word for word in expected if word not in str(error)] == []
    assert "open-sesame" not in str(error)


@pytest.mark.parametrize(("status", "seconds"), [(429, "11"), (503, "11")])
def test_a_refusal_says_how_long_to_wait_and_is_not_tried_again(
    server: ScriptedServer, api: ApiServer, status: int, seconds: str
) -> None:
    came = outcome(lambda: api.get(NODE))
    server.next().refuse(status, "TooManyRequests", "slow down", {"Retry-After": seconds})

    assert error_of(came).retry_after == 11
    assert server.is_waiting


def test_a_redirection_is_not_followed(server: ScriptedServer, api: ApiServer) -> None:
    came = outcome(lambda: api.get(NODE))
    server.next().answer({}, 302, {"Location": f"{server.address}/elsewhere"})

    assert error_of(came).status == 302
    assert server.is_waiting, "nor are the credentials taken there"


def test_an_answer_beyond_the_bound_is_refused_with_the_option(
    server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    api = configured(kubeconfigs.write(server.address), replace(SETTINGS, object_limit=100))
    came = outcome(lambda: api.get(PODS.path()))
    server.next().answer(b"x" * (100 * PAGE_ROOM + 1))

    assert "kubernetes.page_size" in str(error_of(came))
    came = outcome(lambda: api.get(PODS.path()))
    server.next().answer(b"x" * 100 * PAGE_ROOM)
    assert came.get(timeout=WAIT) == b"x" * 100 * PAGE_ROOM


def test_an_answer_that_comes_in_drops_is_given_up(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> None:
    api = configured(kubeconfigs.write(server.address), replace(SETTINGS, request_timeout=0.2))
    came = outcome(lambda: api.get(NODE))
    exchange = server.next()
    exchange.raw(HEAD)
    while came.empty():  # never silent for as long as a socket's own time
        try:
            exchange.raw(chunk(b"x"))
        except OSError:
            break

    assert "time ran out" in str(error_of(came))


def test_a_connection_that_is_cut_in_an_answer_is_no_answer(server: ScriptedServer, api: ApiServer) -> None:
    came = outcome(lambda: api.get(NODE))
    exchange = server.next()
    exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    exchange.cut()
    error = error_of(came)

    assert error.is_unreachable
    assert "cannot get nodes n1 at https://127.0.0.1" in str(error)


def test_nobody_there_is_said_with_the_address_and_since_when(kubeconfigs: Kubeconfigs) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    api = configured(kubeconfigs.write(f"https://127.0.0.1:{port}"), SETTINGS)

    first, second = (error_of(outcome(lambda: api.get(NODE))) for _ in range(2))

    assert first.is_unreachable
    assert str(first) == (
        f"cannot get nodes n1 at https://127.0.0.1:{port}: no answer (Connection refused); check that the server runs"
        f" and is what kubeconfig {kubeconfigs.directory}/kubeconfig, context here names"
    )
    assert "and none since 20" in str(second)


def test_a_server_that_answers_again_is_not_silent_since_long_ago(
    server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    api = configured(kubeconfigs.write(server.address), SETTINGS)

    def fate(act: Callable[[Exchange], None]) -> object:
        came = outcome(lambda: api.get(NODE))
        act(server.next())
        return came.get(timeout=WAIT)

    fates = [str(fate(act)) for act in (Exchange.cut, Exchange.cut, agree, Exchange.cut)]

    assert ["none since" in each for each in fates] == [False, True, False, False]


def test_an_authority_that_did_not_sign_the_servers_certificate_is_named(
    server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    stranger = {"certificate-authority": str(kubeconfigs.certificates.stranger)}
    api = configured(kubeconfigs.write(server.address, None, stranger), SETTINGS)

    error = error_of(outcome(lambda: api.get(NODE)))

    assert error.is_unreachable
    assert "certificate is not trusted" in str(error)
    assert "into certificate-authority of kubeconfig" in str(error)


def test_a_certificate_for_another_name_is_said_so_and_tls_server_name_helps(
    server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    wrong = configured(kubeconfigs.write(server.address, None, {"tls-server-name": "other.test"}), SETTINGS)
    assert "tls-server-name" in str(error_of(outcome(lambda: wrong.get(NODE))))

    right = configured(kubeconfigs.write(server.address, None, {"tls-server-name": "api.test"}), SETTINGS)
    came = outcome(lambda: right.get(NODE))
    server.next().answer({})
    assert came.get(timeout=WAIT) == b"{}"


def test_verification_can_be_switched_off(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> None:
    insecure = {"certificate-authority": None, "insecure-skip-tls-verify": True}
    api = configured(kubeconfigs.write(server.address, None, insecure), SETTINGS)
    came = outcome(lambda: api.get(NODE))
    server.next().answer({})

    assert came.get(timeout=WAIT) == b"{}"


def test_a_server_without_tls_and_below_a_path_is_reached(kubeconfigs: Kubeconfigs) -> None:
    with ScriptedServer(None) as server:
        api = configured(kubeconfigs.write(f"{server.address}/k8s/c-1/"), SETTINGS)
        came = outcome(lambda: api.get(NODE))
        exchange = server.next()
        exchange.answer({})
        came.get(timeout=WAIT)

    assert exchange.path == "/k8s/c-1/api/v1/nodes/n1"


def test_behind_a_proxy_there_are_no_watches(kubeconfigs: Kubeconfigs, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = configured(kubeconfigs.write("https://api.test:6443"), SETTINGS)
    named = kubeconfigs.write("https://api.test:6443", None, {"proxy-url": "http://proxy.test:3128"})
    proxied = configured(named, SETTINGS)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    by_environment = configured(kubeconfigs.write("https://api.test:6443"), SETTINGS)
    monkeypatch.setenv("NO_PROXY", ".test")
    excepted = configured(kubeconfigs.write("https://api.test:6443"), SETTINGS)

    assert [each.watch_target() is None for each in (direct, proxied, by_environment, excepted)] == [
        False,
        True,
        True,
        False,
    ]
