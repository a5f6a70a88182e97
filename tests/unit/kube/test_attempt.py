"""The words for what failed: the right that a path takes, and the system's words without wrappings."""

from __future__ import annotations

import socket

import pytest

from volmgr.kube.attempt import Attempt, verb_of_get, words_of
from volmgr.kube.resources import ATTACHMENTS, CSI_NODES, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from volmgr.kube.wire import Refusal


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (PODS.path(), "list pods"),
        (PODS.path("default"), "list pods default"),
        (SECRETS.path("default", "a"), "get secrets default/a"),
        (NODES.path(name="n1"), "get nodes n1"),
        (ATTACHMENTS.path(name="csi-1"), "get volumeattachments.storage.k8s.io csi-1"),
        (CSI_NODES.path(), "list csinodes.storage.k8s.io"),
        ("/readyz", "list /readyz"),
        ("/", "list /"),
    ],
)
def test_what_is_read_is_named_as_rbac_names_it(path: str, what: str) -> None:
    assert Attempt(verb_of_get(path), path, "https://api.test", "kubeconfig k").what == what


def test_a_missing_right_names_subresource_and_group() -> None:
    tokens = Attempt("create", SERVICE_ACCOUNTS.path("d", "a", "token"), "https://api.test", "kubeconfig k")
    attachment = Attempt("get", ATTACHMENTS.path(name="a"), "https://api.test", "kubeconfig k")

    assert 'grant "create" on "serviceaccounts/token" of the API group ""' in str(tokens.refused(Refusal(403, "no")))
    assert 'on "volumeattachments" of the API group "storage.k8s.io"' in str(attachment.refused(Refusal(403, "no")))


def test_a_node_is_not_told_to_be_granted_what_no_role_grants_it() -> None:
    said = 'secrets "a" is forbidden: User "system:node:n1" cannot get resource "secrets": node: no relationship found'
    error = Attempt("get", SECRETS.path("d", "a"), "https://api.test", "k").refused(Refusal(403, said))

    assert "grant" not in str(error)
    assert "what Pods of its own use" in str(error)


@pytest.mark.parametrize(
    ("verb", "path"), [("list", PODS.path()), ("list", NODES.path()), ("get", CSI_NODES.path(name="n2"))]
)
def test_a_node_with_the_credentials_of_another_is_told_whose_they_are(verb: str, path: str) -> None:
    said = 'User "system:node:n1" cannot list resource "pods": node: can only list/watch pods with spec.nodeName'
    error = Attempt(verb, path, "https://api.test", "kubeconfig k").refused(Refusal(403, said))

    assert str(error).endswith(
        "kubeconfig k has the credentials of node n1: say --node-name n1, or name another kubeconfig"
    )


def test_a_code_that_http_does_not_know_is_said_all_the_same() -> None:
    assert "at https://api.test: 599" in str(Attempt("get", "/x", "https://api.test", "k").refused(Refusal(599, "")))


def wrapped(inner: BaseException) -> BaseException:
    """Wrap an error as transports do."""
    try:
        try:
            raise inner
        except BaseException as error:
            raise RuntimeError("<urllib3.connection.HTTPSConnection object at 0x7f>") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (TimeoutError("timed out"), "time ran out"),
        (ConnectionResetError("Remote end closed\n connection"), "Remote end closed connection"),
        (KeyError(), "KeyError"),
    ],
)
def test_the_systems_words_are_given(error: BaseException, words: str) -> None:
    assert words_of(wrapped(error)) == words
