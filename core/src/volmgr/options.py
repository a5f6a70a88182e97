"""The command line of volmgrd, and the configuration that it chooses."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from volmgr import ROOT, SOCKET, __version__
from volmgr.config import Config, load_config, refused
from volmgr.errors import VolmgrError
from volmgr.host.filesystems import FileSystemSettings
from volmgr.model.schema import SchemaError
from volmgr.plugins import Plugins, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says; named as there."""

    root_dir: Path
    manifests: Path | None
    socket: Path
    config: Path | None
    node_name: str
    kubeconfig: Path | None
    in_cluster: bool
    log_format: str
    verbose: bool
    check_plugins: bool

    @classmethod
    def parse(cls, argv: list[str] | None) -> Options:
        """Read the command line, this process' own when None; ends the process when it is wrong."""
        return cls(**vars(parser().parse_args(argv)))

    @property
    def is_kubernetes_mode(self) -> bool:
        """There is an API server, whichever way it is named."""
        return self.in_cluster or self.kubeconfig is not None

    def configuration(self) -> Config:
        """Read the file, and give what it says in this mode; raises ManifestError."""
        config = load_config(self.config) if self.config else Config()
        config = config.in_kubernetes_mode() if self.is_kubernetes_mode else config
        return config.with_node_name(self.node_name) if self.node_name else config

    def settings(self, plugins: Plugins, config: Config) -> tuple[object, ...]:
        """Give the settings for file systems and, as far as a file has some, volume types; raises ManifestError."""
        file_systems = FileSystemSettings(xfs_nouuid=config.xfs_nouuid)
        if self.config is None:
            return (file_systems,)
        try:
            return (file_systems, *read_settings(plugins, config.plugins))
        except SchemaError as error:
            raise refused(self.config, error.problems[0]) from None

    def misconfigured(self, plugins: Plugins) -> str:
        """Say why a daemon with these packages would not start with its configuration; nothing when it would."""
        try:
            self.settings(plugins, self.configuration())
        except VolmgrError as error:
            return str(error)
        return ""


def parser() -> argparse.ArgumentParser:
    """Give what reads the command line."""
    found = argparse.ArgumentParser("volmgrd", description="The volume manager of a node.")
    found.add_argument("--root-dir", type=Path, default=Path(ROOT), help="where volumes and records live (%(default)s)")
    found.add_argument("--manifests", type=Path, help="directory of Kubernetes manifests; none: Pods by API only")
    found.add_argument("--socket", type=Path, default=Path(SOCKET), help="the API's unix socket (%(default)s)")
    found.add_argument("--config", type=Path, help="configuration file, see docs/reference/configuration.md")
    found.add_argument("--node-name", default="", help="the Node, of a cluster or among the manifests, that this is")
    cluster = found.add_mutually_exclusive_group()
    cluster.add_argument("--kubeconfig", type=Path, help="an API server, whose Pods of --node-name get their volumes")
    cluster.add_argument("--in-cluster", action="store_true", help="the same for the cluster that volmgrd is a Pod of")
    found.add_argument("--log-format", choices=("text", "json"), default="text", help="of the log on stderr")
    found.add_argument("--verbose", action="store_true", help="log what goes well, too")
    found.add_argument("--version", action="version", version=f"volmgrd {__version__}")
    found.add_argument("--check-plugins", action="store_true", help=argparse.SUPPRESS)
    return found
