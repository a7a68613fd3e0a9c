//! `passt --help`.

/// The text.
pub(super) const TEXT: &str = "\
Usage: passt [OPTION]...

wirespeed in the place of passt: gives a virtual machine at a Unix socket a
private network whose only way out is our stack. It returns once the machine
can connect, and runs in the background.

  -h, --help                    Print this
      --version                 Print the version
  -s, --socket PATH             Listen at this socket; also --socket-path (default
                                the first free one of /tmp/passt_1.socket to 64)
  -F, --fd FD                   Use this socket, which is connected to the machine,
                                and end with it
  -1, --one-off                 End with the first machine that connects
  -q, --quiet                   Print no warnings
  -f, --foreground              Stay in the foreground, until Ctrl-C
  -l, --log-file PATH           Messages of the process in the background
  -P, --pid FILE                Write the number of the process
  -c, --conf-path PATH          Take orders of pesto at this Unix socket
  -p, --pcap FILE               Capture packets, as pcapng
Addresses (nothing of the host's interfaces is copied):
  -m, --mtu MTU                 MTU that the machine is told (default 65520; 0 is
                                1500, untold)
  -a, --address ADDR[/LEN]      Address, one of each version (default 10.0.2.100/24
                                and a random network of fd00::/8); of IPv6 the
                                network counts, in which the machine chooses
  -n, --netmask MASK            Its IPv4 netmask, as bits or four numbers
  -g, --gateway ADDR            Gateway (default 10.0.2.2)
      --dns-forward ADDR        Address of the resolver (default 10.0.2.3); all
                                that goes to port 53 is answered by it
  -D, --dns ADDR                Name servers that it asks (default the host's);
                                none: the machine is told no resolver
      --dns-host ADDR           The same
      --map-host-loopback ADDR  Address that leads to the host's loopback, or
                                none (default the gateway's)
      --no-map-gw               The gateway's address leads nowhere
      --map-guest-addr ADDR     Address that leads to the host's own address
  -4, --ipv4-only               No IPv6
  -6, --ipv6-only               No IPv4
      --no-dhcp                 No DHCP server
      --no-dhcpv6               No DHCPv6 server
      --no-ra                   No router advertisements
      --no-dhcp-dns             The machine is told no resolver
      --no-tcp                  Refuse TCP
      --no-udp                  Refuse UDP
      --no-icmp                 Refuse echo requests
Ports (SPEC: none, or [ADDR[%IF]/]PORT[-PORT][:PORT[-PORT]],..,~PORT):
  -t, --tcp-ports SPEC          TCP ports of the host that lead to the machine
  -u, --udp-ports SPEC          UDP ports
Of wirespeed, as in gateway(1):
      --link SPEC               A bad network
      --policy FILE             Rules of what may be reached
      --allow X                 Let this be reached
      --deny X                  Do not let this be reached
      --default allow|deny      What no rule is about
      --via URL                 Through a proxy
      --log FILE                A line for each flow
      --http ADDR               A page that shows what happens
Not there yet:
      --vhost-user
Accepted and ignored:
  -d, --debug  --trace  --stats DELAY  -e, --stderr  --log-size BYTES  --runas UID
  -M, --mac-addr MAC  -i, --interface NAME  -o, --outbound ADDR  --outbound-if4 NAME
  --outbound-if6 NAME  -S, --search LIST  -H, --hostname NAME  --fqdn NAME
  --dhcp-dns  --dhcp-search  --no-dhcp-search  --no-ndp  --freebind
  --chroot-fallback  --repair-path PATH  --migrate-exit  --migrate-no-linger
";
