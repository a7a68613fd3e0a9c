"""Bulk over memory and over the kernel's loopback, by the same calls.

    python bench/bulk.py wirespeed|kernel SECONDS

Two threads of one process, sender and receiver, with calls of 64 KB. The processor time is that of
the whole process, so the kernel's work counts, and that of the stacks too. Prints one JSON object.
`cargo xtask bench programs` runs this for each side in turn.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from typing import Any

import wirespeed

CALL_BYTES = 64 << 10


def transfer(client: Any, server: Any, seconds: float) -> dict[str, float]:
    data, room = bytes(CALL_BYTES), bytearray(CALL_BYTES)
    received = 0
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    began, wall = time.process_time(), time.monotonic()
    sender.start()
    while count := server.recv_into(room):
        received += count
        if time.monotonic() - wall > seconds:
            stop.set()
    sender.join()
    return {
        "bytes": received,
        "wall_s": time.monotonic() - wall,
        "cpu_s": time.process_time() - began,
    }


def main() -> None:
    kind, seconds = sys.argv[1], float(sys.argv[2])
    if kind == "kernel":
        listener: Any = socket.create_server(("127.0.0.1", 0))
        client: Any = socket.create_connection(listener.getsockname())
        print(json.dumps(transfer(client, listener.accept()[0], seconds)))
        return
    with wirespeed.pair() as (a, b):
        listener = b.create_server(("", 7))
        client = a.create_connection((b.address, 7))
        print(json.dumps(transfer(client, listener.accept()[0], seconds)))


if __name__ == "__main__":
    main()
