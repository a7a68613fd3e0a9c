"""Attempts to get out of a fence, for the suite `gateway`: probe.py ATTEMPT ARGUMENTS

Exit status: 0 if the attempt got through, 9 if it did not, which is said; anything else is a fault
of this program. An unfenced program gets through by the same command, where there is something to
get through to.
"""
import ctypes
import errno
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

TIME = float(os.environ.get("PATIENCE", "2"))
LIBC = ctypes.CDLL(None, use_errno=True)


def blocked(why):
    print("blocked:", why)
    sys.exit(9)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(address, port, source=None):
    sock = socket.socket(family(address), socket.SOCK_STREAM)
    sock.settimeout(TIME)
    if source:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", int(source)))
    sock.connect((address, int(port)))
    return sock


def said(sock, text=b""):
    """Bytes from the other end: a connection that opens and says nothing leads nowhere."""
    sock.settimeout(TIME)
    if text:
        sock.sendall(text)
    data = sock.recv(4096)
    if not data:
        blocked("closed without a word")
    print("reached:", data[:60])


def tcp(address, port, text="", source=None):
    said(connect(address, port, source), text.encode())


def by_name(name, port, text=""):
    """As programs do: ask for the name, try what it has."""
    why = "no address"
    for *_, to in socket.getaddrinfo(name, int(port), 0, socket.SOCK_STREAM):
        try:
            return tcp(to[0], port, text)
        except OSError as e:
            why = e
    blocked(why)


def http(address, name="web.example"):
    tcp(address, 80, f"GET / HTTP/1.0\r\nHost: {name}\r\n\r\n")


def udp(address, port, source=None, text="hello"):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.settimeout(TIME)
    if source:
        sock.bind(("", int(source)))
    sock.sendto(text.encode(), (address, int(port)))
    print("reached:", sock.recvfrom(4096))


def query(name, kind):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def outcome(message):
    if len(message) < 12 or message[3] & 15 or not struct.unpack(">H", message[6:8])[0]:
        blocked(f"code {message[3] & 15}, no records")
    print("reached:", message)


def dns(server, name, kind="1", port="53"):
    sock = socket.socket(family(server), socket.SOCK_DGRAM)
    sock.settimeout(TIME)
    sock.sendto(query(name, int(kind)), (server, int(port)))
    outcome(sock.recv(4096))


def dns_tcp(server, name, kind="1"):
    sock = connect(server, 53)
    message = query(name, int(kind))
    sock.sendall(struct.pack(">H", len(message)) + message)
    size = sock.recv(2, socket.MSG_WAITALL)
    if len(size) < 2:
        blocked("closed")
    outcome(sock.recv(struct.unpack(">H", size)[0], socket.MSG_WAITALL))


def lookup(name):
    print("reached:", socket.getaddrinfo(name, 443)[0][4])


def tls(pin, name, how="whole"):
    """A handshake with the first address of one name, and another name in the hello."""
    to = socket.getaddrinfo(pin, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4]
    context = ssl.create_default_context()
    context.check_hostname = False
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = context.wrap_bio(into, out, server_hostname=None if name == "-" else name)
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        pass
    bytes_ = out.read()
    sock = connect(to[0], 443)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if how == "records":
        body = bytes_[5:]
        parts = [body[i:i + 40] for i in range(0, len(body), 40)]
        bytes_ = b"".join(bytes_[:3] + struct.pack(">H", len(part)) + part for part in parts)
    if how == "late":
        for at in range(0, len(bytes_), 30):
            sock.sendall(bytes_[at:at + 30])
            time.sleep(0.01)
        bytes_ = b""
    data = b""
    sock.settimeout(TIME)
    if bytes_:
        sock.sendall(bytes_)
    data = sock.recv(100)
    # A handshake record: the server's hello. An alert of ours would be no way through.
    if data[:1] != b"\x16":
        blocked(f"no hello of the server: {data[:20]}")
    print("reached:", data[:20])


def ping(address, size="8"):
    six = ":" in address
    sock = socket.socket(family(address), socket.SOCK_DGRAM,
                         socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP)
    sock.settimeout(TIME)
    sock.setsockopt(*((41, 25, 1) if six else (0, 11, 1)))  # IPV6_RECVERR, IP_RECVERR
    body = bytes(int(size))
    sock.sendto(struct.pack(">BBHHH", 128 if six else 8, 0, 0, 1, 1) + body, (address, 0))
    print("reached:", sock.recv(65535)[:20])


def broadcast(address, port):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.settimeout(TIME)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sock.sendto(b"hello", (address, int(port)))
    print("reached:", sock.recv(4096))


def sctp(address, port):
    sock = socket.socket(family(address), socket.SOCK_STREAM, 132)
    sock.settimeout(TIME)
    sock.connect((address, int(port)))
    print("reached")


def raw(version, protocol):
    socket.socket(int(version) == 6 and socket.AF_INET6 or socket.AF_INET, socket.SOCK_RAW,
                  int(protocol))
    print("reached: a raw socket")


def packet():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    print("reached: a packet socket")


def unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(TIME)
    sock.connect("\0" + path[1:] if path.startswith("@") else path)
    said(sock)


def inbound(port):
    """A server inside that waits for a client of outside."""
    sock = socket.socket()
    sock.bind(("", int(port)))
    sock.listen()
    sock.settimeout(TIME)
    peer, who = sock.accept()
    print("reached:", who)


def others():
    """Processes that are neither ours nor the first process's, which the gateway would be."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as file:
                found.append((int(pid), file.readline().split()[1]))
        except OSError:
            pass  # It has ended.
    return found


def sees(name):
    """A process of this name, by /proc."""
    if not any(name in found for _, found in others()):
        blocked(f"there are only {sorted(others())}")
    print("reached:", name)


def pid_of(pid):
    """A process of the host by its number there, or our parent or first process."""
    return {"parent": os.getppid(), "first": 1}.get(pid) or int(pid)


def kill(pid):
    """A signal 0 is a question: may we?"""
    os.kill(pid_of(pid), 0)
    print("reached: it may be ended")


def ptrace(pid):
    if LIBC.ptrace(16, pid_of(pid), 0, 0):  # PTRACE_ATTACH
        blocked(os.strerror(ctypes.get_errno()))
    LIBC.ptrace(17, pid_of(pid), 0, 0)
    print("reached: it can be traced")


def memory(pid):
    with open(f"/proc/{pid_of(pid)}/mem", "rb+") as file, \
            open(f"/proc/{pid_of(pid)}/maps") as maps:
        lines = maps.read().splitlines()
        if not lines:
            blocked("no maps")
        file.seek(int(lines[0].split("-")[0], 16))
        print("reached:", file.read(4))


def descriptors(pid):
    fds = os.listdir(f"/proc/{pid_of(pid)}/fd")
    pidfd = os.pidfd_open(pid_of(pid))
    for fd in fds:
        got = LIBC.syscall(438, pidfd, int(fd), 0)  # pidfd_getfd
        if got >= 0:
            print("reached: descriptor", os.readlink(f"/proc/self/fd/{got}"))
            return
    blocked(f"{os.strerror(ctypes.get_errno())}, {len(fds)} descriptors seen")


def namespace(path, kind="net"):
    """Enter the network of another process."""
    fd = os.open(path, os.O_RDONLY)
    if LIBC.setns(fd, 0x40000000):
        blocked(os.strerror(ctypes.get_errno()))
    print("reached: another", kind)


def namespace_by_pid(pid):
    pidfd = os.pidfd_open(pid_of(pid))
    if LIBC.setns(pidfd, 0x40000000):
        blocked(os.strerror(ctypes.get_errno()))
    print("reached: another network")


def shell(line, text):
    """A shell's line gets through if it prints this text."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=20)
    if text not in done.stdout:
        blocked((done.stdout + done.stderr).strip()[-300:] or f"exit {done.returncode}")
    print("reached:", done.stdout[-100:])


def burst(address, port):
    """A hundred connections at once."""
    reached, socks = 0, []
    for _ in range(100):
        sock = socket.socket(family(address), socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex((address, int(port)))
        socks.append(sock)
    end = time.monotonic() + TIME
    for sock in socks:
        sock.settimeout(max(0.01, end - time.monotonic()))
        try:
            reached += bool(sock.recv(10))
        except OSError:
            pass
    if not reached:
        blocked("none of 100")
    print("reached:", reached)


def source_route(address, port):
    """Loose source routing over a host that is allowed."""
    sock = socket.socket()
    sock.settimeout(TIME)
    route = bytes([131, 7, 4]) + socket.inet_aton("8.8.8.80") + b"\0"
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, route)
    sock.connect((address, int(port)))
    said(sock)


def fast_open(address, port):
    """Data in the SYN."""
    sock = socket.socket()
    sock.sendto(b"GET / HTTP/1.0\r\n\r\n", 0x20000000, (address, int(port)))
    said(sock)


def fragments(address, port):
    """A datagram in fragments."""
    udp(address, port, text="x" * 65000)


def traffic():
    """Names, connections and datagrams until the end, by threads of one process."""
    def again(what, *arguments):
        while True:
            try:
                what(*arguments)
            except OSError:
                time.sleep(0.05)

    signal.alarm(0)
    sys.stdout = open(os.devnull, "w")
    for line in ((lookup, "web.example"), (udp, "8.8.4.99", 6666), (http, "8.8.8.80")):
        threading.Thread(target=again, args=line, daemon=True).start()
    again(http, "2001:4860::80")


ATTEMPTS = {
    name: value for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", None) == "__main__"
}


def main():
    signal.alarm(40)
    try:
        ATTEMPTS[sys.argv[1]](*sys.argv[2:])
    except (OSError, socket.timeout, ssl.SSLError, subprocess.TimeoutExpired) as why:
        if isinstance(why, OSError) and why.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
            raise
        blocked(why)


main()
