"""HTTP libraries over the sockets, by the adapters that docs/python.md shows."""

from __future__ import annotations

import asyncio
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wirespeed
from conftest import certificate


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers several requests over one connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.path.encode() * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[tuple[wirespeed.Stack, list[Any]]]:
    """A stack whose peer `b` serves pages, and the connections that it had."""
    with wirespeed.pair() as (a, b):
        listener = b.create_server(("", 80))
        peers: list[Any] = []

        def serve(connection: wirespeed.Socket, peer: Any) -> None:
            with connection:
                Handler(connection, peer, None)  # type: ignore[arg-type]

        def accept() -> None:
            while True:
                try:
                    connection, peer = listener.accept()
                except OSError:
                    return
                peers.append(peer)
                threading.Thread(target=serve, args=(connection, peer), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        yield a, peers
        listener.close()
        thread.join()


def test_requests(served: tuple[wirespeed.Stack, list[Any]]) -> None:
    requests: Any = pytest.importorskip("requests")
    urllib3: Any = pytest.importorskip("urllib3")
    stack, peers = served

    class Connection(urllib3.connection.HTTPConnection):  # type: ignore[misc]
        is_connected = property(lambda self: self.sock is not None)

        def _new_conn(self) -> wirespeed.Socket:
            return stack.create_connection((self.host, self.port), self.timeout)

    class Pool(urllib3.HTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = Connection

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            self.poolmanager.pool_classes_by_scheme = {"http": Pool}

    with requests.Session() as session:
        session.mount("http://", Adapter())
        for page in ("/one", "/two"):
            assert session.get(f"http://b{page}", timeout=20).content == page.encode() * 1000
        assert len(peers) == 1, "the session kept its connection"
        with pytest.raises(requests.ConnectionError):
            session.get("http://b:81/", timeout=20)


def test_httpx(served: tuple[wirespeed.Stack, list[Any]]) -> None:
    httpcore: Any = pytest.importorskip("httpcore")
    httpx: Any = pytest.importorskip("httpx")
    stack, peers = served

    class Stream(httpcore.NetworkStream):  # type: ignore[misc]
        def __init__(self, connection: wirespeed.Socket) -> None:
            self.connection = connection

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            self.connection.settimeout(timeout)
            return self.connection.recv(max_bytes)

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            self.connection.settimeout(timeout)
            self.connection.sendall(buffer)

        def close(self) -> None:
            self.connection.close()

        def get_extra_info(self, info: str) -> Any:
            return None

    class Backend(httpcore.NetworkBackend):  # type: ignore[misc]
        def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *_: Any, **__: Any
        ) -> Stream:
            return Stream(stack.create_connection((host, port), timeout))

    transport = httpx.HTTPTransport()
    transport._pool = httpcore.ConnectionPool(network_backend=Backend())
    with httpx.Client(transport=transport) as client:
        for page in ("/one", "/two"):
            assert client.get(f"http://b{page}", timeout=20).content == page.encode() * 1000
    assert len(peers) == 1, "the client kept its connection"


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_aiohttp(ends: wirespeed.Pair, tmp_path: Path, tls: bool) -> None:
    """aiohttp's client and its server, in real and in virtual time."""
    aiohttp: Any = pytest.importorskip("aiohttp")
    web: Any = pytest.importorskip("aiohttp.web")
    server_side, client_side = certificate(tmp_path) if tls else (None, None)

    class Connector(aiohttp.BaseConnector):  # type: ignore[misc]
        async def _create_connection(self, request: Any, *_: Any) -> Any:
            url = request.url
            made = await ends.a.create_protocol_connection(
                self._factory, url.host, url.port, ssl=client_side
            )
            return made[1]

    async def page(request: Any) -> Any:
        await asyncio.sleep(0.01)
        return web.Response(body=request.path.encode() * 1000)

    async def main() -> None:
        runner = web.AppRunner(web.Application())
        runner.app.router.add_get("/{name}", page)
        await runner.setup()
        server = await ends.b.create_protocol_server(runner.server, port=80, ssl=server_side)
        scheme = "https" if tls else "http"
        async with aiohttp.ClientSession(connector=Connector()) as session:
            for name in ("/one", "/two"):
                async with session.get(f"{scheme}://b:80{name}") as answer:
                    assert await answer.read() == name.encode() * 1000
            with pytest.raises(OSError):
                await session.get("http://b:81/")
        server.close()
        await runner.cleanup()

    ends.run(main())


def test_what_needs_a_descriptor_says_what_to_do(served: tuple[wirespeed.Stack, list[Any]]) -> None:
    stack, _ = served
    with stack.create_connection(("b", 80)) as client:
        with pytest.raises(OSError, match="no descriptor: use threads"):
            ssl.create_default_context().wrap_socket(
                client,  # type: ignore[arg-type]
                server_hostname="b",
            )
        assert client.type == socket.SOCK_STREAM
