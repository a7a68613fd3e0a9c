"""Frames that no kernel sends, by scapy: fragments in other orders, forged RSTs.

Called by: the suite `filter`, on the host outside.
    frames.py HOW SOURCE DESTINATION PORT LINK
`in-order`, `reversed`, `headless` (without the first) and `two-heads` (the first one twice, with
other ports) send a UDP datagram of 2,000 bytes to an echo server in fragments. `tiny` has the TCP
flags of a SYN in the second fragment, `overlapping` writes over those of the first. They print
`answered`, or `silence`. `rst` sends twenty RSTs from port 7 of SOURCE with sequence numbers at
random. RFC 1858, RFC 5722, RFC 7112.
"""

import random
import socket
import struct
import sys

from scapy.all import IP, TCP, UDP, AsyncSniffer, Ether, IPv6, IPv6ExtHdrFragment, Raw, conf
from scapy.all import getmacbyip, getmacbyip6, sendp

HOW, SOURCE, DESTINATION, PORT, LINK = sys.argv[1:4] + [int(sys.argv[4]), sys.argv[5]]
conf.verb, conf.iface = 0, LINK
IS_6 = ":" in DESTINATION
ROUTER = "2001:db8:2::1" if IS_6 else "198.51.100.1"
TO = (getmacbyip6 if IS_6 else getmacbyip)(ROUTER)
ID = random.randrange(1, 1 << 16)


def packet(**fields):
    return (IPv6 if IS_6 else IP)(src=SOURCE, dst=DESTINATION, **fields)


def fragment(protocol, offset, data, is_last=False):
    """A fragment with `data` at `offset`, in bytes."""
    if IS_6:
        header = IPv6ExtHdrFragment(nh=protocol, id=ID, offset=offset // 8, m=int(not is_last))
        return packet() / header / Raw(data)
    flags = 0 if is_last else "MF"
    return packet(proto=protocol, id=ID, flags=flags, frag=offset // 8) / Raw(data)


def transport(layers):
    """The bytes behind the IP header, with their checksum."""
    return bytes(packet() / layers)[40 if IS_6 else 20 :]


def of_datagram(whole):
    cut = [0, 800, 1600, len(whole)]
    made = [
        fragment(17, begin, whole[begin:end], end == len(whole))
        for begin, end in zip(cut, cut[1:])
    ]
    if HOW == "reversed":
        made.reverse()
    if HOW == "headless":
        made.pop(0)
    if HOW == "two-heads":
        made.insert(1, fragment(17, 0, struct.pack("!HH", 1, 2) + whole[4:800]))
    return made


def of_syn():
    whole = transport(TCP(sport=999, dport=PORT, flags="S", seq=7) / Raw(bytes(100)))
    if HOW == "tiny":
        return [fragment(6, 0, whole[:8]), fragment(6, 8, whole[8:], True)]
    return [fragment(6, 0, whole[:64]), fragment(6, 8, whole[8:], True)]


def send(frames):
    for made in frames:
        sendp(Ether(dst=TO) / made)


def echo():
    own = socket.socket(socket.AF_INET6 if IS_6 else socket.AF_INET, socket.SOCK_DGRAM)
    own.bind((SOURCE, 0))
    own.settimeout(1)
    data = bytes(random.randrange(256) for _ in range(2000))
    send(of_datagram(transport(UDP(sport=own.getsockname()[1], dport=PORT) / Raw(data))))
    try:
        return own.recv(4096) == data
    except socket.timeout:
        return False


def syn():
    is_answer = lambda frame: TCP in frame and frame[TCP].sport == PORT
    sniffer = AsyncSniffer(lfilter=is_answer, timeout=1, started_callback=lambda: send(of_syn()))
    sniffer.start()
    sniffer.join()
    return len(sniffer.results) > 0


if HOW == "rst":
    forged = [TCP(sport=7, dport=PORT, flags="R", seq=random.randrange(1 << 32)) for _ in range(20)]
    send(packet() / segment for segment in forged)
else:
    is_answered = syn() if HOW in ("tiny", "overlapping") else echo()
    print("answered" if is_answered else "silence")
