"""What was asked of an API server, and in which words it failed: what, where, why, and what to do. Pure."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote

from volmgr.kube.errors import ApiError
from volmgr.kube.resources import CSI_NODES, NODES, PODS
from volmgr.kube.wire import Refusal
from volmgr.report.times import rfc3339


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request: `verb` is RBAC's, `origin` names where address and credentials come from."""

    verb: str
    path: str
    address: str
    origin: str

    def refused(self, refusal: Refusal) -> ApiError:
        """Say what the server said, and which right or credentials it is about."""
        said = f"{_status_words(refusal.code)}: {refusal.message}" if refusal.message else _status_words(refusal.code)
        return ApiError(
            self._text(said, self._remedy(refusal)),
            status=refusal.code,
            reason=refusal.reason,
            retry_after=refusal.retry_after,
        )

    def unanswered(self, cause: BaseException, since: float = 0.0) -> ApiError:
        """Say that nobody answered; `since` is the Unix time of the first such failure, 0 when this is it."""
        lasting = f", and none since {rfc3339(since)}" if since else ""
        words = words_of(cause)
        if (trust := _distrust(cause)) is not None:
            return ApiError(self._text(f"no answer{lasting} ({words})", f"{trust} of {self.origin}"))
        return ApiError(
            self._text(f"no answer{lasting} ({words})", f"check that the server runs and is what {self.origin} names")
        )

    def failed(self, why: str) -> ApiError:
        """Say what went wrong before anything was sent, or with what came."""
        return ApiError(self._text(why, ""))

    @property
    def what(self) -> str:
        """The right that it takes, such as `get secrets default/token`."""
        resource, group, namespace, name = _parts(self.path)
        kind = f"{resource}.{group}" if group else resource
        subject = "/".join(part for part in (namespace, name) if part)
        return f"{self.verb} {kind} {subject}".rstrip()

    def _text(self, why: str, remedy: str) -> str:
        text = f"cannot {self.what} at {self.address}: {why}"
        return f"{text}; {remedy}" if remedy else text

    def _remedy(self, refusal: Refusal) -> str:
        match refusal.code:
            case HTTPStatus.UNAUTHORIZED:
                return f"the server does not accept the credentials of {self.origin}: renew them"
            case HTTPStatus.FORBIDDEN if (asker := _NODE.search(refusal.message)) is not None:
                return self._remedy_of_node(asker["node"])
            case HTTPStatus.FORBIDDEN:
                resource, group, _, _ = _parts(self.path)
                return (
                    f'grant "{self.verb}" on "{resource}" of the API group "{group}" to the identity of {self.origin}'
                )
            case _:
                return ""

    def _remedy_of_node(self, node: str) -> str:
        """Say what a node can do; no role helps, since the Node authorizer decides."""
        resource, _, _, _ = _parts(self.path)
        if resource in _OWN or (resource, self.verb) == (PODS.plural, "list"):
            return (
                f"{self.origin} has the credentials of node {node}: say --node-name {node}, or name another kubeconfig"
            )
        return "a node may read what Pods of its own use, as soon as the server has seen the Pod, and no more"


def words_of(cause: BaseException) -> str:
    """Give the system's words for a failure: those of the innermost error, without wrappings and their addresses."""
    innermost = list(_chain(cause))[-1]
    match innermost:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {innermost.verify_message}"
        case TimeoutError():
            return "time ran out"
        case OSError() if innermost.strerror:
            return innermost.strerror
        case _:
            return " ".join(str(innermost).split()) or type(innermost).__name__


def _distrust(cause: BaseException) -> str | None:
    for each in _chain(cause):
        if isinstance(each, ssl.SSLCertVerificationError):
            if each.verify_code in _NAME_MISMATCHES:
                return "put a name that the certificate bears into server or tls-server-name"
            return "put the certificate of the authority that signed it into certificate-authority"
    return None


_NODE = re.compile(r'User "system:node:(?P<node>[^"]+)"')
"""In a refusal: who asked is a node."""
_OWN = (NODES.plural, CSI_NODES.plural)
"""A node may read the one with its own name, and lists the Pods that are bound to that; no other."""
_NAME_MISMATCHES = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""


def _chain(cause: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = cause
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def _status_words(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _parts(path: str) -> tuple[str, str, str, str]:
    """Give resource (with its subresource), API group, namespace and name."""
    parts = [unquote(part) for part in path.split("/") if part]
    group = parts[1] if parts[:1] == ["apis"] and len(parts) > 1 else ""
    rest = parts[3:] if group else parts[2:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:  # noqa: PLR2004 - namespaces, its name, and what lies in it
        namespace, rest = rest[1], rest[2:]
    plural, name, *sub = [*rest, "", ""][: max(2, len(rest))]
    return "/".join([plural or path, *sub]), group, namespace, name


def verb_of_get(path: str) -> str:
    """Tell which right reading a path takes: a list has one of its own."""
    return "get" if _parts(path)[3] else "list"
