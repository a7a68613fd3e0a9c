"""Sockets of threads: the calls of `socket.socket`, in real and in virtual time."""

from __future__ import annotations

import array
import errno
import gc
import http.client
import http.server
import io
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import wirespeed
from conftest import Connected


def test_bytes_go_both_ways(connected: Connected) -> None:
    client, server = connected
    client.sendall(b"a question")
    assert server.recv(100) == b"a question"
    room = bytearray(20)
    assert server.send(memoryview(b"an answer")) == 9
    assert client.recv_into(room) == 9
    assert bytes(room[:9]) == b"an answer"
    client.sendall(array.array("I", [1, 2]))
    assert server.recv(100, socket.MSG_PEEK) == server.recv(100) == struct.pack("II", 1, 2)


def test_recv_into_fills_what_it_is_told(connected: Connected) -> None:
    client, server = connected
    client.sendall(b"abcdef")
    room = bytearray(4)
    assert server.recv_into(room, 2) == 2
    assert server.recv_into(memoryview(room)[2:]) == 2
    assert bytes(room) == b"abcd"
    with pytest.raises(ValueError, match="shorter"):
        server.recv_into(room, 5)
    with pytest.raises(TypeError, match="written"):
        server.recv_into(b"1234")


def test_the_end_of_the_stream(connected: Connected) -> None:
    client, server = connected
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    server.sendall(b"still open")
    assert client.recv(100) == b"still open"
    with pytest.raises(BrokenPipeError) as caught:
        client.send(b"x")
    assert caught.value.errno == errno.EPIPE


def test_addresses(ends: wirespeed.Pair, connected: Connected) -> None:
    client, server = connected
    assert client.getpeername() == server.getsockname() == (ends.b.address, 7)
    assert client.getsockname() == server.getpeername()
    assert (client.family, client.type) == (socket.AF_INET, socket.SOCK_STREAM)
    assert client.proto == socket.IPPROTO_TCP


def test_ipv6(ends: wirespeed.Pair) -> None:
    with ends.b.create_server(("::", 7), family=socket.AF_INET6) as listener:
        with ends.a.create_connection((ends.b.address6, 7)) as client:
            server, peer = listener.accept()
            assert peer == client.getsockname() and len(peer) == 4
            client.sendall(b"six")
            assert server.recv(10) == b"six"
            server.close()


def test_names(ends: wirespeed.Pair) -> None:
    with ends.b.create_server(("", 7)), ends.a.create_connection(("b", 7)) as client:
        assert client.getpeername()[1] == 7
    with pytest.raises(OSError):
        ends.a.create_connection(("nobody.invalid", 7))


def test_refused(ends: wirespeed.Pair) -> None:
    with pytest.raises(ConnectionRefusedError) as caught:
        ends.a.create_connection((ends.b.address, 9))
    assert caught.value.errno == errno.ECONNREFUSED
    assert "nobody listens" in str(caught.value)
    with ends.a.socket() as client:
        assert client.connect_ex((ends.b.address, 9)) == errno.ECONNREFUSED


def test_a_timeout(ends: wirespeed.Pair, connected: Connected) -> None:
    client, _ = connected
    client.settimeout(0.15)
    before = ends.time()
    with pytest.raises(TimeoutError):
        client.recv(1)
    assert ends.time() - before > 0.1499
    assert client.gettimeout() == client.timeout == 0.15


def test_the_timeout_of_sendall_is_that_of_all_of_it() -> None:
    """Also if the peer reads all the time."""
    with wirespeed.pair() as (a, b), b.create_server(("", 7)) as listener:
        client = a.create_connection((b.address, 7), timeout=0.15)
        server, _ = listener.accept()

        def read() -> None:
            room = bytearray(1 << 16)
            while server.recv_into(room):
                pass

        reader = threading.Thread(target=read)
        reader.start()
        with pytest.raises(TimeoutError):
            client.sendall(bytes(1 << 31))
        client.close()
        reader.join(20)
        assert not reader.is_alive()


def test_without_waiting(ends: wirespeed.Pair, connected: Connected) -> None:
    client, server = connected
    client.setblocking(False)
    assert not client.getblocking()
    with pytest.raises(BlockingIOError) as caught:
        client.recv(1)
    assert caught.value.errno == errno.EAGAIN
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += client.send(bytes(65536))
    assert sent > 0
    server.settimeout(None)
    with pytest.raises(BlockingIOError):
        server.recv(1, socket.MSG_DONTWAIT) and server.recv(2**20, socket.MSG_DONTWAIT)
        while True:
            server.recv(2**20, socket.MSG_DONTWAIT)
    with ends.a.socket() as other:
        other.setblocking(False)
        assert other.connect_ex((ends.b.address, 9)) in (errno.EINPROGRESS, errno.ECONNREFUSED)


def test_datagrams(ends: wirespeed.Pair) -> None:
    with (
        ends.a.socket(type=socket.SOCK_DGRAM) as here,
        ends.b.socket(type=socket.SOCK_DGRAM) as there,
    ):
        there.bind(("", 53))
        there.settimeout(20)
        here.settimeout(20)
        assert here.sendto(b"query", (ends.b.address, 53)) == 5
        data, sender = there.recvfrom(100)
        assert (data, sender) == (b"query", (ends.a.address, here.getsockname()[1]))
        there.sendto(b"answer", 0, sender)
        room = bytearray(3)
        assert here.recvfrom_into(room) == (3, (ends.b.address, 53))
        here.connect((ends.b.address, 53))
        here.send(b"again")
        assert there.recv(100) == b"again"
        assert here.getpeername() == (ends.b.address, 53)
        with pytest.raises(OSError) as caught:
            here.sendto(bytes(70_000), (ends.b.address, 53))
        assert caught.value.errno == errno.EMSGSIZE


def test_options(connected: Connected, kernel: Connected) -> None:
    client, _ = connected
    for one in (client, kernel[0]):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 9)
        assert one.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 9
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 5)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        with pytest.raises(OSError) as caught:
            one.setsockopt(socket.IPPROTO_TCP, 12345, 1)
        assert caught.value.errno == errno.ENOPROTOOPT


def test_options_of_a_listener(ends: wirespeed.Pair) -> None:
    """Connections have the options that their listener had; later ones are an error."""
    with ends.b.socket() as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.bind(("", 7))
        listener.listen()
        with pytest.raises(OSError, match="before `connect` or `listen`"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        with ends.a.create_connection((ends.b.address, 7)):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_the_error_of_an_attempt(ends: wirespeed.Pair) -> None:
    """Without waiting, the error of a connection attempt is that of SO_ERROR, once."""
    with ends.a.socket() as client:
        client.setblocking(False)
        number = client.connect_ex((ends.b.address, 9))
        if number == errno.EINPROGRESS:
            ends.sleep("50ms")
            number = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert number == errno.ECONNREFUSED
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def test_the_same_errors_as_the_kernel(ends: wirespeed.Pair) -> None:
    def errors(make: Any, kind: int) -> list[tuple[type[BaseException], int | None]]:
        with make(socket.AF_INET, kind) as one:
            calls: list[Callable[[], object]] = [
                lambda: one.bind("nonsense"),
                lambda: one.bind(("127.0.0.1", "port")),
                lambda: one.bind(("127.0.0.1", 65536)),
                lambda: one.recv(-1),
                lambda: one.recv("1"),
                lambda: one.recv_into(bytearray(2), -1),
                lambda: one.send("text"),
                lambda: one.send(5),
                lambda: one.settimeout("soon"),
                lambda: one.settimeout(-1),
                lambda: one.getpeername(),
                lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, None),
                lambda: one.sendto(b"x"),
                lambda: one.shutdown(99),
                lambda: one.accept() if kind == socket.SOCK_STREAM else one.send(b"x"),
            ]
            found: list[tuple[type[BaseException], int | None]] = []
            for call in calls:
                with pytest.raises(Exception) as caught:
                    call()
                error = caught.value
                kind_of = OSError if isinstance(error, OSError) else type(error)
                found.append((kind_of, getattr(error, "errno", None)))
            return found

    kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM]
    for kind in kinds:
        ours, theirs = errors(ends.a.socket, kind), errors(socket.socket, kind)
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert mine[0] is other[0] or number in (3, 11, 13), (kind, number, mine, other)


def test_a_closed_socket(ends: wirespeed.Pair, connected: Connected) -> None:
    client, _ = connected
    client.close()
    client.close()
    assert client.fileno() == -1
    calls: list[Any] = [
        lambda: client.recv(1),
        lambda: client.recv_into(bytearray(1)),
        lambda: client.send(b"x"),
        lambda: client.sendall(b"x"),
        lambda: client.getsockname(),
        lambda: client.getpeername(),
        lambda: client.listen(),
        lambda: client.accept(),
        lambda: client.connect((ends.b.address, 7)),
        lambda: client.bind(("", 0)),
        lambda: client.shutdown(socket.SHUT_RDWR),
        lambda: client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        lambda: client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    ]
    for call in calls:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_a_closed_stack(ends: wirespeed.Pair, connected: Connected) -> None:
    ends.close()
    ends.close()
    for call in (lambda: connected[0].send(b"x"), lambda: ends.a.create_server(("", 80))):
        with pytest.raises(OSError, match="stack"):
            call()


def test_files(connected: Connected) -> None:
    client, server = connected
    with client.makefile("rw", newline="\n") as file:
        file.write("a line\n")
        file.flush()
        lines = server.makefile("rb")
        server.close()
        assert lines.readline() == b"a line\n"
        lines.close()
        assert file.read() == ""
    with pytest.raises(io.UnsupportedOperation):
        client.fileno()


def test_sendfile(connected: Connected) -> None:
    client, server = connected
    assert client.sendfile(io.BytesIO(b"0123456789"), 2, 5) == 5
    assert server.recv(100) == b"23456"


def test_http(ends: wirespeed.Pair) -> None:
    """Python's own HTTP client and server over the sockets."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.path.encode() * 1000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    def serve() -> None:
        with ends.b.create_server(("", 80)) as listener:
            connection, peer = listener.accept()
            with connection:
                Handler(connection, peer, None)  # type: ignore[arg-type]

    server = ends.spawn(serve)
    ends.sleep("100ms")
    client = http.client.HTTPConnection("b")
    client._create_connection = ends.a.create_connection  # type: ignore[attr-defined]
    client.request("GET", "/page")
    assert client.getresponse().read() == b"/page" * 1000
    client.close()
    server.join(20)
    assert not server.is_alive()


def test_many_threads(ends: wirespeed.Pair) -> None:
    """Eight connections echo at once."""

    def echo(connection: wirespeed.Socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    def accept(listener: wirespeed.Socket) -> None:
        for _ in range(8):
            ends.spawn(echo, listener.accept()[0])

    results: dict[int, int] = {}

    def ask(number: int) -> None:
        with ends.a.create_connection((ends.b.address, 7)) as client:
            size = 200_000 + number

            def send() -> None:
                client.sendall(bytes([number]) * size)
                client.shutdown(socket.SHUT_WR)

            sender = ends.spawn(send)
            data = b"".join(iter(lambda: client.recv(65536), b""))
            sender.join()
            results[number] = data.count(number) - size

    with ends.b.create_server(("", 7)) as listener:
        threads = [ends.spawn(accept, listener)]
        threads += [ends.spawn(ask, number) for number in range(8)]
        for thread in threads:
            thread.join()
    assert results == {number: 0 for number in range(8)}


def test_close_wakes_a_thread_that_waits() -> None:
    with wirespeed.pair() as (a, b):
        listener = b.create_server(("", 7))
        caught: list[OSError] = []

        def accept() -> None:
            try:
                listener.accept()
            except OSError as error:
                caught.append(error)

        thread = threading.Thread(target=accept)
        thread.start()
        listener.close()
        thread.join(20)
        assert [error.errno for error in caught] in ([errno.EBADF], [errno.ECONNABORTED])


def test_objects_do_not_leak() -> None:
    """A million short calls, and thousands of sockets, leave nothing behind."""
    with wirespeed.pair(virtual=True) as (a, b):
        listener = b.create_server(("", 7))
        client = a.create_connection((b.address, 7))
        server, _ = listener.accept()
        server.setblocking(False)
        room, data = bytearray(8), b"x"

        def calls(count: int) -> None:
            for _ in range(count):
                try:
                    server.recv_into(room)
                except BlockingIOError:
                    pass
                client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
            for _ in range(count // 250):
                client.sendall(data)
                server.settimeout(1)
                assert server.recv(1) == data
                server.setblocking(False)
                a.socket().close()
                a.socket(type=socket.SOCK_DGRAM)

        calls(5_000)
        gc.collect()
        tracemalloc.start()
        calls(5_000)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        calls(500_000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 50_000
        assert a.connections == b.connections == 1
