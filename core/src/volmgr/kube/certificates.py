"""Certificates of Pods that a signer of the cluster signs: PodCertificateRequests, made, awaited and replaced.

Behaviour: kubelet's `pkg/kubelet/podcertificate` of 1.37. A node may watch the requests that name it, all at once: that
is done while one waits, and not a moment longer.
"""

from __future__ import annotations

import base64
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, SpecError, TransientError, VolmgrError, extra_needed
from volmgr.host.interface.certificates import Certificate, CertificateWish
from volmgr.kube.certificate_state import FAILED_PAUSE, State, settled
from volmgr.kube.errors import ApiError
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import CERTIFICATE_REQUESTS, NODES, SERVICE_ACCOUNTS
from volmgr.kube.wire import Seen, seen_of
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.model.pod import Pod

log = logging.getLogger("volmgr.kube")

_Key = tuple[str, str, int]
"""UID of the Pod, name of the volume, number of the source."""


class KubeCertificates:
    """Implements `host.interface.Certificates`; asked on worker threads, told on the thread of Kubernetes mode.

    `appeared` is called on the latter with what a TransientError said to wait for. `wall` is Unix time in seconds.
    """

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        node_name: str,
        appeared: Callable[[str], None],
        *,
        wall: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._node_name = node_name
        self._appeared = appeared
        self._wall = wall
        self._spread = spread
        self._lock = threading.Lock()
        self._states: dict[_Key, State] = {}
        self._reflector: Reflector | None = None
        self._trouble = ""

    def obtain(self, pod: Pod, volume: str, source: int, wish: CertificateWish, held: bytes = b"") -> Certificate:
        """Give a certificate that has not ended, or ask for one and raise TransientError until it is signed.

        One that is due is given as long as it is good; it comes with when it is to be asked for again.
        """
        key = (pod.uid, volume, source)
        state = self._state(key, held)
        now = self._wall()
        if state.good is not None and now < state.good.due_at:
            return state.good
        if state.may_ask(now):
            try:
                state = self._ask(key, state, pod, wish, now)
            except ApiError as error:
                return self._instead(state, _explained(wish, error), now)
            if state.good is not None and now < state.good.due_at:
                return state.good
        if state.refusal:
            kind = SpecError if state.is_final else OperationError
            return self._instead(state, kind(state.refusal), now)
        problem = f"the certificate waits for signer {state.signer} ({state.waits_for})"
        text = f"{problem}; whether it was signed is not known: {self._trouble}" if self._trouble else problem
        return self._instead(state, TransientError(text, waits_for=state.waits_for), now)

    def forget(self, pod_uid: str) -> None:
        """Drop what a Pod has that is gone; from any thread."""
        with self._lock:
            self._states = {key: state for key, state in self._states.items() if key[0] != pod_uid}
        self._thread.post(self._follow)

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the requests of this node."""
        for each in seen:
            self.changed(each)

    def changed(self, seen: Seen) -> None:
        """Take what the signer said of one request."""
        with self._lock:
            key, state = self._waiting(seen)
            if key is None or state is None:
                return
            self._states[key] = after = settled(state, seen, self._wall(), self._spread())
        if not after.name:
            self._tell(state)

    def gone(self, seen: Seen) -> None:
        """Let another request follow one that was deleted: nobody answered it in the time that the server gives."""
        with self._lock:
            key, state = self._waiting(seen)
            if key is None or state is None:
                return
            self._states[key] = State(good=state.good)
        self._tell(state)

    def troubled(self, error: ApiError | None) -> None:
        """Remember why it is not known what was signed."""
        self._trouble = "" if error is None else str(error)

    def _tell(self, state: State) -> None:
        self._thread.post(self._follow)  # later: a reflector is not stopped while it tells something
        self._appeared(state.waits_for)

    def _waiting(self, seen: Seen) -> tuple[_Key, State] | tuple[None, None]:
        for key, state in self._states.items():
            if state.name and (state.namespace, state.name) == (seen.namespace, seen.name):
                return key, state
        return None, None

    def _state(self, key: _Key, held: bytes) -> State:
        with self._lock:
            state = self._states.get(key)
        if state is None and held:
            with extra_needed("podCertificate", "tokens"):
                from volmgr.kube.key_pairs import held_certificate
            state = State(good=held_certificate(held))
        return state or State()

    def _ask(self, key: _Key, state: State, pod: Pod, wish: CertificateWish, now: float) -> State:
        """Make a request, and give what is known then: a signer may be quicker than the answer."""
        with extra_needed("podCertificate", "tokens"):
            from volmgr.kube.key_pairs import new_key
        private, proof = new_key(wish.key_type)
        namespace = pod.metadata.namespace
        name = f"req-{secrets.token_hex(8)}"
        body = self._request(pod, wish, name, proof)
        waiting = State(
            good=state.good, signer=wish.signer_name, name=name, namespace=namespace, private=private, since=now
        )
        with self._lock:
            self._states[key] = waiting
        self._thread.post(self._follow)
        try:
            self._api.create(CERTIFICATE_REQUESTS.path(namespace), body)
        except ApiError:
            with self._lock:
                self._states[key] = State(good=state.good)
            self._thread.post(self._follow)
            raise
        with self._lock:
            return self._states.get(key, waiting)

    def _request(self, pod: Pod, wish: CertificateWish, name: str, proof: bytes) -> dict[str, object]:
        account = pod.spec.service_account_name or "default"
        spec: dict[str, object] = {
            "signerName": wish.signer_name,
            "podName": pod.metadata.name,
            "podUID": pod.uid,
            "serviceAccountName": account,
            "serviceAccountUID": self._uid(SERVICE_ACCOUNTS.path(pod.metadata.namespace, account)),
            "nodeName": self._node_name,
            "nodeUID": self._uid(NODES.path(name=self._node_name)),
            "stubPKCS10Request": base64.b64encode(proof).decode(),
        }
        if wish.max_expiration_seconds is not None:
            spec["maxExpirationSeconds"] = wish.max_expiration_seconds
        if wish.user_annotations:
            spec["unverifiedUserAnnotations"] = dict(wish.user_annotations)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid}
        metadata = {"namespace": pod.metadata.namespace, "name": name, "ownerReferences": [owner]}
        return {
            "apiVersion": CERTIFICATE_REQUESTS.api_version,
            "kind": CERTIFICATE_REQUESTS.kind,
            "metadata": metadata,
            "spec": spec,
        }

    def _uid(self, path: str) -> str:
        return seen_of(self._api.get(path)).uid

    def _instead(self, state: State, error: VolmgrError, now: float) -> Certificate:
        """Give the certificate that there is, for a while; raise when there is none that is good."""
        good = state.good
        if good is None or now >= good.expires_at:
            raise error
        pause = self._settings.await_max
        if not isinstance(error, TransientError):
            pause = FAILED_PAUSE
            log.warning("a certificate is due and stays until %s: %s", rfc3339(good.expires_at), error)
        return replace(good, due_at=min(now + pause, good.expires_at))

    def _follow(self) -> None:
        """Watch the requests of this node while one waits; on the thread of Kubernetes mode."""
        with self._lock:
            waits = any(state.name for state in self._states.values())
        if waits and self._reflector is None:
            selector = f"spec.nodeName={self._node_name}"
            self._reflector = Reflector(
                self._thread, self._api, CERTIFICATE_REQUESTS, self, self._settings, field_selector=selector
            )
            self._reflector.start()
        elif not waits and self._reflector is not None:
            self._reflector.stop()
            self._reflector, self._trouble = None, ""


def _explained(wish: CertificateWish, error: ApiError) -> VolmgrError:
    text = f"a certificate of signer {wish.signer_name}: {error}"
    if error.is_unreachable:
        return TransientError(text, waits_for="the API server")
    return OperationError(text)
