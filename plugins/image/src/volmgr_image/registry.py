"""Pulls images from registries by skopeo into a layout; credentials go by a file in memory, never by arguments."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import CommandError, Host, Mount, ObjectRef, OperationError, Pod, Secret
from volmgr_image.cache import Cache, Use
from volmgr_image.credentials import authfile
from volmgr_image.layout import OciLayout
from volmgr_image.platform import Platform
from volmgr_image.reference import Named
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource

_CLIENT = "skopeo"
_POLICY = Path("/etc/containers/policy.json")
_LONGEST = 3600.0  # seconds, where the core sets no deadline
_TAG = "image"
_MESSAGE = re.compile(r'msg="((?:[^"\\]|\\.)*)"')
_AUTHFILE_LIMIT = 1 << 20
_TOO_LARGE = "file too large"  # as Go says EFBIG
_WHOLE = 1 << 15  # bytes of a manifest that surely is all of it: of long output only the end is kept
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, slots=True)
class Registry:
    """One image in a registry, for one mount request."""

    named: Named
    platform: Platform
    request: Mount[ImageSource]
    host: Host
    cache: Cache

    def source(self) -> str:
        """Ask what the registry has under the name now: a hash of its manifest or index, empty if that is too long."""
        self.request.progress(f"asking for image {self.named.name}")
        with self._authfile() as auth:
            tls = ("--tls-verify=false",) if self._is_insecure() else ()
            manifest = self._run(auth, "inspect", "--raw", "--authfile", str(auth), *tls, f"docker://{self.named.name}")
        data = manifest.encode()
        return hashlib.sha256(data).hexdigest() if len(data) < _WHOLE else ""

    def pull(self, reference: str) -> OciLayout:
        """Download the image; blobs that an earlier try has downloaded are not asked for again."""
        self.request.progress(f"pulling image {self.named.name}")
        pulls = self.cache.pulls(reference)
        layout, blobs = pulls / "layout", pulls / "blobs"
        for directory in (layout, blobs):
            self.host.files.ensure_directory(directory, 0o700, parents_mode=0o700)
        with self._authfile() as auth:
            tls = ("--src-tls-verify=false",) if self._is_insecure() else ()
            options = ("--quiet", "--src-authfile", str(auth), *tls, "--dest-shared-blob-dir", str(blobs))
            self._run(auth, "copy", *options, f"docker://{self.named.name}", f"oci:{layout}:{_TAG}")
        return OciLayout(self.host, layout, reference, blobs=blobs)

    def _run(self, auth: Path, command: str, *arguments: str) -> str:
        commands = self.host.commands
        if commands.find(_CLIENT) is None:
            raise OperationError(
                f"cannot pull image {self.named.name}: {_CLIENT} is not installed; install the Debian package {_CLIENT}"
            )
        # A client that outlives a killed daemon would meet the one that the next daemon starts.
        leash = ("setpriv", "--pdeathsig", "KILL", "--") if commands.find("setpriv") else ()
        # It stores whatever a registry sends, and compares that with the size that was said only afterwards.
        bounds = ("prlimit", f"--fsize={self._limit}", "--") if commands.find("prlimit") else ()
        left = self.request.deadline - self.host.clock()
        try:
            result = commands.run(
                [*leash, *bounds, _CLIENT, *self._options(), command, *arguments],
                deadline=_LONGEST if math.isinf(left) else max(left, 1.0),
                environment=_environment(auth.parent),
                cancelled=self.request.cancelled,
            )
        except CommandError as error:
            raise OperationError(f"cannot pull image {self.named.name}: {self._said(error)}") from error
        return result.stdout

    def _options(self) -> tuple[str, ...]:
        options = ["--override-os", self.platform.os, "--override-arch", self.platform.architecture]
        if self.platform.variant:
            options += ["--override-variant", self.platform.variant]
        if self.host.files.info(_POLICY) is None:  # then every image is taken, as by runtimes; else the policy rules
            options.append("--insecure-policy")
        return tuple(options)

    def _said(self, error: CommandError) -> str:
        messages = _MESSAGE.findall(error.stderr)
        said = (messages[-1] if messages else error.stderr.strip() or "no message").replace('\\"', '"')
        if _TOO_LARGE in said:
            said = f"the registry sends more than {self._limit} bytes of one blob; raise unpacked_limit to allow more"
        missing = [ref.name for ref in pull_secrets(self.request.pod) if ref not in self.request.objects]
        if missing:
            said += f"; imagePullSecrets of the Pod that do not exist: {', '.join(missing)}"
        return said

    @property
    def _limit(self) -> int:
        return self.host.settings_of(ImageSettings).unpacked_limit.to_int()

    def _is_insecure(self) -> bool:
        return self.named.host in self.host.settings_of(ImageSettings).insecure_registries

    @contextmanager
    def _authfile(self) -> Generator[Path]:
        """Write the credentials to a file system in memory of their own, and take it away at once."""
        directory = self.cache.work(Use(self.request.pod.uid, self.request.spec.name)) / "auth"
        self.host.files.ensure_directory(directory, 0o700, parents_mode=0o700)
        swap = ("noswap",) if self.host.kernel.tmpfs_noswap else ()
        options = ("mode=0700", "size=4m", "nosuid", "nodev", "noexec", *swap)
        try:
            self.host.mounts.ensure_mounted(directory, "tmpfs", source="volmgr", options=options)
            self.host.files.write(directory / "auth.json", self._credentials(), 0o600)
            yield directory / "auth.json"
        finally:
            self.host.mounts.unmount(directory)
            self.host.files.remove_directory(directory)

    def _credentials(self) -> bytes:
        path = self.host.settings_of(ImageSettings).authfile
        node = self.host.files.read(Path(path), _AUTHFILE_LIMIT) if path else None
        if path and node is None:
            raise OperationError(f"the authfile {path} of the configuration does not exist")
        found = (self.request.objects.get(ref) for ref in pull_secrets(self.request.pod))
        return authfile(node, path, [item for item in found if isinstance(item, Secret)])


def pull_secrets(pod: Pod) -> tuple[ObjectRef, ...]:
    """Name the imagePullSecrets of a Pod."""
    names = (ref.name for ref in pod.spec.image_pull_secrets if ref.name)
    return tuple(ObjectRef("Secret", pod.metadata.namespace, name) for name in names)


def _environment(home: Path) -> dict[str, str]:
    """Give the client the daemon's proxies, and a home in which nobody has left other credentials."""
    return {"HOME": str(home), **{name: os.environ[name] for name in _PROXIES if name in os.environ}}
