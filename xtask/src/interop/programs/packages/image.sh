#!/bin/sh
# Makes a container's image by dist/Containerfile, and runs a router in it between two namespaces.
#
#   image.sh TREE CONTAINERFILE CASE      in a mount, network and process namespace of its own
#
# The base is the Debian tree, because no registry is asked. CASE has the package, and router.toml.
# buildah runs containers by itself (--isolation chroot), with the capabilities that podman would give.
set -e
tree=$1 recipe=$2 case=$3
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs HOME="$case" TMPDIR="$case"
own() { buildah --root "$case/images" --runroot "$case/running" "$@"; }

base=$(own from scratch)
own add --quiet "$base" "$tree" /
own commit --quiet --rm "$base" localhost/base
own build --quiet --build-arg BASE=localhost/base --file "$recipe" --tag localhost/wirespeed "$case"
of_ours=$(own from localhost/wirespeed)
own run "$of_ours" -- /usr/bin/wirespeed --version

for end in lan0:inside:192.0.2 wan0:outside:198.51.100; do
    port=${end%%:*} net=${end##*:} host=${end#*:}
    host=${host%:*}
    ip netns add "$host"
    ip link add "$port" type veth peer name eth0 netns "$host"
    ip link set "$port" up
    ip -n "$host" addr add "$net.9/24" dev eth0
    ip -n "$host" link set eth0 up
    ip -n "$host" route add default via "$net.1"
done
own run --network host --cap-add CAP_NET_ADMIN --cap-add CAP_NET_RAW \
    --volume "$case/router.toml:/etc/wirespeed/router.toml:ro" "$of_ours" \
    -- /usr/bin/wirespeed up /etc/wirespeed/router.toml > "$case/router.log" 2>&1 &
tries=60
until ip netns exec inside ping -c 1 -W 1 198.51.100.9; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || { cat "$case/router.log"; exit 1; }
    sleep 0.3
done
