//! `pasta --help`.

/// The text.
pub(super) const TEXT: &str = "\
Usage: pasta [OPTION]... [COMMAND [ARG]...]
       pasta [OPTION]... PID
       pasta [OPTION]... --netns PATH|NAME

wirespeed in the place of pasta: gives a network namespace a private network
whose only way out is our stack. Without PID or --netns, run a command, or a
shell, in a new network and user namespace.

  -h, --help                    Print this
      --version                 Print the version
  -q, --quiet                   Print no warnings
  -f, --foreground              Do not leave a process in the background
  -l, --log-file PATH           Messages of the process in the background
  -P, --pid FILE                Write the number of that process
  -c, --conf-path PATH          Take orders of pesto at this Unix socket
  -p, --pcap FILE               Capture packets, as pcapng
Namespaces:
      --userns PATH             Enter this user namespace first
      --netns PATH|NAME         The network namespace
      --netns-only              Enter no user namespace; so with --netns alone
      --no-netns-quit           Stay when the file of --netns is deleted
  -I, --ns-ifname NAME          Name of the interface (default eth0)
      --ns-mac-addr MAC         Its hardware address
      --config-net              Give it addresses and routes; without this it
                                learns them by DHCP, RA and DHCPv6
Addresses (nothing of the host's interfaces is copied):
  -m, --mtu MTU                 MTU (default 65520)
  -a, --address ADDR[/LEN]      Address, one of each version (default
                                10.0.2.100/24 and a random one of fd00::/8)
  -n, --netmask MASK            Its IPv4 netmask, as bits or four numbers
  -g, --gateway ADDR            Gateway (default 10.0.2.2)
      --dns-forward ADDR        Address of the resolver (default 10.0.2.3); all
                                that goes to port 53 is answered by it
  -D, --dns ADDR                Name servers that it asks (default the host's)
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
      --dhcp-dns                DHCP and RA name the resolver
      --no-dhcp-dns             They do not (default)
      --no-tcp                  Refuse TCP
      --no-udp                  Refuse UDP
      --no-icmp                 Refuse echo requests
Ports (SPEC: none, auto, or [ADDR[%IF]/]PORT[-PORT][:PORT[-PORT]],..,~PORT):
  -t, --tcp-ports SPEC          TCP ports of the host that lead inside; auto:
                                those at which something listens inside
  -u, --udp-ports SPEC          UDP ports
  -T, --tcp-ns SPEC             TCP ports inside that lead to the host's loopback;
                                auto is none
  -U, --udp-ns SPEC             none and auto alone, which are none
Of wirespeed, as in netns(1):
      --link SPEC               A bad network
      --policy FILE             Rules of what may be reached
      --allow X                 Let this be reached
      --deny X                  Do not let this be reached
      --default allow|deny      What no rule is about
      --via URL                 Through a proxy
      --log FILE                A line for each flow
      --http ADDR               A page that shows what happens
Accepted and ignored:
  -d, --debug  --trace  --stats DELAY  -e, --stderr  --log-size BYTES  --runas UID
  -M, --mac-addr MAC  -i, --interface NAME  -o, --outbound ADDR  --outbound-if4 NAME
  --outbound-if6 NAME  -S, --search LIST  -H, --hostname NAME  --fqdn NAME
  --dhcp-search  --no-dhcp-search  --no-ndp  --freebind  --chroot-fallback
  --host-lo-to-ns-lo  --no-pidns  --no-copy-routes  --no-copy-addrs  --no-splice
  --splice-only
";
