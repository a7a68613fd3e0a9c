#!/bin/sh
# Runs a script of CASE in a copy of a Debian tree that is in memory: under systemd as the first
# process of a container, or without it.
#
#   enter.sh TREE CASE SCRIPT        in a mount, network and process namespace of its own
#
# The machine sees CASE as /case, and is itself at CASE.machine, in memory. The script's output is
# CASE/log, and its exit status this one's.
set -e
tree=$1 case=$2 script=$3
mount --make-rprivate /
mount -t proc proc /proc
top=$case.machine
mkdir "$top"
mount -t tmpfs tmpfs "$top"
mkdir "$top/up" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$top/up,workdir=$top/work" "$top/root"
root=$top/root
mkdir "$root/case"
echo machine > "$root/etc/hostname"
# Package managers of the machine have nothing but the package.
rm -rf "$root"/var/lib/apt/lists/*

if [ "$script" = without-systemd.sh ] || [ "$script" = c_packages.sh ]; then
    mount --bind "$case" "$root/case"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    ip link set lo up
    chroot "$root" sh "/case/$script" > "$case/log" 2>&1
    exit
fi

cat > "$root/etc/systemd/system/case.service" << UNIT
[Unit]
After=basic.target dbus.socket
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/bin/sh /case/$script
StandardOutput=append:/case/log
StandardError=append:/case/log
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../case.service "$root/etc/systemd/system/multi-user.target.wants/case.service"
exec systemd-nspawn --quiet --boot --register=no --keep-unit --directory="$root" --machine=machine \
    --private-network --capability=CAP_NET_ADMIN --bind=/dev/net/tun --bind="$case:/case" \
    --console=pipe
