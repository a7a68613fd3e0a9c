"""A process with stacks: how it ends, and how Ctrl-C gets through."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

WAITS = {
    "recv": "(kept := connected())[0].recv(1)",
    "accept": "b.create_server(('', 80)).accept()",
    "connect": "a.create_connection(('192.0.2.77', 80))",
    "sendall": "(kept := connected())[0].sendall(bytes(10**9))",
    "recvfrom": "a.socket(type=2).recvfrom(1)",
}

BEFORE = """
import signal, sys, wirespeed
signal.signal(signal.SIGINT, signal.default_int_handler)
a, b = wirespeed.pair()
def connected():
    listener = b.create_server(("", 7))
    client = a.create_connection((b.address, 7))
    return client, listener.accept()[0], listener
"""


@pytest.mark.parametrize("call", WAITS)
def test_ctrl_c(call: str) -> None:
    script = f"{BEFORE}\nprint('waits', flush=True)\ntry:\n    {WAITS[call]}\n"
    script += "except KeyboardInterrupt:\n    print('interrupted')\n"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None and one.stdout.readline() == "waits\n"
        time.sleep(0.3)
        one.send_signal(signal.SIGINT)
        try:
            output, _ = one.communicate(timeout=20)
        finally:
            one.kill()
        assert output == "interrupted\n" and one.returncode == 0


FORK = """
import os, socket, sys
client, server, listener = connected()
datagrams = b.socket(type=socket.SOCK_DGRAM)
datagrams.bind(("", 53))
virtual = wirespeed.pair(virtual=True)
child = os.fork()
if child == 0:
    calls = [
        lambda: client.recv(1),
        lambda: server.sendall(b"x"),
        lambda: listener.accept(),
        lambda: datagrams.recvfrom(1),
        lambda: a.socket(),
        lambda: a.create_connection((b.address, 7)),
        lambda: a.counters(),
        lambda: a.connections,
    ]
    for call in calls:
        try:
            call()
        except OSError as error:
            assert "parent" in str(error), error
        else:
            sys.exit(3)
    client.close()
    b.close()
    # Stacks of its own, and a world without threads, are the child's.
    with wirespeed.pair() as (c, d):
        kept = d.create_server(("", 9))
        c.create_connection((d.address, 9)).sendall(b"own")
        assert kept.accept()[0].recv(3) == b"own"
    kept = virtual.b.create_server(("", 9))
    virtual.a.create_connection((virtual.b.address, 9))
    kept.accept()
    print("child", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
client.sendall(b"still here")
print(server.recv(100).decode())
"""


def test_fork() -> None:
    """The stacks stay with the parent; the child has errors that say so, and can end."""
    ran = subprocess.run(
        [sys.executable, "-c", BEFORE + FORK], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "child\nstill here\n"), ran.stderr


ENDS = {
    "open sockets": "keep = connected()",
    "a thread that waits": """
import threading, time
client, server, listener = connected()
threading.Thread(target=client.recv, args=(1,), daemon=True).start()
time.sleep(0.2)
""",
    "an event loop": """
import asyncio
async def main():
    keep = await a.open_connection(b.address, 7)
kept = connected(), b.create_server(("", 8))
async def other():
    await a.open_connection(b.address, 8)
asyncio.run(other())
""",
    "virtual time": """
pair = wirespeed.pair(virtual=True)
listener = pair.b.create_server(("", 7))
pair.spawn(listener.accept)
pair.sleep(1)
""",
    "data that nobody reads": "keep = connected(); keep[0].sendall(bytes(10_000))",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends(end: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-c", BEFORE + ENDS[end]],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Fatal" not in ran.stderr and "panicked" not in ran.stderr
