"""Traffic of a soak: flows that rules always pass, sometimes pass, and never pass.

Called by: the suite `filter-soak`. `traffic.py inside` runs on the host behind the router,
`traffic.py outside` on the host at its two other links, until they are killed. With SIGTERM each
prints a JSON object, and goes on, because the other one has not been asked yet: by the name of each
steady flow its echoes, and the times and reasons of its losses.

Ports: 7000 and 7001 always pass, 8000 to 8007 sometimes, 9999 never.
"""

import asyncio
import json
import random
import signal
import socket
import sys
import time

SOMETIMES = range(8000, 8008)
# TCP that is refused and tried again is slow: fewer ports.
SOMETIMES_TCP = range(8000, 8004)
NEVER = 9999
# A steady flow without an echo for so long is lost, in seconds. A link is down for one at most.
PATIENCE = 10

flows = {}


async def steady(name, host, port):
    """A connection that is to last: a number each 50 ms, which the other end echoes."""
    flow = flows[name] = {"echoes": 0, "losses": []}
    while True:
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 5)
        except (OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.2)
            continue
        try:
            await asyncio.gather(say(writer), hear(reader, flow))
        except (OSError, asyncio.TimeoutError, EOFError, ValueError) as why:
            flow["losses"].append([time.time(), repr(why)])
        finally:
            writer.transport.abort()


async def say(writer):
    number = 0
    while True:
        writer.write(number.to_bytes(8, "big"))
        await writer.drain()
        number += 1
        await asyncio.sleep(0.05)


async def hear(reader, flow):
    number = 0
    while True:
        echo = await asyncio.wait_for(reader.readexactly(8), PATIENCE)
        if int.from_bytes(echo, "big") != number:
            raise ValueError(f"{echo} is not {number}")
        number += 1
        flow["echoes"] += 1


async def at_times(host, port):
    """TCP that rules pass at times."""
    while True:
        writer = None
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 1)
            while True:
                writer.write(b"at times")
                await asyncio.wait_for(reader.readexactly(8), 1)
                await asyncio.sleep(0.1)
        except (OSError, asyncio.TimeoutError, EOFError):
            await asyncio.sleep(0.2)
        finally:
            if writer is not None:
                writer.transport.abort()


def bound(family, port):
    """A UDP socket of one version of IP alone."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setblocking(False)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind(("", port))
    return made


async def datagrams(source, hosts, ports, pause):
    """Datagrams to each of these ports of each host, from a socket for each version of IP."""
    sockets = {family: bound(family, source) for family in (socket.AF_INET, socket.AF_INET6)}
    while True:
        for host in hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            for port in ports:
                to = random.randrange(1024, 65536) if port is None else port
                try:
                    sockets[family].sendto(b"a datagram", (host, to))
                except OSError:
                    pass  # Its link is down, or full.
        for made in sockets.values():
            try:
                while True:
                    made.recv(64)
            except OSError:
                pass  # No more of them, or an ICMP error.
        await asyncio.sleep(pause)


async def echo(reader, writer):
    try:
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


class EchoDatagrams(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, source):
        self.transport.sendto(data, source)


async def serve(tcp, udp):
    loop = asyncio.get_running_loop()
    for port in tcp:
        await asyncio.start_server(echo, ["0.0.0.0", "::"], port)
    for port in udp:
        for family in (socket.AF_INET, socket.AF_INET6):
            await loop.create_datagram_endpoint(EchoDatagrams, sock=bound(family, port))


OUTSIDE = {
    "v4 wan": "198.51.100.2",
    "v4 dmz": "203.0.113.2",
    "v6 wan": "2001:db8:2::2",
    "v6 dmz": "2001:db8:3::2",
}


async def inside():
    await serve([7001, NEVER], [NEVER])
    work = [steady(name, host, 7000) for name, host in OUTSIDE.items()]
    hosts = list(OUTSIDE.values())
    work += [at_times(host, port) for host in hosts for port in SOMETIMES_TCP]
    work += [at_times(host, NEVER) for host in hosts]
    work += [datagrams(6000, hosts, [*SOMETIMES, NEVER], 0.1)]
    return work


async def outside():
    await serve([7000, *SOMETIMES_TCP, NEVER], SOMETIMES)
    routers = ["203.0.113.1", "2001:db8:3::1", "2001:db8:2::1"]
    routers += [f"198.51.100.{n}0" for n in range(5, 8)]
    hosts = ["fd00:1::2", "2001:db8:f::2", "10.0.0.2"]
    work = [steady("v4 in", "203.0.113.1", 7001), steady("v6 in", "2001:db8:3::1", 7001)]
    work += [at_times(host, NEVER) for host in routers + hosts]
    # Any port, which may be one that NAT uses, and the port that nobody passes.
    work += [datagrams(NEVER, routers + hosts, [None, None, NEVER], 0.1)]
    return work


async def main():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    work = await (inside() if sys.argv[1] == "inside" else outside())
    tasks = [asyncio.create_task(one) for one in work]
    print("ready", file=sys.stderr, flush=True)
    await asked.wait()
    failed = [repr(task.exception()) for task in tasks if task.done()]
    print(json.dumps({"flows": flows, "failed": failed}), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
