"""A switch in front of a trunk: each access port is a TAP that it makes, with the VLAN of its frames.

Called by: the case of VLANs of suite `router`, in the namespace of the trunk's other end:
    trunk.py TRUNK NAME:VLAN [NAME:VLAN]    until it is killed
So the hosts are the kernel's, and what tags and strips is not ours, on kernels without 8021q too.
"""

import fcntl, os, select, socket, struct, sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
SOL_PACKET, PACKET_AUXDATA, PACKET_OUTGOING = 263, 8, 4
TP_STATUS_VLAN_VALID = 16
TPID = 0x8100


def tap(name):
    """A TAP of that name."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def vlan_of(ancillary):
    """The VLAN that the kernel took out of a frame (packet(7), PACKET_AUXDATA), or None."""
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, tci, tpid = struct.unpack("=I12xHH", data[:20])
            if status & TP_STATUS_VLAN_VALID and tpid == TPID:
                return tci & 0xFFF
    return None


def from_trunk(trunk, ports):
    """A frame of the trunk, without its tag, to the port of its VLAN."""
    frame, ancillary, _, address = trunk.recvmsg(65536, 64)
    port = ports.get(vlan_of(ancillary))
    if address[2] != PACKET_OUTGOING and port is not None:
        try:
            os.write(port, frame)
        except OSError:
            pass  # The port is down: its host is not there yet.


def main(trunk_name, *access):
    trunk = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    trunk.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    trunk.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    trunk.bind((trunk_name, 0))
    ports = {}
    for port in access:
        name, vlan = port.split(":")
        ports[int(vlan)] = tap(name)
    vlans = {fd: vlan for vlan, fd in ports.items()}
    while True:
        for ready in select.select([trunk, *vlans], [], [])[0]:
            if ready is trunk:
                from_trunk(trunk, ports)
                continue
            frame = os.read(ready, 65536)
            tag = struct.pack("!HH", TPID, vlans[ready])
            try:
                trunk.send(frame[:12] + tag + frame[12:])
            except OSError:
                pass  # No room, or the trunk is down: lost, as by any switch.


main(*sys.argv[1:])
