"""Where everything lies below the root directory: kubelet's layout, and ours beside it. Pure.

Source: `behaviours.md` §1, which is `pkg/kubelet/kubelet_getters.go` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volmgr.model.names import escape


@dataclass(frozen=True, slots=True)
class Paths:
    """The layout below `root`, which is absolute and has no symbolic link in it; a join of many parts is one step."""

    root: Path

    @property
    def pods(self) -> Path:
        """One directory per Pod UID."""
        return self.root / "pods"

    @property
    def plugins(self) -> Path:
        """Device mounts of each plugin."""
        return self.root / "plugins"

    @property
    def state(self) -> Path:
        """Our own records; kubelet ignores this directory."""
        return self.root / "volmgr"

    @property
    def trash(self) -> Path:
        """Large directories on their way out: renamed here, deleted in the background."""
        return self.state / "trash"

    @property
    def secrets(self) -> Path:
        """What is secret and is kept all the same, for `kubernetes.checkpoint_secrets` alone."""
        return self.state / "secrets"

    def pod(self, uid: str) -> Path:
        """Give everything of one Pod."""
        return self.root.joinpath("pods", uid)

    def volumes(self, uid: str) -> Path:
        """Give a Pod's file-system volumes, by escaped plugin name."""
        return self.root.joinpath("pods", uid, "volumes")

    def volume(self, uid: str, plugin: str, spec_name: str) -> Path:
        """Give one file-system volume of a Pod."""
        return self.root.joinpath("pods", uid, "volumes", escape(plugin), spec_name)

    def block_volumes(self, uid: str) -> Path:
        """Give a Pod's block volumes, by escaped plugin name."""
        return self.root.joinpath("pods", uid, "volumeDevices")

    def block_volume(self, uid: str, plugin: str, spec_name: str) -> Path:
        """Give the symbolic link to the device of one block volume of a Pod."""
        return self.root.joinpath("pods", uid, "volumeDevices", escape(plugin), spec_name)

    def pod_plugin(self, uid: str, plugin: str, name: str) -> Path:
        """Give what a plugin keeps for one volume of a Pod: its ready marker."""
        return self.root.joinpath("pods", uid, "plugins", escape(plugin), name)

    def subpaths(self, uid: str) -> Path:
        """Give the bind targets of a Pod's subPaths."""
        return self.root.joinpath("pods", uid, "volume-subpaths")

    def records(self, uid: str) -> tuple[Path, Path]:
        """Give where our own records of a Pod lie: that it was accepted, and the directory of its mounts."""
        return self.root.joinpath("volmgr", "pods", f"{uid}.json"), self.root.joinpath("volmgr", "mounts", uid)

    def plugin(self, plugin: str) -> Path:
        """Give a plugin's own directory; its name is not escaped."""
        return self.root / "plugins" / plugin

    def block_maps(self, plugin: str) -> Path:
        """Give the global block maps of a plugin, one directory per volume."""
        return self.root / "plugins" / plugin / "volumeDevices"
