"""SELinux: which label a Pod asks for a volume's files, and whether the volume is mounted with it. Pure.

Source: `pkg/volume/util/selinux.go` of kubelet 1.37, and SELinux' own grammar of labels: `user:role:type[:level]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volmgr.model.pod import Pod, SELinuxOptions
    from volmgr.model.volume import PersistentVolume

RECURSIVE = "Recursive"
"""The `seLinuxChangePolicy` of a Pod that wants its runtime to relabel every file."""
ONE_POD = ("ReadWriteOncePod",)

_CONTEXT = re.compile(r'(?:^|,)context=(?:"([^"]*)"|([^,]*))')
_PART = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_LEVEL = re.compile(r"[A-Za-z0-9_.,:-]+", re.ASCII)
_SHORT_MODES = {"ReadWriteMany": "RWX", "ReadOnlyMany": "ROX", "ReadWriteOnce": "RWO", "ReadWriteOncePod": "RWOP"}


class Policy(Protocol):
    """What the node's SELinux policy says of containers' files."""

    def file_label(self, options: SELinuxOptions) -> str:
        """Give the label of files that a container of these options may use.

        Empty where the node has no SELinux, or where the options leave the level to the runtime, which chooses one
        that nobody knows yet. Raises ValueError for what is no part of a label.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoPolicy:
    """A node without SELinux: nothing has a label."""

    def file_label(self, options: SELinuxOptions) -> str:
        """Give none."""
        del options
        return ""


@dataclass(frozen=True, slots=True)
class DefaultLabel:
    """A policy with one label for all containers' files, such as `system_u:object_r:container_file_t:s0`.

    Of a container's options its user and its level hold for files, too; role and type are those of its process.
    """

    label: str

    def file_label(self, options: SELinuxOptions) -> str:
        """Complete the options."""
        check(options)
        user, role, kind = self.label.split(":", 3)[:3]
        return f"{options.user or user}:{role}:{kind}:{options.level}" if options.level else ""


def check(options: SELinuxOptions) -> None:
    """Refuse what is no part of a label; raises ValueError.

    Labels are mount options: a quotation mark in a level would end the option and begin another.
    """
    for name, text in (("user", options.user), ("role", options.role), ("type", options.type)):
        if text and not _PART.fullmatch(text):
            raise ValueError(f"seLinuxOptions.{name} {text!r} is no part of an SELinux label")
    if options.level and not _LEVEL.fullmatch(options.level):
        raise ValueError(f"seLinuxOptions.level {options.level!r} is no SELinux level; write one such as s0:c1,c2")


def context_option(label: str) -> tuple[str, ...]:
    """Give the mount option that gives all files a label, in quotes since levels have commas; none for no label."""
    return (f'context="{label}"',) if label else ()


def mounted_label(options: Iterable[str]) -> str:
    """Give the label that a mount's options, as the mount table has them, give all files; empty when they give none."""
    found = _CONTEXT.search(",".join(options))  # the table's options were parted at the commas of levels, too
    return (found[1] or found[2] or "") if found else ""


class Trouble(StrEnum):
    """Which comparison of labels failed; kubelet's metrics are named after it."""

    CONTAINER = "container"
    """A container's options are no label."""
    POD = "pod_context_mismatch"
    """Containers of one Pod want different labels."""
    VOLUME = "volume_context_mismatch"
    """Pods want different labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTrouble:
    """One failed comparison, as it is counted; `error`: it keeps a volume from being mounted."""

    kind: Trouble
    error: bool
    plugin: str
    access_mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWish:
    """What one Pod asks of one volume: the label of its files, or what is wrong with that.

    `applied`: the volume is mounted with the label, and what is wrong is an error; otherwise it is only counted.
    """

    label: str = ""
    applied: bool = False
    trouble: Trouble | None = None
    problem: str = ""

    @property
    def mount_label(self) -> str:
        """The label to mount with; empty for none."""
        return self.label if self.applied else ""


NO_WISH = LabelWish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling:
    """What the node says of labels: its policy, and whether volumes of any access mode are mounted with them."""

    policy: Policy = NoPolicy()
    any_access_mode: bool = True
    """Kubelet's gate SELinuxMount, on from 1.37; off: only volumes that one Pod has for itself (ReadWriteOncePod)."""

    @classmethod
    def of(cls, label: str, *, any_access_mode: bool) -> Labelling:
        """Give what a node says whose containers' files have this label; empty: it has no SELinux."""
        return cls(policy=DefaultLabel(label) if label else NoPolicy(), any_access_mode=any_access_mode)

    def wish(self, pod: Pod, names: Iterable[str], pv: PersistentVolume | None, *, supported: bool) -> LabelWish:
        """Give the label that a Pod asks for a volume that it knows by these names.

        `supported`: its type mounts with a label. A volume declared in a Pod never is mounted with one.
        """
        if not supported or pod.spec.security_context.se_linux_change_policy == RECURSIVE:
            return NO_WISH
        applied = pv is not None and (self.any_access_mode or pv.access_modes == ONE_POD)
        try:
            labels = self._labels(pod, frozenset(names))
        except ValueError as error:
            return LabelWish(applied=applied, trouble=Trouble.CONTAINER, problem=f"cannot label the volume: {error}")
        if len(labels) > 1:
            problem = (
                f"multiple SELinux labels: its containers use the volume with {_each(labels)};"
                " give them one, or set the Pod's seLinuxChangePolicy to Recursive"
            )
            return LabelWish(applied=applied, trouble=Trouble.POD, problem=problem)
        return LabelWish(label=next(iter(labels), ""), applied=applied)

    def _labels(self, pod: Pod, names: frozenset[str]) -> Mapping[str, str]:
        """Give the distinct labels, each with the first container that has it."""
        found: dict[str, str] = {}
        for container, options in _options(pod, names):
            label = self.policy.file_label(options)
            found.setdefault(label, container)
        return found


def access_mode(pv: PersistentVolume | None) -> str:
    """Give the most permissive access mode as kubelet's metrics name it; `inline` without a PersistentVolume."""
    if pv is None:
        return "inline"
    return next((short for mode, short in _SHORT_MODES.items() if mode in pv.access_modes), "")


def _options(pod: Pod, names: frozenset[str]) -> Iterator[tuple[str, SELinuxOptions]]:
    """Give the options of each container that mounts the volume and has any; a container's override its Pod's."""
    whole = pod.spec.security_context.se_linux_options
    for container in pod.all_containers():
        options = container.security_context.se_linux_options or whole
        if options is not None and any(mount.name in names for mount in container.volume_mounts):
            yield container.name, options


def _each(labels: Mapping[str, str]) -> str:
    return " and ".join(f"{label or 'none'} (container {name})" for label, name in labels.items())
