#!/usr/bin/env bash
# build.sh DIRECTORY: kernel, first root and disk of the guest, from the packages that this machine's apt knows.
# Needs root, Debian 12's sources, the commands of tools.py and 4 GB for some minutes; 0.8 GB stay.
set -euo pipefail
# Nobody else sees what mmdebstrap mounts: who has a file of it open, such as a copy that somebody makes of the draft,
# would keep it mounted, and what is below it would be taken for the guest's.
[[ ${VOLMGR_VM_ALONE-} ]] || VOLMGR_VM_ALONE=1 exec unshare --mount --propagation private "$0" "$@"
directory=$(readlink -f "$1")
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive TMPDIR=$directory
say() { echo "tests/vm: $SECONDS s: $*"; }

scratch=$directory/scratch root=$directory/scratch/root
mkdir -p "$scratch/packages"
trap 'rm -rf --one-file-system "$scratch"' EXIT

say "the kernel"
image=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-.*\)$/\1/p' | head -n 1)
[[ $image ]] || { echo "tests/vm: apt knows no linux-image-amd64: run apt-get update" >&2; exit 1; }
version=${image#linux-image-}
(cd "$scratch/packages" && apt-get download -qq "$image")
dpkg -x "$scratch"/packages/*.deb "$scratch/kernel"
python3 vmlinux.py "$scratch/kernel/boot/vmlinuz-$version" "$directory/vmlinux"

say "the packages"
sources=()
for each in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [[ -s $each ]] && sources+=("$each")
done
mapfile -t packages < <(grep --invert-match -e '^#' -e '^$' packages.txt)
mmdebstrap --quiet --mode=root --variant=minbase --include="${packages[*]}" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    bookworm "$root" "${sources[@]}"

say "the modules"
modules=$root/usr/lib/modules/$version
mkdir -p "${modules%/*}"
cp --archive "$scratch/kernel/lib/modules/$version" "$modules"
# Hardware that no guest has is two thirds of them.
rm -rf "$modules"/kernel/sound "$modules"/kernel/net/{bluetooth,mac80211,wireless} \
    "$modules"/kernel/drivers/{bluetooth,gpu,hid,hwmon,iio,infiniband,input,media,staging,usb} \
    "$modules"/kernel/drivers/net/{ethernet,wireless}
chroot "$root" depmod --all "$version"

say "the disk"
echo '127.0.0.1 localhost vm' >"$root/etc/hosts"
echo '::1 localhost' >>"$root/etc/hosts"
echo uninitialized >"$root/etc/machine-id"
mkdir "$root/vm"
install --mode=0644 container.cil "$root/tmp/"
chroot "$root" semodule --noreload --install /tmp/container.cil 2>&1 | { grep --invert-match sddm || true; }
./initrd.sh "$root" "$version" "$directory/initrd"
mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0 -L root -d "$root" "$directory/root.img" 4G
say "built"
