"""What the tests share."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import wirespeed

Connected = tuple[wirespeed.Socket, wirespeed.Socket]


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate of host `b`, and that of a client which trusts it."""
    pem = folder / "tls.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=b"
    make += " -addext subjectAltName=DNS:b"
    subprocess.run([*make.split(), "-keyout", pem, "-out", folder / "cert"], check=True)
    pem.write_text(pem.read_text() + (folder / "cert").read_text())
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pem)
    return server_side, ssl.create_default_context(cafile=str(pem))


@pytest.fixture(params=[False, True], ids=["real", "virtual"])
def ends(request: pytest.FixtureRequest) -> Iterator[wirespeed.Pair]:
    """A perfect pair, in real and in virtual time."""
    pair = wirespeed.pair(virtual=request.param, seed=1)
    yield pair
    pair.close()


@pytest.fixture
def connected(ends: wirespeed.Pair) -> Iterator[Connected]:
    """A connection from `a` to `b`."""
    with ends.b.create_server(("", 7)) as listener:
        client = ends.a.create_connection((ends.b.address, 7), timeout=20)
        server, _ = listener.accept()
    server.settimeout(20)
    with client, server:
        yield client, server


@pytest.fixture
def kernel() -> Iterator[Connected]:
    """A connection of the kernel, to compare with."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=20)
        server, _ = listener.accept()
    server.settimeout(20)
    with client, server:
        yield client, server  # type: ignore[misc]
