#!/bin/sh
# Runs a shell's line as an ordinary user in a copy of a Debian tree, with the network of the caller and
# our drop-ins found first. Nothing of the tree is changed, and nothing is left.
#
#   tree.sh TREE FOLDER LINE
#
# FOLDER has `ws`, the program, and appears as /case. A chroot is not enough: the kernel refuses user
# namespaces there.
set -e
if [ -z "$IN_TREE" ]; then
    IN_TREE=1 exec unshare -m -p -f --kill-child sh "$0" "$@"
fi
tree=$1 folder=$2 line=$3
mount --make-rprivate /
top=$(mktemp -d)
mount -t tmpfs tmpfs "$top"
mkdir "$top/up" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$top/up,workdir=$top/work" "$top/root"
cd "$top/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
umount -l sys/fs/cgroup 2> /dev/null || true
mount -t cgroup2 none sys/fs/cgroup 2> /dev/null || mount -t tmpfs tmpfs sys/fs/cgroup
mount -t tmpfs tmpfs tmp
chmod 1777 tmp
mount -t tmpfs tmpfs run
mkdir -p run/user/1000 old case home/tester etc/containers usr/libexec/wirespeed
mount --bind "$folder" case
for file in resolv.conf hosts; do cp "$folder/etc/$file" "etc/$file"; done
grep -q '^tester:' etc/passwd || echo 'tester:x:1000:1000::/home/tester:/bin/sh' >> etc/passwd
echo 'tester:100000:65536' > etc/subuid
echo 'tester:100000:65536' > etc/subgid
chown 1000:1000 home/tester run/user/1000
install -m 755 case/ws usr/bin/wirespeed
for name in pasta passt pesto slirp4netns; do
    ln -sf /usr/bin/wirespeed "usr/libexec/wirespeed/$name"
done
cat > etc/containers/containers.conf << 'CONF'
[engine]
helper_binaries_dir = ["/usr/libexec/wirespeed", "/usr/libexec/podman", "/usr/lib/podman"]
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
cgroups = "disabled"
pids_limit = 0
CONF
echo '{"default":[{"type":"insecureAcceptAnything"}]}' > etc/containers/policy.json
if [ ! -e usr/sbin/ip ]; then
    printf '%s\n' '#!/bin/sh' 'exec /case/ip/loader --library-path /case/ip/lib /case/ip/ip "$@"' \
        > usr/sbin/ip
    chmod 755 usr/sbin/ip
fi
chmod 4755 usr/bin/newuidmap usr/bin/newgidmap
pivot_root . old
umount -l /old
exec setpriv --reuid 1000 --regid 1000 --clear-groups env -i LANG=C HOME=/home/tester USER=tester \
    XDG_RUNTIME_DIR=/run/user/1000 PATH=/usr/libexec/wirespeed:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c "cd; podman() { command podman --log-level=error --storage-driver vfs \"\$@\"; }
$line"
