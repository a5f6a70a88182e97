"""image: the content of an OCI image, read-only, unpacked once for all Pods of the node.

Behaviour: image volumes of Kubernetes 1.37, which kubelet leaves to its runtime; the formats are those of OCI.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import (
    Applies,
    Facets,
    Handles,
    Host,
    Mount,
    Mounted,
    Objects,
    OperationError,
    Pod,
    Reference,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    Where,
    taken_back,
)
from volmgr_image.cache import Cache, Use
from volmgr_image.layout import OciLayout
from volmgr_image.platform import Platform, this_platform
from volmgr_image.reference import Archive, Layout, Named, parse, pull_policy
from volmgr_image.registry import Registry, pull_secrets
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource
from volmgr_image.unpacking import Unpacker


class Image(VolumePlugin[ImageSource]):
    """Give a Pod the files of an image."""

    name = "kubernetes.io/image"
    api_version = 1
    handles = (Handles("image", where=Where.POD, source=ImageSource),)
    settings = ImageSettings
    mount_deadline = 3600.0  # an image may be large, and a registry far away

    def volume_name(self, spec: VolumeSpec[ImageSource]) -> str:
        return spec.source.reference or "image"

    def facets(self, spec: VolumeSpec[ImageSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.NOBODY, directory=False, read_only=True, relabel=False)

    def check(self, spec: VolumeSpec[ImageSource], pod: Pod | None) -> None:
        del pod
        parse(spec.source.reference)
        pull_policy(spec.source.reference, spec.source.pull_policy)

    def references(self, spec: VolumeSpec[ImageSource], pod: Pod) -> tuple[Reference, ...]:
        del spec
        return tuple(Reference(ref, optional=True) for ref in pull_secrets(pod))

    def exclusive(self, spec: VolumeSpec[ImageSource]) -> tuple[str, ...]:
        return (f"{self.name} {spec.source.reference}",)

    def mount(self, request: Mount[ImageSource], host: Host) -> Mounted:
        cache, use = Cache(host), Use(request.pod.uid, request.spec.name)
        reference = request.spec.source.reference
        policy = pull_policy(reference, request.spec.source.pull_policy)
        if cache.is_mounted(use):  # an image does not change under a Pod
            return Mounted(path=cache.place(use))
        cache.clear(use)  # what a killed mount left
        with taken_back(lambda: cache.release(use), f"mounting image {reference!r}"):
            cache.claim(use, reference)
            cache.sweep()
            digest = _Wanted(request, host, cache, use, reference).digest(policy)
            path = cache.bind(use, digest, request.options)
            cache.clear_work(use)
        return Mounted(path=path)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        cache = Cache(host)
        cache.release(Use(request.pod_uid, request.spec_name))
        cache.sweep()
        cache.evict(host.settings_of(ImageSettings).image_cache_limit.to_int())
        return Unmounted()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The image that one mount request wants."""

    request: Mount[ImageSource]
    host: Host
    cache: Cache
    use: Use
    reference: str

    def digest(self, policy: str) -> str:
        """See to it that the image is unpacked and claimed; gives its digest."""
        known, source = self.cache.remembered(self.reference)
        named = parse(self.reference)
        mine = not isinstance(named, Named) or self.cache.is_open_to(self.reference, self._secrets)
        if policy != "Always" and mine and self._claims(known):
            return known
        if policy == "Never":
            present = known and not mine
            raise OperationError(
                f"image {self.reference!r} is not present with pull policy of Never"
                f"{', but for Pods with the imagePullSecrets of those that pulled it' if present else ''};"
                " use it once with IfNotPresent, or write that"
            )
        match named:
            case Layout(path, tag):
                return self._unpacked(OciLayout(self.host, path, self.reference), tag)
            case Archive(path, tag):
                return self._of_archive(path, tag)
            case Named():
                return self._pulled(named, known, source)

    @property
    def _secrets(self) -> tuple[str, ...]:
        """The names of the secrets with which this Pod asks a registry."""
        objects = self.request.objects
        return tuple(f"{ref.namespace}/{ref.name}" for ref in pull_secrets(self.request.pod) if ref in objects)

    def _claims(self, digest: str) -> bool:
        """Claim an image; says whether it is there."""
        return bool(digest) and self.cache.claim(self.use, self.reference, digest)

    def _of_archive(self, path: Path, tag: str) -> str:
        layout = self._unpacker().archive(path, self.reference)
        return self._unpacked(OciLayout(self.host, layout, self.reference), tag)

    def _pulled(self, named: Named, known: str, source: str) -> str:
        registry = Registry(named, self._platform(), self.request, self.host, self.cache)
        now = registry.source()
        if now and now == source and self._claims(known):
            self.cache.remember(self.reference, known, now, self._secrets)
            return known
        digest = self._unpacked(registry.pull(self.reference), "", source=now)
        self.cache.forget_pull(self.reference)
        return digest

    def _unpacked(self, layout: OciLayout, tag: str, *, source: str = "") -> str:
        image = layout.find(tag, self._platform())
        if not self._claims(image.digest):
            unpacker = self._unpacker()
            made = unpacker.image(image, self.reference)
            self.cache.keep(made, image.digest, self.reference, unpacker.content)
            self.cache.evict(self._settings.image_cache_limit.to_int())
        self.cache.remember(self.reference, image.digest, source, self._secrets)
        return image.digest

    def _unpacker(self) -> Unpacker:
        return Unpacker.of(self.request, self.host, self.cache.work(self.use))

    def _platform(self) -> Platform:
        return this_platform(self._settings.platform)

    @property
    def _settings(self) -> ImageSettings:
        return self.host.settings_of(ImageSettings)
