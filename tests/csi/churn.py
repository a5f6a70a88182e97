"""Pods that come and go at random, each with one of a few volumes that they share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.csi import objects
from tests.csi.node import CsiNode
from tests.eventually import eventually
from tests.root.acceptance.outside import pod

SHARED: dict[str, Any] = {"accessModes": ["ReadWriteMany"]}


class Churn:
    """`pods` is how many there are at most; about half as many are, once it has run for a while."""

    def __init__(self, node: CsiNode, driver: str, volumes: Sequence[str], pods: int) -> None:
        self._node = node
        self._driver = driver
        self._volumes = volumes
        self._pods = pods
        self._dice = random.Random(24)
        self.came = 0
        """How many Pods there were until now."""
        self.wanted: dict[str, str] = {}
        """The volume of each Pod that there is."""

    def offer_volumes(self) -> None:
        """Let there be claims of all volumes, which the driver must have."""
        for volume in self._volumes:
            self._node.put(f"{volume}.json", *objects.bound(self._driver, volume, **SHARED))

    def step(self) -> None:
        """Let one Pod come, or go."""
        if self._dice.random() < len(self.wanted) / self._pods:
            self._remove(self._dice.choice(sorted(self.wanted)))
        else:
            name = f"pod-{self.came}"
            self.came += 1
            self.wanted[name] = self._dice.choice(self._volumes)
            self._node.put(f"{name}.json", pod(name, objects.claimed(self.wanted[name])))

    @property
    def expected(self) -> set[str]:
        """Where volumes are to be published."""
        return {str(self._node.target(name, f"pv-{volume}")) for name, volume in self.wanted.items()}

    def until_right(self) -> None:
        """Return when the Pods that there are have their volumes, nobody else has any, and no other one is staged."""
        eventually(
            lambda: published(self._node) == self.expected and self._is_staged_right(),
            lambda: (
                f"no difference, but {self.expected ^ published(self._node)}, for {sorted(set(self.wanted.values()))}"
                f" are staged: {self._node.global_mounts()}: {self._node.log_text()}"
            ),
        )

    def _is_staged_right(self) -> bool:
        return len(self._node.global_mounts()) == len(set(self.wanted.values()))

    def end(self) -> None:
        """Let every Pod go, and wait until nothing is left of any."""
        for name in tuple(self.wanted):
            self._remove(name)
        self._node.until_clean()

    def _remove(self, name: str) -> None:
        (self._node.manifests / f"{name}.json").unlink()
        del self.wanted[name]


def published(node: CsiNode) -> set[str]:
    """Give where volumes are published."""
    return {path for path in node.mounts() if "/pods/" in path}
