"""What the sources of one projected volume need, and which files they give."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from volmgr.plugin import (
    Host,
    Mount,
    ObjectRef,
    OperationError,
    Payload,
    PayloadFile,
    PluginError,
    Pod,
    Reference,
    ServiceAccount,
    SpecError,
    TransientError,
    VolumeSpec,
    allocatable,
    capacity,
    check_downward,
    check_items,
    clean_path,
    clean_paths,
    downward_files,
    mode_of,
    object_files,
)
from volmgr_projected import bundles
from volmgr_projected.credentials import check_certificate, credentials
from volmgr_projected.sources import (
    BundleProjection,
    CertificateProjection,
    DownwardProjection,
    ObjectProjection,
    ProjectedSource,
    Source,
    TokenProjection,
)

_Failure = SpecError | OperationError | TransientError | PluginError
_PRIVATE_MODE = 0o600
"""The mode of a token that belongs to somebody: one user, or a group (which may read it, then)."""


def references_of(spec: VolumeSpec[ProjectedSource], pod: Pod) -> Iterator[Reference]:
    """Name every object that the sources need; raises SpecError as `check_sources` does."""
    namespace = pod.metadata.namespace
    for source in spec.source.sources:
        match _only(source):
            case ObjectProjection() as given:
                yield Reference(_named(given, source, namespace), optional=given.optional)
            case DownwardProjection():
                yield Reference(ObjectRef("Pod", namespace, pod.metadata.name))
            case TokenProjection():
                yield Reference(_account(pod), optional=True)
            case BundleProjection() as given:
                yield bundles.reference(given)
            case CertificateProjection():
                pass


def check_sources(spec: VolumeSpec[ProjectedSource], pod: Pod | None) -> None:
    """Raise SpecError with what is wrong with each source, whatever objects there are."""
    default = spec.source.default_mode
    mode_of(default)
    problems: list[str] = []
    for number, source in enumerate(spec.source.sources):
        try:
            _check(source, pod, default)
        except SpecError as error:
            problems.append(f"sources[{number}]: {error}")
    if problems:
        raise SpecError(", and ".join(problems))
    certain = (_clean(path) for source in spec.source.sources for path in _certain_paths(_only(source)))
    clean_paths(dict.fromkeys(certain))  # of equal paths the last one counts


def _check(source: Source, pod: Pod | None, default: int | None) -> None:
    match _only(source):
        case ObjectProjection() as given:
            _named(given, source, "")
            check_items(given.items, default)
        case DownwardProjection() as given:
            check_downward(given.items, pod, default)
        case TokenProjection() as given:
            clean_path(given.path)
        case BundleProjection() as given:
            bundles.reference(given)
            clean_path(given.path)
        case CertificateProjection() as given:
            check_certificate(given)


def _certain_paths(given: _Part) -> Iterator[str]:
    """Give the paths at which there will be a file for sure."""
    match given:
        case ObjectProjection(optional=True):
            return
        case ObjectProjection() | DownwardProjection():
            yield from (item.path for item in given.items)
        case TokenProjection() | BundleProjection():
            yield given.path
        case CertificateProjection():
            yield from given.paths


_Part = ObjectProjection | DownwardProjection | TokenProjection | BundleProjection | CertificateProjection


def _only(source: Source) -> _Part:
    parts = (
        source.secret,
        source.config_map,
        source.downward_api,
        source.service_account_token,
        source.cluster_trust_bundle,
        source.pod_certificate,
    )
    given = [part for part in parts if part is not None]
    if len(given) != 1:
        raise SpecError(
            f"names {len(given)} of secret, configMap, downwardAPI, serviceAccountToken, clusterTrustBundle and"
            " podCertificate; a source is exactly one of them"
        )
    return given[0]


def _named(given: ObjectProjection, source: Source, namespace: str) -> ObjectRef:
    kind, field = ("Secret", "secret") if source.secret is given else ("ConfigMap", "configMap")
    if not given.name:
        raise SpecError(f"{field}.name is missing; name the {kind}")
    return ObjectRef(kind, namespace, given.name)


def _account(pod: Pod) -> ObjectRef:
    return ObjectRef("ServiceAccount", pod.metadata.namespace, pod.spec.service_account_name or "default")


@dataclass(frozen=True, slots=True)
class Projection:
    """The files of one volume, as of now."""

    request: Mount[ProjectedSource]
    host: Host

    def payload(self) -> Payload:
        """Give all files, a later source's before an earlier one's of the same path.

        What is wrong with every source is one error: of the author's, unless something else is wrong, too, and may
        be mended without them.
        """
        files: dict[str, PayloadFile] = {}
        failures: list[tuple[int, _Failure]] = []
        for number, source in enumerate(self.request.spec.source.sources):
            try:
                given = {_clean(path): file for path, file in self._files(source, number).items()}
            except (SpecError, OperationError, TransientError, PluginError) as error:
                failures.append((number, error))
                continue
            self._say_replaced(number, files.keys() & given.keys())
            files.update(given)
        if failures:
            raise _together(self.request.spec.name, failures)
        return files

    def _say_replaced(self, number: int, paths: set[str]) -> None:
        if paths:
            self.request.progress(f"sources[{number}] replaces {', '.join(sorted(paths))} of an earlier source")

    def _files(self, source: Source, number: int) -> Payload:
        match _only(source):
            case ObjectProjection() as given:
                return self._of_object(given, source)
            case DownwardProjection() as given:
                available = allocatable(self.request.node, capacity(self.host))
                return downward_files(given.items, self.request.pod, available, self._default_mode)
            case TokenProjection() as given:
                return {given.path: self._token(given)}
            case BundleProjection() as given:
                return {given.path: self._bundle(given)}
            case CertificateProjection() as given:
                return credentials(given, number, self.request, self.host, self._held, self._private)

    @property
    def _default_mode(self) -> int | None:
        return self.request.spec.source.default_mode

    def _of_object(self, given: ObjectProjection, source: Source) -> Payload:
        ref = _named(given, source, self.request.pod.metadata.namespace)
        return object_files(
            self.request.objects, ref, given.items, default_mode=self._default_mode, optional=given.optional
        )

    def _bundle(self, given: BundleProjection) -> PayloadFile:
        found = bundles.chosen(given, self.request.objects)
        if not found and not given.optional:
            which = str(bundles.reference(given).ref)
            raise TransientError(f"{which} is missing", waits_for=which)
        return PayloadFile(data=bundles.certificates(found), mode=mode_of(None, self._default_mode))

    def _token(self, given: TokenProjection) -> PayloadFile:
        request = self.request
        account = request.objects.get(_account(request.pod))
        token = self.host.tokens.issue(
            request.pod,
            audience=given.audience,
            expiration_seconds=given.expiration_seconds,
            account=account if isinstance(account, ServiceAccount) else None,
            held=self._held(given.path).decode("ascii", "replace"),
        )
        return self._private(token.value.encode(), token.due_at)

    def _private(self, data: bytes, due_at: float) -> PayloadFile:
        """Give a file for the Pod's user alone, where there is one user, or for its group."""
        request = self.request
        owned = request.fs_user is not None or request.fs_group is not None
        mode = _PRIVATE_MODE if owned else mode_of(None, self._default_mode)
        owner = -1 if request.fs_user is None else request.fs_user
        return PayloadFile(data=data, mode=mode, uid=owner, due_at=due_at)

    def _held(self, path: str) -> bytes:
        """Give what the volume has there: whoever issued it says whether it is still good."""
        data: bytes | None = None
        with suppress(OperationError):  # whatever is there is replaced, or named by who writes
            data = self.host.atomic.read(self.request.target, path) if path else None
        return data or b""


def _clean(path: str) -> str:
    """Let equal paths be equal; one that may not be is left to who writes."""
    return path if not path or ".." in path.split("/") else posixpath.normpath(path)


def _together(volume: str, failures: list[tuple[int, _Failure]]) -> _Failure:
    text = ", and ".join(f"sources[{number}]: {error}" for number, error in failures)
    message = f"volume {volume}: {text}"
    if all(isinstance(error, SpecError) for _, error in failures):
        return SpecError(message)
    if all(isinstance(error, TransientError) for _, error in failures):
        first = failures[0][1]
        return TransientError(message, waits_for=first.waits_for if isinstance(first, TransientError) else "")
    return OperationError(message)
