"""STUN (RFC 8489) as far as RFC 5780 needs it to name a NAT's mapping and filtering.

Called by: the suite `filter`. `stun.py serve A B PORT` answers on two addresses and two ports;
`stun.py ask A PORT` prints a line `mapping WORD` and a line `filtering WORD`, where WORD is
`endpoint-independent`, `address-dependent` or `address-and-port-dependent` (RFC 4787).
"""

import ipaddress
import os
import select
import socket
import struct
import sys

COOKIE = 0x2112A442
MAPPED, CHANGE, XOR_MAPPED, OTHER = 0x0001, 0x0003, 0x0020, 0x802C
WORDS = ["endpoint-independent", "address-dependent", "address-and-port-dependent"]


def attribute(kind, value):
    return struct.pack("!HH", kind, len(value)) + value + bytes(-len(value) % 4)


def address(end, xor):
    host, port = ipaddress.ip_address(end[0]), end[1]
    if not xor:
        return struct.pack("!xBH", 1 if host.version == 4 else 2, port) + host.packed
    key = struct.pack("!I", COOKIE)
    masked = bytes(a ^ b for a, b in zip(host.packed, key))
    return struct.pack("!xBH", 1, port ^ (COOKIE >> 16)) + masked


def attributes(message):
    found, at = {}, 20
    while at + 4 <= len(message):
        kind, length = struct.unpack_from("!HH", message, at)
        found[kind] = message[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def end_of(value, xor):
    port, = struct.unpack_from("!H", value, 2)
    host = value[4:8]
    if xor:
        port ^= COOKIE >> 16
        host = bytes(a ^ b for a, b in zip(host, struct.pack("!I", COOKIE)))
    return (socket.inet_ntoa(host), port)


def serve(first, second, port):
    ends = [(host, port + n) for host in (first, second) for n in (0, 1)]
    sockets = {}
    for end in ends:
        sockets[end] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sockets[end].bind(end)
    print("ready", flush=True)
    while True:
        for ready in select.select(list(sockets.values()), [], [])[0]:
            here = ready.getsockname()
            message, source = ready.recvfrom(2048)
            change = attributes(message).get(CHANGE, bytes(4))[3]
            host = here[0] if not change & 4 else next(e[0] for e in ends if e[0] != here[0])
            other_port = next(e[1] for e in ends if e[1] != here[1])
            answer = (host, other_port if change & 2 else here[1])
            body = attribute(XOR_MAPPED, address(source, True))
            other_host = next(e[0] for e in ends if e[0] != here[0])
            body += attribute(OTHER, address((other_host, other_port), False))
            header = struct.pack("!HHI", 0x0101, len(body), COOKIE) + message[8:20]
            sockets[answer].sendto(header + body, source)


def ask(sock, to, change=0):
    """The answer's attributes; None if there is none."""
    body = attribute(CHANGE, struct.pack("!I", change)) if change else b""
    transaction = os.urandom(12)
    for _ in range(3):
        sock.sendto(struct.pack("!HHI", 0x0001, len(body), COOKIE) + transaction + body, to)
        while select.select([sock], [], [], 0.5)[0]:
            message = sock.recv(2048)
            if message[8:20] == transaction:
                return attributes(message)
    return None


def mapped(sock, to):
    answer = ask(sock, to)
    if answer is None:
        sys.exit(f"no answer from {to}")
    return end_of(answer[XOR_MAPPED], True), end_of(answer[OTHER], False)


def client(server, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", 0))
    first, other = mapped(sock, (server, port))
    # RFC 5780 section 4.3: another address, then another port of it.
    second, _ = mapped(sock, (other[0], port))
    third, _ = mapped(sock, other)
    kind = 0 if second == first else 1 if third == second else 2
    print("mapping", WORDS[kind])
    # Section 4.4, from a mapping that has sent to the first address alone.
    fresh = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fresh.bind(("", 0))
    mapped(fresh, (server, port))
    if ask(fresh, (server, port), 6) is not None:
        kind = 0
    else:
        kind = 1 if ask(fresh, (server, port), 2) is not None else 2
    print("filtering", WORDS[kind])
    print("port", "kept" if first[1] == sock.getsockname()[1] else "changed")


if sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    client(sys.argv[2], int(sys.argv[3]))
