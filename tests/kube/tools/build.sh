#!/usr/bin/env bash
# build.sh DIRECTORY: the servers and drivers of tests/kube, from the Go modules that go.mod and go.sum pin.
# What is there is kept while go.mod, go.sum, the sources, this script and Go's own version are the same.
set -euo pipefail
directory=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")"

fail() { echo "tests/kube: $*" >&2; exit 1; }
needed=$(sed -n 's/^go //p' go.mod)
remedy="put Go $needed or newer on PATH (Debian's golang-go if it is at least 1.21: that one fetches $needed itself)"
command -v go >/dev/null || fail "the API server cannot be built, there is no go: $remedy"
here=$(cd / && go env GOVERSION)
[[ $here =~ ^go1\.([0-9]+) && ${BASH_REMATCH[1]} -ge 21 ]] || fail "the API server cannot be built by $here: $remedy"

# GOFLAGS of the person who builds must not change what is built.
export GOFLAGS="-buildvcs=false -mod=readonly -trimpath" CGO_ENABLED=0
packages=(
    ./etcd ./loopcsi ./mockcsi ./translate
    k8s.io/kubernetes/cmd/kube-apiserver
    k8s.io/kubernetes/cmd/kube-controller-manager
    github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity
    github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher
)
exec {lock}>"$directory/.lock"
flock "$lock" # another clone may build, too
key=$({ go version; cat go.mod go.sum build.sh ./*/*.go; } | sha256sum)
if [[ -f $directory/.built && $(<"$directory/.built") == "$key" ]]; then
    echo "tests/kube: the servers are built: $directory"
    exit
fi

echo "tests/kube: building the servers, which takes some 20 CPU minutes where nothing was built before"
rm -f "$directory/.built"
# Without these the server calls itself v0.0.0-master, and clients that ask for its version refuse it.
release=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\)$/\1/p' go.mod)
IFS=. read -r major minor _ <<<"${release#v}"
version=k8s.io/component-base/version
go build -o "$directory/" \
    -ldflags "-s -w -X $version.gitVersion=$release -X $version.gitMajor=$major -X $version.gitMinor=$minor" \
    "${packages[@]}"
echo "$key" >"$directory/.built"
echo "tests/kube: built in $SECONDS s: $directory"
