#!/usr/bin/env bash
# initrd.sh ROOT VERSION FILE: the first root of the guest: busybox and the modules that the disk and the shares need.
set -euo pipefail
root=$1 version=$2 file=$3
first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
mkdir "$first"/{bin,dev,lib,new,proc,sys}
cp "$root/bin/busybox" "$first/bin/"

for module in virtio_pci virtio_blk virtio_console virtio_rng 9pnet_virtio 9p ext4 crc32c_intel overlay; do
    chroot "$root" modprobe --set-version "$version" --show-depends "$module" | sed -n 's/^insmod //p'
done | awk '!seen[$1]++ { print $1 }' | while read -r module; do
    cp "$root/$module" "$first/lib/"
    echo "/lib/${module##*/}" >>"$first/lib/order"
done

cat >"$first/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
while read -r module; do $b insmod "$module"; done </lib/order
until [ -b /dev/vda ]; do $b usleep 20000; done
$b mount -t ext4 -o noatime /dev/vda /new
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,access=any,cache=mmap run /new/vm
for each in dev proc sys; do $b mount --move /$each /new/$each; done
exec $b switch_root /new /vm/init
INIT
chmod +x "$first/init"
(cd "$first" && find . | cpio --quiet --create --format=newc | zstd --quiet -3 --force -o "$file")
