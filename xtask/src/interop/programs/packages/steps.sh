# What the scripts of both machines share: steps with names, and checks. /case has the commands of
# docs/packages.md, a block a file.
# A line that begins with ! ends nothing by set -e: it needs `|| fail`.
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 SYSTEMD_PAGER='' HOME=/root
mkdir -p /root/folder
cd /root/folder

step() { echo "== $*"; }
fail() { echo "FAILED: $*"; exit 1; }
page() { echo "-- $1"; sh "/case/$1"; }

# The package in the operator's folder.
offer() { rm -f ./*.deb; cp "/case/$1.deb" "wirespeed_0.1.0-$1_amd64.deb"; }

version() { dpkg-query -W -f '${Version}' wirespeed; }

# Repeat until it succeeds, for twenty seconds.
soon() {
    tries=100
    until "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { "$@" || true; fail "never: $*"; }
        sleep 0.2
    done
}

main() { systemctl show -p MainPID --value wirespeed; }

crosses() { ip netns exec inside ping -c 1 -W 2 198.51.100.9; }

# A ping through the router, 20 a second, until `quiet`, which says how many were lost.
traffic() { ip netns exec inside ping -i 0.05 198.51.100.9 > /root/ping 2>&1 & pinger=$!; }
quiet() {
    soon sh -c '[ "$(wc -l < /root/ping)" -gt 40 ]'
    kill -INT $pinger
    wait $pinger || true
    tail -2 /root/ping
    set -- $(sed -n 's/\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 \2/p' /root/ping)
    # One may be on its way at the end.
    [ "$(($1 - $2))" -le 1 ] || fail "$(($1 - $2)) packets were lost"
}

# Nothing of the package is on the machine.
gone() {
    ! getent passwd wirespeed || fail "the user is there"
    ! getent group wirespeed || fail "the group is there"
    left=$(find / -xdev -name '*wirespeed*' ! -path '/root/*' ! -path '/proc/*' ! -path '/sys/*' \
        ! -path '/var/log/*' ! -path '/var/cache/*')
    [ -z "$left" ] || fail "left: $left"
}
