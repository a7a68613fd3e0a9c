//! The attempts to get out of the fence, one a line.

/// From where the line gets through without a fence.
#[derive(Clone, Copy)]
pub(super) enum Free {
    /// From nowhere: there is nothing behind, or the network inside is never the way.
    No,
    /// From a network without rules.
    Unfenced,
    /// From the host alone.
    Host,
}

/// An attempt.
pub(super) struct Attempt {
    pub(super) name: &'static str,
    /// More options of `netns`.
    pub(super) options: &'static str,
    /// The program: a line of shell; it says `blocked: WHY` and ends with 9.
    pub(super) line: &'static str,
    pub(super) free: Free,
    /// The refusal in the log: protocol, and destination or name. `None`: no packet of the
    /// program's asks for it.
    pub(super) logged: Option<&'static str>,
    /// A connection to the shared address may begin.
    pub(super) sends: bool,
}

use Free::{Host, No, Unfenced};

macro_rules! attempts {
    ($($name:literal, $free:ident, $log:literal, $line:literal $(, with $options:literal)?
       $(, sends $sends:literal)?;)*) => {
        pub(super) const ATTEMPTS: &[Attempt] = &[$(Attempt {
            name: $name,
            options: concat!($($options)?),
            line: $line,
            free: $free,
            logged: if $log.is_empty() { None } else { Some($log) },
            sends: false $(|| $sends)?,
        }),*];
    };
}

attempts! {
    // Addresses and ports.
    "a raw address", Unfenced, "tcp 8.8.4.99:80", "$PROBE http 8.8.4.99";
    "the address of an allowed name, without asking", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE shell \
         'curl -sk -m 3 --resolve web.example:443:8.8.4.80 https://web.example/' hello";
    "another port of an allowed name", Unfenced, "tcp 8.8.4.80:80",
        "$PROBE shell 'curl -4 -s -m 3 http://web.example/' hello";
    "another port of an allowed network", Unfenced, "tcp 8.8.8.80:8080", "$PROBE tcp 8.8.8.80 8080";
    "the UDP twin of an allowed TCP port", Unfenced, "udp 8.8.8.80:80", "$PROBE udp 8.8.8.80 80";
    "the UDP twin of an allowed name (QUIC)", Unfenced, "udp 8.8.4.80:443",
        "$PROBE lookup web.example; $PROBE udp 8.8.4.80 443";
    "the IPv6 twin of an allowed network", Unfenced, "tcp [2001:4860::808:850]:80",
        "$PROBE http 2001:4860::808:850";
    "an address beside an allowed network", Unfenced, "tcp 8.8.9.0:80", "$PROBE http 8.8.9.0";
    "an IPv4-mapped address", Unfenced, "tcp 8.8.4.99:80", "$PROBE http ::ffff:8.8.4.99";
    "NAT64 of a denied host", Unfenced, "tcp [64:ff9b::808:463]:80", "$PROBE http 64:ff9b::808:463";
    "NAT64 of an allowed host, another port", Unfenced, "tcp [64:ff9b::808:850]:8080",
        "$PROBE tcp 64:ff9b::808:850 8080";
    "NAT64 of loopback", No, "tcp [64:ff9b::7f00:1]:8080", "$PROBE tcp 64:ff9b::7f00:1 8080";
    "6to4 of a denied host", Unfenced, "tcp [2002:808:463::1]:80", "$PROBE http 2002:808:463::1";
    "6to4 of loopback", No, "tcp [2002:7f00:1::1]:8080", "$PROBE tcp 2002:7f00:1::1 8080";
    "a hundred connections at once", Unfenced, "tcp 8.8.4.99:6666", "$PROBE burst 8.8.4.99 6666";
    "source port 53, TCP", Unfenced, "tcp 8.8.4.99:6666", "$PROBE tcp 8.8.4.99 6666 '' 53";
    "source port 53, UDP", Unfenced, "udp 8.8.4.99:6666", "$PROBE udp 8.8.4.99 6666 53";
    "source port 443, UDP", Unfenced, "udp 8.8.4.99:123", "$PROBE udp 8.8.4.99 123 443";
    "port 0", No, "tcp 8.8.4.99:0", "$PROBE tcp 8.8.4.99 0";
    "data in the SYN", Unfenced, "tcp 8.8.4.99:80", "$PROBE fast_open 8.8.4.99 80";
    "a source route over an allowed host", No, "", "$PROBE source_route 8.8.4.99 80";
    "a datagram of 65,000 bytes", Unfenced, "udp 8.8.4.99:6666", "$PROBE fragments 8.8.4.99 6666";
    "another protocol: SCTP", No, "", "$PROBE sctp 8.8.4.99 80";
    "SSH to a denied host", No, "tcp 8.8.4.99:22", "$PROBE tcp 8.8.4.99 22";

    // Names.
    "a denied name", Unfenced, "dns denied.example", "$PROBE lookup denied.example";
    "a denied name in other letters, with a dot", Unfenced, "dns other.example",
        "$PROBE lookup OTHER.Example.";
    "TXT of a denied name", Unfenced, "dns big.example", "$PROBE dns_tcp 10.0.2.3 big.example 16";
    "another resolver, UDP", Unfenced, "dns other.example", "$PROBE dns 8.8.8.8 other.example";
    "another resolver, TCP", Unfenced, "dns other.example", "$PROBE dns_tcp 8.8.8.8 other.example";
    "another resolver, IPv6", Unfenced, "dns other.example",
        "$PROBE dns 2001:4860::8888 other.example";
    "another resolver, at port 6666", Unfenced, "udp 8.8.8.8:6666", "$PROBE udp 8.8.8.8 6666";
    "a resolver at the gateway's address", No, "", "$PROBE dns 10.0.2.2 other.example";
    "DNS over TLS", Unfenced, "tcp 8.8.8.8:853", "$PROBE tcp 8.8.8.8 853";
    "DNS over HTTPS by address", Unfenced, "tcp 8.8.8.8:443",
        "$PROBE shell 'curl -sk -m 3 https://8.8.8.8/dns-query' 404";
    "DNS over HTTPS by name", Unfenced, "dns other.example",
        "$PROBE shell 'curl -s -m 3 https://other.example/dns-query' 404";
    "a tunnel by long names", No, "dns aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.tunnel.example",
        "$PROBE lookup aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.tunnel.example";
    "a tunnel by names below an allowed one", No, "dns secret.web.example",
        "$PROBE lookup secret.web.example";
    "an alias of a denied name", Unfenced, "tcp 8.8.4.99:443",
        "$PROBE shell 'curl -4 -sk -m 3 https://alias.example/' hello";
    "rebinding to loopback", No, "dns loopback.rebind.example",
        "$PROBE by_name loopback.rebind.example 443";
    "rebinding to a private address", Unfenced, "dns private.rebind.example",
        "$PROBE lookup private.rebind.example";
    "rebinding to metadata", Unfenced, "dns metadata.rebind.example",
        "$PROBE lookup metadata.rebind.example";
    "rebinding to the host's address", Unfenced, "dns host.rebind.example",
        "$PROBE lookup host.rebind.example";
    "rebinding to the gateway's address", Unfenced, "dns gateway.rebind.example",
        "$PROBE lookup gateway.rebind.example";
    "rebinding to a mapped address", No, "dns mapped.rebind.example",
        "$PROBE dns 10.0.2.3 mapped.rebind.example 28";
    "rebinding to 0.0.0.0", No, "dns zero.rebind.example",
        "$PROBE dns 10.0.2.3 zero.rebind.example";

    // What is said over an allowed connection.
    "a hello with another name", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE tls web.example denied.example", sends true;
    "a hello with another name, in small records", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE tls web.example denied.example records", sends true;
    "a hello with another name, in small segments", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE tls web.example denied.example late", sends true;
    "a hello without a name", Unfenced, "tcp 8.8.4.80:443", "$PROBE tls web.example -", sends true;
    "a hello with a name below the allowed one", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE tls web.example secret.web.example", sends true;
    "HTTP at the port of TLS", Unfenced, "tcp 8.8.4.80:443",
        "$PROBE shell 'curl -4 -s -m 3 http://web.example:443/' HTTPS", sends true;

    // Echoes.
    "ping", Unfenced, "echo 8.8.4.99:0", "$PROBE ping 8.8.4.99";
    "ping, IPv6", Unfenced, "echo [2001:4860::99]:0", "$PROBE ping 2001:4860::99";
    "a tunnel in echoes", Unfenced, "echo 8.8.4.99:0", "$PROBE ping 8.8.4.99 1400";
    "ping to an allowed network", Unfenced, "echo 8.8.8.80:0", "$PROBE ping 8.8.8.80";

    // The host and what is near it.
    "the host's loopback", Host, "", "$PROBE tcp 127.0.0.1 8080";
    "the host's loopback, IPv6", Host, "", "$PROBE tcp ::1 8080";
    "the host's loopback by 0.0.0.0", Host, "", "$PROBE tcp 0.0.0.0 8080";
    "the gateway's address", No, "tcp 10.0.2.2:8080", "$PROBE tcp 10.0.2.2 8080";
    "the gateway's address, UDP", No, "udp 10.0.2.2:8080", "$PROBE udp 10.0.2.2 8080";
    "the host's own address", Unfenced, "tcp 10.77.0.2:8080", "$PROBE tcp 10.77.0.2 8080";
    "the host's own address, IPv6", Unfenced, "tcp [fd77::2]:8080", "$PROBE tcp fd77::2 8080";
    "the host's own address, UDP", Unfenced, "udp 10.77.0.2:8080", "$PROBE udp 10.77.0.2 8080";
    "the host's router", No, "echo 10.77.0.1:0", "$PROBE ping 10.77.0.1";
    "metadata of a cloud", Unfenced, "tcp 169.254.169.254:80", "$PROBE http 169.254.169.254";
    "metadata of a cloud, IPv6", Unfenced, "tcp [fd00:ec2::254]:80", "$PROBE http fd00:ec2::254";
    "metadata of another cloud", Unfenced, "tcp 100.100.100.200:80", "$PROBE http 100.100.100.200";
    "a private network", Unfenced, "tcp 10.1.2.3:80", "$PROBE http 10.1.2.3";
    "a group", No, "", "$PROBE broadcast 224.0.0.251 5353";
    "a group, IPv6", No, "", "$PROBE broadcast ff02::fb%eth0 5353";
    "everybody", No, "", "$PROBE broadcast 255.255.255.255 8080";
    "everybody in the network", No, "", "$PROBE broadcast 10.0.2.255 8080";
    "inbound to a port that is not published", No, "", "$PROBE inbound 2121";

    // Ways beside the network.
    "nscd", Host, "", "$PROBE unix /run/nscd/socket";
    "systemd-resolved", Host, "", "$PROBE unix /run/systemd/resolve/io.systemd.Resolve";
    "Avahi", Host, "", "$PROBE unix /run/avahi-daemon/socket";
    "an abstract socket of the host", Host, "", "$PROBE unix @wirespeed-interop-bait";
    "Docker's socket, hidden", Unfenced, "", "$PROBE unix /var/run/docker.sock",
        with "--hide /var/run/docker.sock";
    "an agent's socket, hidden", Unfenced, "", "$PROBE unix /run/agent.sock",
        with "--hide /run/agent.sock";
    "systemd-run by the user's bus, hidden", Unfenced, "", "$PROBE unix /run/user/61999/bus",
        with "--hide /run/user";
    "a hidden socket by unmounting its cover", No, "",
        "$PROBE shell 'unshare -rm sh -c \
         \"umount /run/docker.sock; $PROBE unix /run/docker.sock\"' reached:",
        with "--hide /run/docker.sock";
    "systemd-run --user", No, "",
        "$PROBE shell 'systemd-run --user --wait --pipe echo through' through";
    "su", No, "", "$PROBE shell 'echo | su root -c \"echo through\"' through";
    "a setuid program", Host, "", "$PROBE shell $F/setuid-id 'euid=0'";
    "a packet socket", No, "", "$PROBE packet";
    "a raw socket", No, "", "$PROBE raw 4 1";
    "a raw socket, IPv6", No, "", "$PROBE raw 6 58";
    "another address", No, "",
        "$PROBE shell 'ip addr add 10.0.2.77/24 dev eth0 && echo through' through";
    "another route", No, "", "$PROBE shell 'ip route del default && echo through' through";
    "another interface", No, "",
        "$PROBE shell 'ip link add v type veth peer name w && echo through' through";
    "a network of its own", No, "",
        "$PROBE shell 'unshare -rn sh -c \"ip link set lo up; $PROBE http 8.8.4.99\"' reached:";
    "another resolv.conf", No, "", "$PROBE shell 'umount /etc/resolv.conf && echo through' through";
    "another resolv.conf, in mounts of its own", No, "",
        "$PROBE shell 'unshare -rm umount /etc/resolv.conf && echo through' through";
    "the network of the first process", No, "", "$PROBE namespace /proc/1/ns/net";
    "the network of a process outside", No, "", "$PROBE namespace /proc/$(cat $F/outsider)/ns/net";
    "the network of the first process, by pidfd", No, "", "$PROBE namespace_by_pid first";
    "a signal to a process outside", Host, "", "$PROBE kill $(cat $F/outsider)";
    "tracing the first process", No, "", "$PROBE ptrace first";
    "memory of the first process", No, "", "$PROBE memory first";
    "descriptors of the first process", No, "", "$PROBE descriptors first";
    "tracing a process outside", No, "", "$PROBE ptrace $(cat $F/outsider)";
    "processes outside", Host, "", "$PROBE sees sleep";
}
