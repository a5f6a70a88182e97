"""Unpacks the layers of an image, one over the other, into a directory of the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from volmgr.plugin import CommandError, Host, Mount, OperationError, Unpacked, Unpacking
from volmgr_image.layout import FoundImage, Layer
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource

_ROOT_MODE = 0o755  # of a top directory of which no layer speaks
_TOO_LONG = -25  # killed by SIGXFSZ


@dataclass(slots=True)
class Unpacker:
    """What one mount request may still unpack."""

    request: Mount[ImageSource]
    host: Host
    work: Path
    bytes_left: int
    entries_left: int
    content: int = 0

    @classmethod
    def of(cls, request: Mount[ImageSource], host: Host, work: Path) -> Unpacker:
        """Begin with the limits of the configuration."""
        settings = host.settings_of(ImageSettings)
        return cls(request, host, work, settings.unpacked_limit.to_int(), settings.entries_limit)

    def image(self, image: FoundImage, name: str) -> Path:
        """Unpack an image; gives the directory that has it as `rootfs`."""
        made = self.work / "image"
        self.host.files.ensure_directory(made / "rootfs", _ROOT_MODE, parents_mode=0o700)
        for index, layer in enumerate(image.layers, 1):
            what = f"layer {index} of {len(image.layers)} of image {name}"
            self.request.progress(f"unpacking {what}")
            self._layer(layer, made / "rootfs", what)
        return made

    def archive(self, archive: Path, name: str) -> Path:
        """Unpack an archive of a layout; gives the layout."""
        layout = self.work / "layout"
        self.host.files.ensure_directory(layout, 0o700, parents_mode=0o700)
        self.request.progress(f"unpacking the archive of image {name}")
        self._unpack(archive, layout, self._what(f"the archive of image {name}"))
        return layout

    def _layer(self, layer: Layer, target: Path, name: str) -> None:
        if layer.compression != "zstd":
            self._unpack(layer.path, target, self._what(name, layer))
            return
        whole = self._what(name, layer)
        self.host.archives.verify(layer.path, whole, cancelled=self.request.cancelled)  # before zstd is given it
        plain = self._plain(layer.path, name)
        self._unpack(plain, target, replace(whole, digest="", size=None))
        self.host.files.remove_file(plain)

    def _plain(self, path: Path, name: str) -> Path:
        """Uncompress a file by zstd, to no more bytes than are left."""
        for tool, package in (("zstd", "zstd"), ("prlimit", "util-linux")):
            if self.host.commands.find(tool) is None:
                raise OperationError(
                    f"cannot unpack {name}: {tool} is not installed; install the Debian package {package}"
                )
        plain = self.work / "layer.tar"
        argv = ["prlimit", f"--fsize={self.bytes_left}", "zstd", "-d", "-q", "-f", "-o", str(plain), str(path)]
        try:
            self.host.commands.run(argv, cancelled=self.request.cancelled)
        except CommandError as error:
            problem = "it is damaged"
            if error.exit_code == _TOO_LONG or "too large" in error.stderr:
                problem = f"it unpacks to more than {self.bytes_left} bytes; raise the limit to allow more"
            raise OperationError(f"cannot unpack {name}: {problem}") from error
        return plain

    def _what(self, name: str, layer: Layer | None = None) -> Unpacking:
        plain = Unpacking(name=name, bytes_limit=self.bytes_left, entries_limit=self.entries_left)
        if layer is None:
            return plain
        return replace(plain, digest=layer.digest, size=layer.size, content_digest=layer.diff_id, whiteouts=True)

    def _unpack(self, archive: Path, target: Path, what: Unpacking) -> None:
        done: Unpacked = self.host.archives.unpack(
            archive, target, what, cancelled=self.request.cancelled, progress=self.request.progress
        )
        self.bytes_left -= done.archive
        self.entries_left -= done.entries
        self.content += done.content
