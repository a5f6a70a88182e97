"""What Kubernetes mode is made of before there is a world: API, thread, and the tokens and certificates of the host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.errors import OperationError
from volmgr.kube.certificates import KubeCertificates
from volmgr.kube.checkpoint import TokensOnDisk
from volmgr.kube.thread import KubeThread
from volmgr.kube.tokens import KubeTokens

if TYPE_CHECKING:
    from volmgr.config import Config
    from volmgr.host.interface import Host
    from volmgr.kube.api import Api

log = logging.getLogger("volmgr.kube")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeEquipment:
    """What a host is equipped with, and what the rest of Kubernetes mode runs on."""

    api: Api
    thread: KubeThread
    tokens: KubeTokens
    kept: TokensOnDisk | None
    """Tokens on disk, with `checkpoint_secrets` alone."""
    certificates: KubeCertificates

    @classmethod
    def of(cls, api: Api, config: Config, host: Host, appeared: Callable[[str], None]) -> KubeEquipment:
        """Make it; `appeared` is called on the thread of Kubernetes mode with what somebody waits for."""
        settings = config.kubernetes
        thread = KubeThread(settings.requests)
        kept = TokensOnDisk(host.files, host.paths) if settings.checkpoint_secrets else None
        return cls(
            api=api,
            thread=thread,
            tokens=KubeTokens(api, settings, kept=kept),
            kept=kept,
            certificates=KubeCertificates(thread, api, settings, config.node_name, appeared),
        )

    def equip(self, host: Host) -> Host:
        """Give a host whose tokens and certificates come from the server."""
        return host.with_tokens(self.tokens).with_certificates(self.certificates)

    def forget(self, uid: str) -> None:
        """Drop what was issued for a Pod that is gone; on a worker."""
        self.certificates.forget(uid)
        try:
            self.tokens.forget(uid)
        except OperationError as error:  # the next look at what is in use tries again
            log.warning("a kept token of the Pod %s is still on disk: %s", uid, error)

    def retain(self, uids: Collection[str]) -> None:
        """Keep on disk what was issued for these Pods, and nothing else; raises OperationError. On a worker."""
        if self.kept is not None:
            self.kept.retain(uids)
