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
