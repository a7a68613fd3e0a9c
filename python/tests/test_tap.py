"""A stack on a TAP: the kernel's own sockets are the peer, in a network namespace of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INSIDE = r"""
import asyncio, errno, http.server, socket, threading, urllib.request
import wirespeed

with wirespeed.Stack(
    tap="wspy0", addresses=["192.0.2.2/24"], host=["192.0.2.1/24"], names={"box": "192.0.2.2"}
) as stack:
    # Our client, the kernel's server.
    with socket.create_server(("192.0.2.1", 80)) as listener:
        client = stack.create_connection(("192.0.2.1", 80), timeout=20)
        server, peer = listener.accept()
        assert peer == client.getsockname()
        data = bytes(range(256)) * 4000
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += server.recv(65536)
        sender.join()
        assert got == data
        server.close()
        assert client.recv(1) == b""
        client.close()
    # The kernel's client, our server, by threads.
    with stack.create_server(("", 81)) as listener:
        listener.settimeout(20)
        kernel = socket.create_connection(("192.0.2.2", 81), timeout=20)
        server, peer = listener.accept()
        assert peer == kernel.getsockname()
        server.sendall(b"hello, kernel")
        assert kernel.recv(100) == b"hello, kernel"
        kernel.close()
        assert server.recv(1) == b""
    # Datagrams.
    with socket.socket(type=socket.SOCK_DGRAM) as theirs:
        theirs.bind(("192.0.2.1", 53))
        ours = stack.socket(type=socket.SOCK_DGRAM)
        ours.settimeout(20)
        ours.sendto(b"query", ("192.0.2.1", 53))
        query, sender = theirs.recvfrom(100)
        theirs.sendto(query[::-1], sender)
        assert ours.recvfrom(100) == (b"yreuq", ("192.0.2.1", 53))
    # asyncio in a usual event loop: urllib of the kernel's side asks a server of ours.
    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + bytes(1_000_000))
            writer.close()
        async with await stack.start_server(serve, port=82):
            ask = lambda: urllib.request.urlopen("http://192.0.2.2:82/", timeout=20).read()
            assert len(await asyncio.to_thread(ask)) == 1_000_000
        try:
            await stack.open_connection("192.0.2.1", 99)
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("nobody listens there")
    asyncio.run(main())
print("done")
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(), reason="needs root and /dev/net/tun"
)
def test_the_kernel_is_the_peer() -> None:
    command = ["unshare", "--net", sys.executable, "-c", INSIDE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


def test_a_stack_needs_a_port_that_can_be() -> None:
    import wirespeed

    with pytest.raises(TypeError, match="tap=NAME"):
        wirespeed.Stack()
    with pytest.raises(ValueError, match="192.0.2.1/24"):
        wirespeed.Stack(tap="wspy1", addresses=["nonsense"])
    with pytest.raises(OSError):
        wirespeed.Stack(tap="a-name-that-is-too-long", addresses=["192.0.2.2/24"])
