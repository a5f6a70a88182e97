#!/usr/bin/env bash
# pin.sh RELEASE (such as v1.37.2): go.mod and go.sum for one release of Kubernetes.
# k8s.io/kubernetes requires its staging modules as v0.0.0 and finds them in its own tree: whoever builds it as a
# dependency has to name the tag of each.
set -euo pipefail
release=$1
cd "$(dirname "$0")"
export GOFLAGS=-mod=mod
theirs=$(cd / && go mod download -json "k8s.io/kubernetes@$release" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
{
    echo "module volmgr/tests/kube/tools"
    echo
    grep -E '^(go|godebug) ' "$theirs"
    cat <<TOOLS

tool (
	github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity
	github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher
	k8s.io/kubernetes/cmd/kube-apiserver
	k8s.io/kubernetes/cmd/kube-controller-manager
)

require (
	github.com/kubernetes-csi/csi-test/v5 v5.6.0
	github.com/kubernetes-csi/external-attacher/v4 v4.13.0
	go.etcd.io/etcd/server/v3 v3.7.3
	k8s.io/kubernetes $release
)

replace (
TOOLS
    sed -n "s#^\t\(k8s.io/[a-z-]*\) => ./staging/.*#\t\1 => \1 v0${release#v1}#p" "$theirs"
    echo ")"
} >go.mod
go mod tidy
