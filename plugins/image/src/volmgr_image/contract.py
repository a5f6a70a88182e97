"""What the contract suite tries image volumes with; and how a small image is made, for tests of anybody."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volmgr.plugin import Host
from volmgr.testing import Sample
from volmgr_image.source import ImageSource

Files = Mapping[str, bytes | None]
"""The content of files by their paths; None makes a directory."""

_IMAGE = "application/vnd.oci.image"


def samples(top: Path) -> Iterator[Sample]:
    """Give images in a directory that the suite owns."""
    layers: list[Files] = [
        {"etc": None, "etc/old": b"1", "bin/tool": b"#!"},
        {"etc/.wh.old": b"", "etc/new": b"2" * 4096},
    ]
    files = layout(tar(layer) for layer in layers)

    def directory(host: Host) -> None:
        write(host, top / "layout", files)

    def archive(host: Host) -> None:
        host.files.write(top / "image.tar", tar(files))

    yield Sample(source=ImageSource(reference=f"oci:{top}/layout:v1"), arrange=directory)
    yield Sample(source=ImageSource(reference=f"oci:{top}/layout", pull_policy="Always"), arrange=directory)
    yield Sample(source=ImageSource(reference=f"oci-archive:{top}/image.tar:v1"), arrange=archive)


def write(host: Host, path: Path, files: Files) -> None:
    """Write files below a directory of a host."""
    for name, content in files.items():
        place = path / name
        host.files.ensure_directory(place.parent, 0o755, parents_mode=0o755)
        if content is not None:
            host.files.write(place, content, 0o644)


def entry(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """Give one entry of a tar archive; `fields` are those of TarInfo."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def tar(files: Files) -> bytes:
    """Give a tar archive of files."""
    return archive_of(
        entry(name, type=tarfile.DIRTYPE, mode=0o755) if content is None else entry(name, content)
        for name, content in files.items()
    )


def archive_of(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Give a tar archive of any entries."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


@dataclass
class Blobs:
    """The blobs of a layout, by path."""

    files: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])

    def add(self, data: bytes, kind: str, **fields: object) -> dict[str, object]:
        """Add a blob, and give its descriptor."""
        value = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{value}"] = data
        return {"mediaType": kind, "digest": f"sha256:{value}", "size": len(data), **fields}

    def add_json(self, document: Mapping[str, object], kind: str, **fields: object) -> dict[str, object]:
        """Add a document, and give its descriptor."""
        return self.add(json.dumps(document).encode(), kind, **fields)

    def image(self, layers: Iterable[bytes], **fields: object) -> dict[str, object]:
        """Add an image of uncompressed layers, which it compresses, and give its descriptor."""
        plain = list(layers)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_IMAGE}.manifest.v1+json",
            "config": self.add_json(config, f"{_IMAGE}.config.v1+json"),
            "layers": [self.add(gzip.compress(each, mtime=0), f"{_IMAGE}.layer.v1.tar+gzip") for each in plain],
        }
        return self.add_json(manifest, f"{_IMAGE}.manifest.v1+json", **fields)

    def layout(self, manifests: Sequence[Mapping[str, object]]) -> dict[str, bytes | None]:
        """Give the files of the layout."""
        index = {"schemaVersion": 2, "manifests": list(manifests)}
        return {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps(index).encode(),
            **self.files,
        }


def tagged(tag: str) -> dict[str, object]:
    """Give the annotations of a descriptor that has a tag."""
    return {"annotations": {"org.opencontainers.image.ref.name": tag}}


def layout(layers: Iterable[bytes], tag: str = "v1") -> dict[str, bytes | None]:
    """Give the files of a layout of one image, with a tag."""
    blobs = Blobs()
    return blobs.layout([blobs.image(layers, **tagged(tag))])
