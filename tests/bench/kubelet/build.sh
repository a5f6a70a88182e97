#!/usr/bin/env bash
# build.sh OUT_DIR: build OUT_DIR/kubelet-anchor, unless OUT_DIR/.stamp says that it is of these sources and this Go.
# Flags as those of the Kubernetes lane: then both share what they compile.
set -euo pipefail
OUT=$(mkdir -p "$1" && cd "$1" && pwd); cd "$(dirname "$0")"
export GOFLAGS="-buildvcs=false -mod=readonly -trimpath" CGO_ENABLED=0
KEY=$({ go version; cat go.mod go.sum build.sh ./*.go; } | sha256sum)
if [ -x "$OUT/kubelet-anchor" ] && [ "$(cat "$OUT/.stamp" 2>/dev/null)" = "$KEY" ]; then exit 0; fi
echo "  building kubelet's volume manager, which takes minutes the first time …" >&2
go build -ldflags "-s -w" -o "$OUT/kubelet-anchor" .
echo "$KEY" > "$OUT/.stamp"
