"""Manifests of in-tree types, of all that a person may have written: examples for comparisons."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
DRIVERS = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
PROVISIONERS = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
)
DRIVER_KEYS = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
    "topology.disk.csi.azure.com/zone",
    "topology.csi.vmware.com/zone",
    "topology.csi.vmware.com/region",
)
KEYS = (ZONE, REGION, BETA_ZONE, BETA_REGION, *DRIVER_KEYS, "kubernetes.io/hostname")
ZONES = (
    *("us-east-1a", "us-east-1b", "us-west-2a", "us-gov-east-1a", "us-west-2-lax-1a", "us-east-1-wl1-bos-wlz-1"),
    *("us-central1-a", "us-central1-b", "europe-west4-a", "nova", "0", "1", "westus-1", "世界", "a-b", "a--b", "-"),
    *("", " ", " us-east-1a ", "us-east-10a", "us-east-1ab"),
)
LABELS = (
    *ZONES,
    "us-central1-a__us-central1-b",
    "us-central1-a__europe-west4-a",
    "us-east-1a__us-east-1b",
    "__",
    "a__",
)
ODD = (
    *("vol-0123456789abcdef0", "pvc-1", "", "x y", "..", "a/b", "ä", "[ds] kubevols/pv.vmdk", "C:\\vols\\pv", "%2F"),
    *("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d", "https://a.blob/vhds/d.vhd", "http"),
    *("rg#account#share#disk#ns", "a#b", "##", "projects/p/zones/z/disks/d", "projects/p/zones/z/disks/d/more", "🖴"),
    *("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d"),
    *("projects/UNSPECIFIED/regions/r/disks/d", "projects/UNSPECIFIED/galaxies/g/disks/d"),
    *("azure-storage-account-acme-secret", "azure-storage-account--secret", "my-azure-storage-account-a-secret-s"),
    *("x" * 250, "nul\0"),
)
_FREE = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(ODD) | _FREE
_URL_PARTS = (
    *(
        "us-east-1a",
        "vol-",
        "vol-1",
        "/",
        "/",
        "?x",
        "#f",
        "%41",
        "%2F",
        "%zz",
        "%",
        "%c3%a9",
        "%25",
        "@",
        "user",
        "a:b",
    ),
    *(":", ":80", ":8x", "é", " ", "\\", "<", '"', "^", "\x7f", "\t", "]", "+", "~", "{", "|", "?", "#", "a.b", ""),
)
URLS = st.builds("aws://{}".format, st.lists(st.sampled_from(_URL_PARTS), max_size=6).map("".join))
EBS_IDS = URLS | st.sampled_from(("aws://us-east-1a/vol-1", "aws:///vol-1", "aws://z/vol-1/", "AWS://z/vol-1")) | NAMES
PARTITIONS = st.sampled_from((0, 1, 17, 255, 0, 1, 17, 255, -1, 256))
FS_TYPES = st.sampled_from(("", "ext4", "xfs", "NTFS"))


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries({}, optional=fields)


_NEEDED = NAMES.filter(bool)
_IDS = EBS_IDS.filter(bool)
_COMMON = {"fsType": FS_TYPES, "readOnly": st.booleans()}


def _source(
    needed: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Document]:
    """Give sources that the API takes, and a few that lack something."""
    whole = st.fixed_dictionaries(needed, optional=optional)
    return st.one_of(whole, whole, whole, _optional(**needed, **optional))


_SOURCES: dict[str, st.SearchStrategy[Document]] = {
    "awsElasticBlockStore": _source({"volumeID": _IDS}, partition=PARTITIONS, **_COMMON),
    "azureDisk": _source(
        {"diskName": _NEEDED, "diskURI": _NEEDED},
        cachingMode=st.sampled_from(("", "None", "ReadOnly", "ReadWrite", "odd")),
        kind=st.sampled_from(("Managed", "managed", "MANAGED", "Managed", "Shared", "Dedicated", "")),
        **_COMMON,
    ),
    "azureFile": _source({"secretName": _NEEDED, "shareName": _NEEDED}, readOnly=st.booleans()),
    "cinder": _source({"volumeID": _NEEDED}, secretRef=_optional(name=NAMES), **_COMMON),
    "gcePersistentDisk": _source({"pdName": _NEEDED}, partition=PARTITIONS, **_COMMON),
    "portworxVolume": _source({"volumeID": _NEEDED}, **_COMMON),
    "vsphereVolume": _source({"volumePath": _NEEDED}, fsType=FS_TYPES, storagePolicyName=NAMES, storagePolicyID=NAMES),
}
_OF_PVS = {
    **_SOURCES,
    "azureFile": _source({"secretName": _NEEDED, "shareName": _NEEDED}, readOnly=st.booleans(), secretNamespace=NAMES),
    "cinder": _source({"volumeID": _NEEDED}, secretRef=_optional(name=NAMES, namespace=NAMES), **_COMMON),
}
_EXPRESSION = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "operator": st.sampled_from(("In", "In", "In", "NotIn", "Exists"))},
    optional={"values": st.lists(st.sampled_from(ZONES), max_size=3)},
)
_TERM = _optional(
    matchExpressions=st.lists(_EXPRESSION, max_size=4),
    matchFields=st.just([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
)
_REQUIRED = _optional(nodeSelectorTerms=st.lists(_TERM, max_size=3))
_ANNOTATIONS = _optional(
    **{
        "openstorage.io/auth-secret-name": NAMES,
        "openstorage.io/auth-secret-namespace": NAMES,
        "kubernetes.io/azure-file-resource-group": NAMES,
        "other": NAMES,
    }
)
_METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(("pv-1", "pvc-0f1e", "a.b"))},
    optional={
        "labels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(LABELS), max_size=4),
        "annotations": _ANNOTATIONS,
    },
)
_MODES = st.lists(
    st.sampled_from(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")),
    min_size=1,
    max_size=4,
    unique=True,
)
_SPEC = {
    "nodeAffinity": _optional(required=_REQUIRED),
    "accessModes": _MODES,
    "volumeMode": st.sampled_from(("Filesystem", "Block")),
    "claimRef": _optional(namespace=st.sampled_from(("", "default", "shop")), name=st.just("orders")),
}
_ATTRIBUTES = st.dictionaries(
    st.sampled_from(
        (
            *("partition", "cachingMode", "fsType", "shareName", "sharename", "secretName", "secretnamespace"),
            *("initialvolumefilepath", "storagepolicyname", "other"),
        )
    ),
    st.sampled_from(("", "0", "1", "-3", "+4", "abc", "1.5", " 1", "٣", "ReadOnly", "xfs", "share", "0x1")) | NAMES,
).filter(lambda found: len({key.lower() for key in found}) == len(found))
_DISK, _MANAGED = (
    "projects/p/zones/z/disks/{}",
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/{}",
)
_HANDLES = {
    "disk.csi.azure.com": st.builds(_MANAGED.format, NAMES) | st.builds("https://a.blob/vhds/{}".format, NAMES),
    "file.csi.azure.com": st.lists(st.sampled_from(("", "rg", "account", "share", "ns")), max_size=6).map("#".join),
    "pd.csi.storage.gke.io": st.builds(_DISK.format, NAMES),
}


def _csi(driver: str) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries(
        {"driver": st.just(driver), "volumeHandle": NAMES | _HANDLES.get(driver, NAMES)},
        optional={
            "readOnly": st.booleans(),
            "fsType": FS_TYPES,
            "volumeAttributes": _ATTRIBUTES,
            "nodeStageSecretRef": _optional(name=NAMES, namespace=NAMES),
        },
    )


_CSI = st.sampled_from((*DRIVERS.values(), "other.example.com")).flatmap(_csi)


def sources(*, pv: bool) -> st.SearchStrategy[tuple[str, Document]]:
    """Give the field and the value of sources of Pod volumes, or of PersistentVolumes."""
    found = _OF_PVS if pv else _SOURCES
    return st.sampled_from(sorted(found)).flatmap(lambda field: st.tuples(st.just(field), found[field]))


def _volume(metadata: Document, source: tuple[str, Document], spec: Document) -> Document:
    field, value = source
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**spec, field: value}}


PERSISTENT = st.builds(_volume, _METADATA, sources(pv=True), _optional(**_SPEC))
"""PersistentVolumes of in-tree types."""
PERSISTENT_CSI = st.builds(_volume, _METADATA, st.tuples(st.just("csi"), _CSI), _optional(**_SPEC))
"""PersistentVolumes of csi, most of drivers that took the place of an in-tree type."""
_PARAMETERS = st.dictionaries(
    st.sampled_from(
        (
            *("fstype", "fsType", "FSTYPE", "zone", "Zones", "type", "iopsPerGB", "availability", "skuName", "kind"),
            *("storagePolicyName", "datastore", "DiskFormat", "hostFailuresToTolerate", "csi.storage.k8s.io/fstype"),
            *("openstorage.io/auth-secret-name", "openstorage.io/Auth-Secret-Namespace", "repl"),
        )
    ),
    st.sampled_from(("", "ext4", "us-east-1a", "us-east-1a,us-east-1b", "0,1,x", "10", " a , b ")),
    max_size=5,
).filter(lambda found: _is_definite({key.lower() for key in found}, len(found)))
"""Where two say the same, Go takes one at random."""


def _is_definite(keys: set[str], count: int) -> bool:
    return len(keys) == count and not {"zone", "zones"} <= keys and not {"fstype", "csi.storage.k8s.io/fstype"} <= keys


_SELECTOR = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "values": st.lists(st.sampled_from(ZONES), max_size=3)},
)
CLASSES = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "c"}),
        "provisioner": st.sampled_from((*PROVISIONERS, "kubernetes.io/nfs", "ebs.csi.aws.com")),
    },
    optional={
        "parameters": _PARAMETERS,
        "allowedTopologies": st.lists(_optional(matchLabelExpressions=st.lists(_SELECTOR, max_size=2)), max_size=2),
    },
)
"""StorageClasses."""
NODE_IDS = st.sampled_from(
    ("projects/p/zones/us-central1-a/instances/i", "projects/p/zones/z/instances/i", "i-0123", "", "a/b/c/d/e/f/g")
)
