"""git as a helper that does nothing but clone and check out: no hooks, no helpers, no configuration but ours.

Against CVE-2024-10220 (hooks of what is cloned), CVE-2025-1767 (repositories of the node) and their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import CommandError, Host, OperationError

_CONFIGURATION = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.logAllRefUpdates": "false",  # it would name the node's user and the time of the clone
    "credential.helper": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "safe.bareRepository": "explicit",
    "transfer.fsckObjects": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "protocol.allow": "never",
}
"""Given as `-c`, which wins over what a clone's own configuration says."""

_ENVIRONMENT = {
    "HOME": "/nonexistent",  # .gitconfig, .netrc, .ssh
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_LFS_SKIP_SMUDGE": "1",
}

_UNPRIVILEGED = ("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--")
"""The user stays, or git could not reach the volume below directories of mode 0750; all its capabilities go."""
_MOST_WORDS = 1000


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one directory, by one protocol; `until` is on the host's clock."""

    host: Host
    protocol: str
    until: float
    cancelled: Callable[[], bool]

    def clone(self, repository: str, directory: str, *, below: Path) -> None:
        """Clone into a directory below another; empty: git names it. Raises OperationError, UncertainError."""
        options = ("--quiet", "--template=", "--no-recurse-submodules", "--no-local")
        target = (directory,) if directory else ()
        self._run(f"clone {repository}", below, ("clone", *options, "--", repository, *target))

    def check_out(self, revision: str, tree: Path) -> None:
        """Check a revision out, and leave nothing else in the tree. Raises OperationError, UncertainError."""
        here = (f"--git-dir={tree}/.git", f"--work-tree={tree}")  # never looked for: files may look like a repository
        what = f"check {revision} out"
        self._run(what, tree, (*here, "checkout", "--quiet", "--no-recurse-submodules", revision, "--"))
        self._run(what, tree, (*here, "reset", "--quiet", "--hard", "--no-recurse-submodules"))

    def _run(self, what: str, directory: Path, arguments: Sequence[str]) -> None:
        left = self.until - self.host.clock()
        if left <= 0:
            raise OperationError(f"cannot {what}: no time is left for it")
        argv = (*_UNPRIVILEGED, "git", "-C", str(directory), *self._options(), *arguments)
        try:
            self.host.commands.run(argv, deadline=left, environment=self._environment(), cancelled=self.cancelled)
        except CommandError as error:
            words = error.stderr.strip()[-_MOST_WORDS:] or f"git exited with {error.exit_code}"
            raise OperationError(f"cannot {what}: {words}") from error

    def _options(self) -> list[str]:
        settings = {**_CONFIGURATION, f"protocol.{self.protocol}.allow": "always"}
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _environment(self) -> Mapping[str, str]:
        return {**_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": self.protocol}
