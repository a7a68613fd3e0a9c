#!/bin/sh
# scene.sh PROGRAM COMMAND: run the forwarder PROGRAM in a network namespace of a client, behind its
# TUN interface, and COMMAND (a shell line) there. 172.19.0.3 is a host in another namespace, to
# which the client's packets go through the forwarder. The shell line SERVERS runs on that host.
# PROGRAM_CORE and PEER_CORE pin the forwarder and the rest. The last line printed is the processor
# time of the forwarder until COMMAND has ended, in ticks: "forwarder OWN KERNEL", its own and the
# kernel's for it.
set -eu
program=$1
command=$2
client=nsc-$$
server=nss-$$
forwarder=
end() {
    # Only what was started here is in these namespaces.
    for ns in "$client" "$server"; do
        for pid in $(ip netns pids "$ns" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
    done
    wait 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    ip netns del "$server" 2>/dev/null || true
}
trap end EXIT
trap 'exit 1' INT TERM
on() { # on CORE COMMAND...
    core=$1
    shift
    if [ -n "$core" ]; then exec taskset -c "$core" "$@"; else exec "$@"; fi
}
ip netns add "$client"
ip netns add "$server"
ip link add v0 netns "$client" type veth peer name v1 netns "$server"
ip -n "$client" addr add 172.19.0.1/24 dev v0
ip -n "$server" addr add 172.19.0.3/24 dev v1
ip -n "$client" link set lo up
ip -n "$server" link set lo up
ip -n "$client" link set v0 up
ip -n "$server" link set v1 up
(on "${PEER_CORE:-}" ip netns exec "$server" sh -c "${SERVERS:-exec sleep 600}") >&2 &
(on "${PROGRAM_CORE:-}" ip netns exec "$client" "$program" -i v0 -n utun8 --log-level error \
    --current-thread) >&2 &
forwarder=$!
tries=0
until ip -n "$client" route add 172.19.0.3/32 dev utun8 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "the forwarder made no TUN interface" >&2; exit 1; }
    sleep 0.05
done
status=0
(on "${PEER_CORE:-}" ip netns exec "$client" sh -c "$command") || status=$?
ticks=$(awk '{ print $14, $15 }' "/proc/$forwarder/stat")
[ $status = 0 ] || { echo "exit $status: $command" >&2; exit 1; }
echo "forwarder $ticks"
