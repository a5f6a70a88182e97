"""Address and credentials of an API server, by the package `kubernetes`, and fresh: files are looked at again."""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError
from volmgr.kube.kubeconfig import read_kubeconfig

if TYPE_CHECKING:
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.rest import RESTClientObject

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where kubelet puts the token of a Pod."""
_SCRATCH = "volmgr-kube-"
_MEMORY = "/dev/shm"  # noqa: S108 - a directory of ours in it, whose name nobody can guess

log = logging.getLogger("volmgr.kube")

Load = Callable[["Configuration", str], tuple[Path, ...]]
"""Fills a configuration, its temporary files in a directory, and gives the files whose change makes it old."""


@dataclass(frozen=True, slots=True)
class Session:
    """What one reading of the credentials gives; shared by threads."""

    configuration: Configuration = field(repr=False)
    rest: RESTClientObject = field(repr=False)
    tls: ssl.SSLContext | None
    stamps: tuple[tuple[Path, str], ...]


class Access:
    """Gives a session that is current; any thread but the selector's: reading credentials may run a command."""

    def __init__(self, origin: str, address: str, load: Load, *, proxy: str = "", connections: int = 1) -> None:
        """`origin` is for messages; `proxy` overrides the environment's; keep so many idle connections."""
        _require_package()
        self.origin = origin
        self.address = address
        self._load = load
        self._connections = connections
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._distrusted = False
        self._complaint = ""
        self._silent_since = 0.0
        self.is_proxied = _is_proxied(address, proxy)

    def session(self) -> Session:
        """Give a session, read anew where a file of it changed or the server refused it; raises OperationError."""
        with self._lock:
            return self._current()

    def headers(self) -> dict[str, str]:
        """Give the headers that authenticate; tokens that ran out are fetched again. Raises OperationError."""
        with self._lock:
            configuration = self._current().configuration
            try:
                setting = configuration.auth_settings().get("BearerToken")
            except Exception as error:  # the package's hooks raise what they like
                raise OperationError(f"cannot renew the credentials of {self.origin}: {error}") from error
            value = (setting["value"] or "").strip() if setting is not None else ""
            if not value.isascii() or not value.isprintable():  # whoever sends it would complain and show it
                raise OperationError(
                    f"cannot use the token of {self.origin}: it has characters that no header may have"
                )
            return {"authorization": value} if value else {}

    @property
    def place(self) -> str:
        """Address and authorities of the server, as they were read last: two clusters seldom have both in common."""
        tls = self._session.tls if self._session is not None else None
        authorities = hashlib.sha256(b"".join(sorted(tls.get_ca_certs(binary_form=True) if tls is not None else ())))
        return f"{self.address} {authorities.hexdigest()[:16]}"

    def distrust(self, session: Session) -> None:
        """Read the credentials again before the next request: the server refused these."""
        with self._lock:
            self._distrusted |= session is self._session

    def reached(self) -> None:
        """Learn that the server answered."""
        self._silent_since = 0.0

    def missed(self) -> float:
        """Learn that it did not; gives the Unix time of the first such failure, 0 when this is it."""
        since = self._silent_since
        self._silent_since = since or time.time()
        return since

    def _current(self) -> Session:
        session = self._session
        if (
            session is not None
            and not self._distrusted
            and _stamps([path for path, _ in session.stamps]) == session.stamps
        ):
            return session
        try:
            self._session = _opened(self._load, self.origin, self._connections)
        except OperationError as error:
            if session is None:
                raise
            if str(error) != self._complaint:  # such as a file that is being replaced: what was read goes on
                self._complaint = str(error)
                log.warning("%s; what was read before is used", error)
            return session
        self._distrusted, self._complaint = False, ""
        if session is not None:
            session.rest.close()
        return self._session


def access_by(kubeconfig: Path | None, connections: int, limit: float = 30.0) -> Access:
    """Make access by a file, or as a Pod of the cluster; raises OperationError that names file, field and remedy.

    A command that gives credentials is ended after so many seconds.
    """
    if kubeconfig is None:
        return in_cluster(IN_CLUSTER, connections)
    chosen = read_kubeconfig(kubeconfig)
    access = Access(
        f"kubeconfig {kubeconfig}, context {chosen.context}",
        chosen.server.rstrip("/"),
        lambda configuration, scratch: _load_file(kubeconfig, configuration, scratch, limit),
        proxy=chosen.proxy,
        connections=connections,
    )
    if not chosen.has_plugin:  # a command may want the network, and a node without one starts all the same
        access.session()
    return access


def in_cluster(directory: Path, connections: int, environ: Mapping[str, str] = os.environ) -> Access:
    """Make access as a Pod has it: the server by environment variables, token and authority from a directory."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise OperationError(
            "cannot find the API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, as they are"
            " in a Pod of a cluster; name a kubeconfig by --kubeconfig"
        )
    token, authority = directory / "token", directory / "ca.crt"

    def load(configuration: Configuration, _scratch: str) -> tuple[Path, ...]:
        from kubernetes.config.incluster_config import InClusterConfigLoader

        InClusterConfigLoader(
            token_filename=str(token), cert_filename=str(authority), environ=dict(environ)
        ).load_and_set(configuration)
        return token, authority

    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    access = Access(f"the service account in {directory}", address, load, connections=connections)
    access.session()
    return access


def _load_file(path: Path, configuration: Configuration, scratch: str, limit: float) -> tuple[Path, ...]:
    from kubernetes.config.kube_config import KubeConfigLoader

    chosen = read_kubeconfig(path)
    KubeConfigLoader(
        config_dict=chosen.with_limit(limit),
        config_base_path=os.path.abspath(path.parent),
        temp_file_path=scratch,
    ).load_and_set(configuration)
    if chosen.has_plugin and not configuration.api_key and not configuration.cert_file:
        raise OperationError(
            f"the command of exec in {path} gave no credentials within {limit:g} s; the log has its words: run it by"
            " hand"
        )
    return chosen.files


def _opened(load: Load, origin: str, connections: int) -> Session:
    import urllib3
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.rest import RESTClientObject
    from kubernetes.config import ConfigException

    configuration = Configuration()
    configuration.retries = False  # urllib3 would try thrice, whatever is asked: who asks knows when to try again
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = connections
    try:
        # The package writes the keys of a kubeconfig to files, for OpenSSL, and keeps them until the process ends: they
        # go where no disk is, and at once.
        top = _MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
        _sweep(Path(top))
        with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-", dir=top) as scratch:
            files = load(configuration, scratch)
            stamps = _stamps(files)
            tls = _tls_context(configuration, origin)
    except ConfigException as error:
        raise OperationError(f"cannot use {origin}: {error}") from error
    except OSError as error:
        raise OperationError(
            f"cannot use {origin}: {error.filename or 'a temporary file'}: {error.strerror}"
        ) from error
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    if not configuration.verify_ssl:
        urllib3.disable_warnings(
            urllib3.exceptions.InsecureRequestWarning
        )  # one a request; it is the kubeconfig's wish
    rest = RESTClientObject(configuration)
    if tls is not None:
        rest.pool_manager.connection_pool_kw["ssl_context"] = tls
    return Session(configuration, rest, tls, stamps)


def _sweep(top: Path) -> None:
    """Remove the keys of a daemon that was killed while it read them."""
    for each in top.glob(f"{_SCRATCH}*"):
        pid = each.name.removeprefix(_SCRATCH).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(each, ignore_errors=True)


def _tls_context(configuration: Configuration, origin: str) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    except ssl.SSLError as error:
        raise OperationError(
            f"cannot use {origin}: certificate-authority is no certificate ({error.reason}); write one in PEM"
        ) from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # since Python 3.13; clusters' own authorities often fail it
    context.set_alpn_protocols(["http/1.1"])
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        try:
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password=lambda: "")
        except ssl.SSLError as error:  # the empty password keeps OpenSSL from asking on the terminal
            raise OperationError(
                f"cannot use {origin}: client-certificate and client-key do not go together or are no PEM"
                f" ({error.reason}); write both, the key without a password"
            ) from error
    return context


def _require_package() -> None:
    try:
        importlib.import_module("kubernetes.config")
    except ImportError as error:
        raise OperationError(f"kubernetes mode needs more packages ({error}); install volmgr[kube]") from error


def _is_proxied(address: str, proxy: str) -> bool:
    from kubernetes.client.configuration import Configuration
    from kubernetes.client.rest import should_bypass_proxies

    configuration = Configuration(host=address, proxy=proxy or None)
    return bool(configuration.proxy) and not should_bypass_proxies(address, configuration.no_proxy or "")


def _stamps(files: tuple[Path, ...] | list[Path]) -> tuple[tuple[Path, str], ...]:
    return tuple((each, _stamp(each)) for each in files)


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}"
