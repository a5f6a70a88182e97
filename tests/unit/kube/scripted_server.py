"""An API server on loopback whose every answer the test gives itself, byte by byte when it likes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

WAIT = 30.0
"""Seconds after which a test gives up: generous, the machine may be busy."""


@dataclass(frozen=True)
class Certificates:
    """Files in PEM: an authority, what it signed for the server and for a client, and another authority."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger: Path

    @classmethod
    def made_in(cls, directory: Path) -> Certificates:
        made = cls(*(directory / name for name in ("ca.crt", "tls.crt", "tls.key", "n1.crt", "n1.key", "other.crt")))
        authority_key, other_key = _key(), _key()
        authority = _certificate("ca", authority_key, "ca", authority_key, is_authority=True)
        made.authority.write_bytes(_pem(authority))
        made.stranger.write_bytes(_pem(_certificate("other", other_key, "other", other_key, is_authority=True)))
        for name, crt, key_file in (("api", made.server, made.server_key), ("n1", made.client, made.client_key)):
            key = _key()
            crt.write_bytes(_pem(_certificate(name, key, "ca", authority_key, is_authority=False)))
            key_file.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
        return made


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, is_authority: bool
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("api.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


class Exchange:
    """One request, and its answer as the test gives it."""

    def __init__(self, handler: _Handler, body: bytes) -> None:
        target = urlsplit(handler.path)
        self.method = handler.command
        self.path = target.path
        self.query = dict(parse_qsl(target.query))
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = body
        self.over = threading.Event()
        self._handler = handler

    def client_name(self) -> str:
        """Tell the common name of the client's certificate."""
        connection = self._handler.connection
        assert isinstance(connection, ssl.SSLSocket)
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        names = x509.load_der_x509_certificate(shown).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[0].value)

    def raw(self, data: bytes) -> None:
        """Send bytes as they are; over TLS, one record for each 16 KiB."""
        self._handler.connection.sendall(data)

    def bytewise(self, data: bytes) -> None:
        """Send each byte in a record of its own."""
        for each in data:
            self.raw(bytes([each]))

    def answer(self, body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer at once; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(data)}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.raw("\r\n".join([*lines, "", ""]).encode() + data)
        self.over.set()

    def refuse(self, status: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a Status."""
        self.answer(status_of(status, reason, message), status, headers)

    def begin(self) -> None:
        """Agree to a watch."""
        self.raw(HEAD)

    def event(self, kind: str, thing: object) -> None:
        """Send an event of a watch in a chunk of its own."""
        self.raw(chunk(event_line(kind, thing)))

    def end(self) -> None:
        """End a watch as the server does when its time is over."""
        self.raw(b"0\r\n\r\n")
        self.over.set()

    def cut(self) -> None:
        """Drop the connection."""
        self._handler.close_connection = True
        self._handler.connection.shutdown(socket.SHUT_RDWR)
        self.over.set()

    def is_closed_by_client(self) -> bool:
        """Wait until the client closes the connection."""
        self._handler.connection.settimeout(WAIT)
        try:
            return not self._handler.connection.recv(1)
        except (ConnectionError, ssl.SSLError):
            return True


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Frame a part of a chunked answer."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event_line(kind: str, thing: object) -> bytes:
    """Write an event of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def status_of(code: int, reason: str, message: str) -> dict[str, object]:
    """Make the object by which a server refuses."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def pod(name: str, version: int | str, **more: object) -> dict[str, object]:
    """Make an object with nothing but who it is."""
    meta = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, **more}


def bookmark(version: int) -> dict[str, object]:
    """Make what a bookmark brings."""
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}


def list_of(*items: object, version: int | str = 1, further: str = "", kind: str = "Pod") -> dict[str, object]:
    """Make a page of a list of a kind of the core group."""
    metadata = {"resourceVersion": str(version), "continue": further}
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        exchange = Exchange(self, body)
        assert isinstance(self.server, _Server)
        self.server.open.append(exchange)
        self.server.exchanges.put(exchange)
        exchange.over.wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.exchanges: Queue[Exchange] = Queue()
        self.open: list[Exchange] = []
        self.accepted = 0
        self.closed = threading.Semaphore(0)
        self._tls = tls

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self.accepted += 1
        return connection, address

    def finish_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        if self._tls is not None:  # here and not where connections are accepted: a slow one delays no other
            request = self._tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)
        request.close()
        self.closed.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Leave it to the test to notice: cut connections are part of most."""


class ScriptedServer:
    """Serves on a port of loopback from `with` on; over TLS where certificates are given."""

    def __init__(self, certificates: Certificates | None) -> None:
        tls: ssl.SSLContext | None = None
        if certificates is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificates.server, certificates.server_key)
            tls.load_verify_locations(certificates.authority)
            tls.verify_mode = ssl.CERT_OPTIONAL
        self._server = _Server(tls)
        self.address = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        for each in self._server.open:
            if not each.over.is_set():
                try:
                    each.cut()
                except OSError:
                    each.over.set()
        self._server.server_close()

    def next(self) -> Exchange:
        """Wait for the next request."""
        return self._server.exchanges.get(timeout=WAIT)

    def sees_one_closed(self) -> bool:
        """Wait until the client has closed one more connection between two requests."""
        return self._server.closed.acquire(timeout=WAIT)

    @property
    def is_waiting(self) -> bool:
        """There is no request that the test has not seen."""
        return self._server.exchanges.empty()

    @property
    def accepted(self) -> int:
        """How many connections there have been."""
        return self._server.accepted
