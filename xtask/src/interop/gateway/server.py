"""The hosts around a fence, for the suite `gateway`.

server.py server LOG       DNS, and services at every address and many ports, which say who came
server.py host LOG PATH..  what listens on the machine of the program: loopback, LAN, Unix sockets
server.py sniff IFACE LOG  every packet that comes in by an interface, one line each

Each line of a log is one event. "ready" is the first.
"""
import asyncio
import os
import socket
import struct
import sys
import threading

MARK_PORT = 9
TCP_PORTS = [21, 25, 53, 853, 6666, 8080]
UDP_PORTS = [53, 80, 123, 443, 6666, 8080]
LOG = None
LOCK = threading.Lock()


def log(*words):
    with LOCK:
        LOG.write(" ".join(str(word) for word in words) + "\n")
        LOG.flush()


# Names. A value is an address, or ("CNAME", name), or ("TXT", bytes).
ZONE = {
    "web.example": ["8.8.4.80", "2001:4860::80"],
    "denied.example": ["8.8.4.80", "2001:4860::80"],
    "other.example": ["8.8.4.99", "2001:4860::99"],
    "ssh.example": ["8.8.4.22"],
    "only6.example": ["2001:4860::80"],
    "alias.example": [("CNAME", "cdn.denied.example"), "8.8.4.99"],
    "cdn.denied.example": ["8.8.4.99"],
    "big.example": [("TXT", bytes([250]) + b"x" * 250)] * 12,
    "loopback.rebind.example": ["127.0.0.1", "::1"],
    "private.rebind.example": ["10.1.2.3"],
    "metadata.rebind.example": ["169.254.169.254"],
    "host.rebind.example": ["10.77.0.2", "fd77::2"],
    "gateway.rebind.example": ["10.0.2.2"],
    "mapped.rebind.example": ["::ffff:127.0.0.1"],
    "zero.rebind.example": ["0.0.0.0"],
}


def record(value):
    if isinstance(value, tuple) and value[0] == "CNAME":
        name = b"".join(bytes([len(part)]) + part.encode() for part in value[1].split("."))
        return 5, name + b"\0"
    if isinstance(value, tuple):
        return 16, value[1]
    if ":" in value:
        return 28, socket.inet_pton(socket.AF_INET6, value)
    return 1, socket.inet_aton(value)


def question(message):
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin1"))
        at += message[at] + 1
    return ".".join(labels).lower(), struct.unpack(">H", message[at + 1:at + 3])[0], at + 5


def answer(message, room):
    name, kind, end = question(message)
    values = ZONE.get(name)
    wanted = [record(value) for value in values or []]
    wanted = [(k, data) for k, data in wanted if k == kind or (k == 5 and kind in (1, 28))]
    body = b""
    for k, data in wanted:
        body += b"\xc0\x0c" + struct.pack(">HHIH", k, 1, 60, len(data)) + data
    # An address behind an alias has the alias's name.
    if wanted and wanted[0][0] == 5:
        at = end + 12
        body = b"".join([
            b"\xc0\x0c", struct.pack(">HHIH", 5, 1, 60, len(wanted[0][1])), wanted[0][1],
        ])
        for k, data in wanted[1:]:
            body += struct.pack(">H", 0xc000 | at) + struct.pack(">HHIH", k, 1, 60, len(data)) + data
    code = 0 if values else 3
    additional = struct.unpack(">H", message[10:12])[0]
    size = 512 if room < 65535 else 65535
    if size < 65535 and additional and message[end:end + 3] == b"\0\0\x29":
        size = max(512, struct.unpack(">H", message[end + 3:end + 5])[0])
    opt = b"\0\0\x29" + struct.pack(">HIH", 4096, 0, 0) if additional else b""
    head = lambda flags, n: message[:2] + struct.pack(
        ">HHHHH", flags | code, 1, n, 0, 1 if opt else 0)
    whole = head(0x8580, len(wanted)) + message[12:end] + body + opt
    if len(whole) > min(size, room):
        return head(0x8780, 0) + message[12:end] + opt
    return whole


def udp(version, port, address=None):
    """Answer each datagram from the address that it was sent to."""
    six = version == socket.AF_INET6
    sock = socket.socket(version, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if six:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
    sock.bind((address or ("::" if six else "0.0.0.0"), port))

    def serve():
        while True:
            try:
                data, info, _, peer = sock.recvmsg(65535, 256)
                to = next((d for _, _, d in info), b"")
                local = to[:16] if six else to[8:12]
                log("udp", peer[0], socket.inet_ntop(version, local), port)
                data = answer(data, 4096) if port == 53 else b"reached"
                info = local + b"\0" * 4 if six else b"\0" * 4 + local + local
                level, kind = (socket.IPPROTO_IPV6, 50) if six else (socket.IPPROTO_IP, 8)
                sock.sendmsg([data], [(level, kind, info)], 0, peer)
            except (OSError, IndexError, struct.error) as why:
                log("error", why)

    threading.Thread(target=serve, daemon=True).start()


def tcp(version, port, address=None):
    six = version == socket.AF_INET6
    sock = socket.socket(version, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if six:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind((address or ("::" if six else "0.0.0.0"), port))
    sock.listen(512)
    listen(sock, "tcp", port)


def listen(sock, what, port):
    def one(peer):
        try:
            if port == 53:
                while size := peer.recv(2, socket.MSG_WAITALL):
                    said = answer(peer.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL), 65535)
                    peer.sendall(struct.pack(">H", len(said)) + said)
            else:
                peer.sendall(b"reached\n")
                peer.settimeout(20)
                while peer.recv(65536):
                    pass
        except (OSError, IndexError, struct.error):
            pass
        peer.close()

    def serve():
        while True:
            peer, who = sock.accept()
            log(what, who[0] if who else "-", peer.getsockname()[0] if who else "-", port)
            threading.Thread(target=one, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def server():
    for version in (socket.AF_INET, socket.AF_INET6):
        for port in TCP_PORTS:
            tcp(version, port)
        for port in UDP_PORTS:
            udp(version, port)


def host(paths):
    for version in (socket.AF_INET, socket.AF_INET6):
        tcp(version, 8080)
        udp(version, 8080)
    for name in ["\0wirespeed-interop-bait"] + paths:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(name)
        sock.listen()
        if name in paths:
            os.chmod(name, 0o777)
        listen(sock, "unix", name.strip("\0"))


def described(frame):
    """The protocol and both ends of a frame; None for what hosts say to find each other."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        ip, protocol = frame[14:], frame[23]
        at = 14 + (frame[14] & 15) * 4
        ends = [socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])]
        if struct.unpack(">H", frame[20:22])[0] & 0x1fff:
            return "fragment", *ends, b""
    elif kind == b"\x86\xdd":
        protocol, at = frame[20], 54
        ends = [socket.inet_ntop(socket.AF_INET6, frame[i:i + 16]) for i in (22, 38)]
    else:
        return None
    rest = frame[at:]
    if protocol in (6, 17) and len(rest) >= 8:
        ports = struct.unpack(">HH", rest[:4])
        body = rest[8:] if protocol == 17 else rest[(rest[12] >> 4) * 4:] if len(rest) > 12 else b""
        ends = [f"{end},{port}" for end, port in zip(ends, ports)]
        return {6: "tcp", 17: "udp"}[protocol], *ends, body
    if protocol == 1:
        return f"icmp-{rest[0]}", *ends, b""
    if protocol == 58:
        # Neighbour discovery and MLD are the host's own.
        return None if rest[0] >= 130 else (f"icmp6-{rest[0]}", *ends, b"")
    if protocol in (0, 2):
        return None
    return f"protocol-{protocol}", *ends, b""


def sniff(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind((name, 0))
    log("ready")
    while True:
        frame, (_, _, kind, _, _) = sock.recvfrom(65535)
        if kind == socket.PACKET_OUTGOING:
            continue
        packet = described(frame)
        if packet is None:
            continue
        protocol, source, to, body = packet
        if protocol == "udp" and to.endswith(f",{MARK_PORT}") and body.startswith(b"mark "):
            log(body.decode().strip())
            continue
        asked = ""
        if to.endswith(",53"):
            try:
                asked = question(body if protocol == "udp" else body[2:])[0]
            except (IndexError, struct.error):
                pass
        # Names that are asked, else how many bytes.
        log(protocol, source, to, asked or f"+{len(body)}")


def main():
    global LOG
    LOG = open(sys.argv[3 if sys.argv[1] == "sniff" else 2], "w")
    if sys.argv[1] == "sniff":
        return sniff(sys.argv[2])
    if sys.argv[1] == "host":
        host(sys.argv[3:])
    else:
        server()
    log("ready")
    threading.Event().wait()


main()
