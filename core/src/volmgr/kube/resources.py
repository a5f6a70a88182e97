"""What there is on an API server that volumes need, and the path of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object; `group` is empty for the core group."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What its objects say in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Give the path of one object, or of all of a namespace, or of all."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


PODS = Resource("Pod", "", "v1", "pods")
NODES = Resource("Node", "", "v1", "nodes", namespaced=False)
CONFIG_MAPS = Resource("ConfigMap", "", "v1", "configmaps")
SECRETS = Resource("Secret", "", "v1", "secrets")
CLAIMS = Resource("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
VOLUMES = Resource("PersistentVolume", "", "v1", "persistentvolumes", namespaced=False)
SERVICE_ACCOUNTS = Resource("ServiceAccount", "", "v1", "serviceaccounts")
EVENTS = Resource("Event", "", "v1", "events")
ATTACHMENTS = Resource("VolumeAttachment", "storage.k8s.io", "v1", "volumeattachments", namespaced=False)
CSI_DRIVERS = Resource("CSIDriver", "storage.k8s.io", "v1", "csidrivers", namespaced=False)
CSI_NODES = Resource("CSINode", "storage.k8s.io", "v1", "csinodes", namespaced=False)
TRUST_BUNDLES = Resource("ClusterTrustBundle", "certificates.k8s.io", "v1", "clustertrustbundles", namespaced=False)
CERTIFICATE_REQUESTS = Resource("PodCertificateRequest", "certificates.k8s.io", "v1", "podcertificaterequests")

BY_KIND: Mapping[str, Resource] = MappingProxyType(
    {
        each.kind: each
        for each in (
            PODS,
            NODES,
            CONFIG_MAPS,
            SECRETS,
            CLAIMS,
            VOLUMES,
            SERVICE_ACCOUNTS,
            EVENTS,
            ATTACHMENTS,
            CSI_DRIVERS,
            CSI_NODES,
            TRUST_BUNDLES,
            CERTIFICATE_REQUESTS,
        )
    }
)
