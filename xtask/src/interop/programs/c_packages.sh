# The C library on a Debian without Rust: installed, the examples built against it, run, removed.
# /case has both packages and examples/c.
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root MANWIDTH=80
cd /root

step() { echo "== $*"; }
fail() { echo "FAILED: $*"; exit 1; }

# Repeat until it succeeds, for a minute.
soon() {
    tries=300
    until "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { "$@" || true; fail "never: $*"; }
        sleep 0.2
    done
}

# Start an example and wait until it says that it is ready.
start() {
    ready=$1
    shift
    rm -f said
    # A shell starts programs in the background with SIGINT ignored.
    env --default-signal=INT "$@" > said 2>&1 &
    example=$!
    soon grep -q "$ready" said
}

# Ctrl-C: the example ends, and its interface goes with it.
interrupted() {
    kill -INT $example
    wait $example && fail "it ended with 0" || [ $? -eq 130 ] || fail "another signal"
    soon sh -c '! ip link show ws0'
}

# What nc gets back for a line of text, over TCP or with -u over UDP.
answer() { echo "$1" | { shift; timeout 5 nc "$@"; } | head -n 1; }
echoes() { [ "$(answer "$1" -N 10.9.0.2 7)" = "$1" ]; }
plays() { [ "$(answer '3 4' -u -W 1 10.9.0.2 7777)" = '0 3 4' ]; }
reaches() {
    [ "$(ip netns exec near timeout 5 nc -N 198.51.100.5 80 < /dev/null)" = "behind the proxy" ]
}

step there is no Rust
for program in rustc cargo; do
    ! command -v $program || fail "$program is here"
done

step installed
dpkg -i /case/*.deb
pkg-config --modversion wirespeed
man -w 3 wirespeed
man 3 wirespeed | grep -q ws_stack_new
ldconfig -p | grep -q libwirespeed.so.0

step a proxy, and a server behind it
ip link set lo up
ip addr add 198.51.100.5/32 dev lo
ip netns add near
microsocks -i 127.0.0.1 -p 1080 > proxy.log 2>&1 &
while true; do echo "behind the proxy" | nc -N -l 198.51.100.5 80; done &

for compiler in gcc clang; do
    for static in '' --static; do
        step "the examples by $compiler $static"
        rm -rf built
        mkdir built
        make -s -C /case CC=$compiler STATIC=$static OUT=/root/built
        if [ -z "$static" ]; then
            ldd built/echo | grep -q /libwirespeed.so.0
        else
            ! ldd built/echo | grep libwirespeed
        fi

        start listening built/echo ws0 10.9.0.1/24 10.9.0.2/24 7
        soon echoes "hello from $compiler"
        interrupted

        start playing built/game ws0 10.9.0.1/24 10.9.0.2/24 7777 100000
        soon plays
        interrupted

        # The descriptor stays open when the interface is moved.
        start forwarding built/tun2socks ws0 10.9.0.1/24 10.9.0.2/24 127.0.0.1 1080
        ip link set ws0 netns near
        ip -n near addr add 10.9.0.1/24 dev ws0
        ip -n near link set ws0 up
        ip -n near route add default dev ws0
        soon reaches
        interrupted
        soon sh -c '! ip -n near link show ws0'
    done
done

step "killed in the middle: the next one starts at once, under the same name"
for try in 1 2 3; do
    start listening built/echo ws0 10.9.0.1/24 10.9.0.2/24 7
    head -c 50000000 /dev/zero | timeout 5 nc -N 10.9.0.2 7 > /dev/null &
    soon sh -c '[ "$(cat /sys/class/net/ws0/statistics/tx_packets)" -gt 100 ]'
    kill -KILL $example
    wait $example && fail "it ended with 0" || [ $? -eq 137 ] || fail "another signal"
done

step removed
dpkg --purge libwirespeed-dev libwirespeed0
left=$(find / -xdev -name '*wirespeed*' ! -path '/case/*' ! -path '/root/*' ! -path '/proc/*' \
    ! -path '/sys/*' ! -path '/var/log/*' ! -path '/var/cache/*')
[ -z "$left" ] || fail "left: $left"
echo done
