"""A TCP/IP stack in your process: sockets, asyncio, and bad links in virtual time for tests.

Two stacks and a bad link, without a privilege and without waiting:

>>> import wirespeed
>>> with wirespeed.pair(delay="50ms", loss=0.01, seed=1, virtual=True) as (a, b):
...     listener = b.create_server(("", 80))
...     client = a.create_connection((b.address, 80))
...     server, peer = listener.accept()
...     client.sendall(b"hello")
...     server.recv(100)
b'hello'

`docs/python.md` of the project is the guide.
"""

import os

from ._asyncio import Server
from ._native import Deadlock, forked
from ._pair import Pair, WorldThread, pair
from ._socket import Socket
from ._stack import Stack
from ._virtual import VirtualEventLoop

os.register_at_fork(after_in_child=forked)

__all__ = [
    "Deadlock",
    "Pair",
    "Server",
    "Socket",
    "Stack",
    "VirtualEventLoop",
    "WorldThread",
    "pair",
]
