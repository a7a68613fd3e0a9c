"""asyncio over the sockets, in the usual event loop and in virtual time."""

from __future__ import annotations

import asyncio
import errno
import functools
import gc
import os
import shutil
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
import wirespeed
from conftest import certificate
from wirespeed._asyncio import Readiness

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_streams(ends: wirespeed.Pair) -> None:
    async def main() -> None:
        async with await ends.b.start_server(_echo, port=7) as server:
            assert server.is_serving() and server.sockets[0].getsockname()[1] == 7
            reader, writer = await ends.a.open_connection(ends.b.address, 7)
            assert isinstance(reader, asyncio.StreamReader)
            assert isinstance(writer, asyncio.StreamWriter)
            assert writer.get_extra_info("peername") == (ends.b.address, 7)
            assert writer.get_extra_info("sockname")[0] == ends.a.address
            data = bytes(range(256)) * 20_000
            writer.write(data)
            writer.write_eof()
            assert await reader.read() == data
            writer.close()
            await writer.wait_closed()

    ends.run(main())


def test_many_connections(ends: wirespeed.Pair) -> None:
    async def ask(number: int) -> bool:
        reader, writer = await ends.a.open_connection("b", 7)
        data = number.to_bytes(2, "big") * 5_000
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer == data

    async def main() -> None:
        async with await ends.b.start_server(_echo, port=7):
            assert all(await asyncio.gather(*(ask(number) for number in range(100))))

    ends.run(main())


def test_refused(ends: wirespeed.Pair) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await ends.a.open_connection(ends.b.address, 9)

    ends.run(main())


def test_a_slow_reader_pauses_the_writer(ends: wirespeed.Pair) -> None:
    async def main() -> None:
        begin = asyncio.Event()
        counts: list[int] = []

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await begin.wait()
            counts.append(len(await reader.read(-1)))
            writer.close()

        async with await ends.b.start_server(slow, port=7):
            reader, writer = await ends.a.open_connection("b", 7)
            size = 30_000_000
            writer.write(bytes(size))
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0.1)
            assert not draining.done()
            assert writer.transport.get_write_buffer_size() > 1_000_000
            begin.set()
            await draining
            writer.write_eof()
            assert await reader.read() == b"" and counts == [size]
            writer.close()

    ends.run(main())


def test_cancelled_and_forgotten_connections(ends: wirespeed.Pair) -> None:
    """A timeout of a read, an abort, and a connect that is cancelled leave nothing behind."""

    async def main() -> None:
        async with await ends.b.start_server(_echo, port=7):
            reader, writer = await ends.a.open_connection("b", 7)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.05)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            writer.transport.abort()
            connecting = asyncio.ensure_future(ends.a.open_connection("192.0.2.77", 7))
            await asyncio.sleep(0.05)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            await asyncio.sleep(0.1)
        gc.collect()
        assert ends.a.connections == 0

    ends.run(main())


def test_protocols(ends: wirespeed.Pair) -> None:
    """A buffered protocol and a plain one, made by factories."""

    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.room = bytearray(10)
            self.got = bytearray()
            self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.room

        def buffer_updated(self, nbytes: int) -> None:
            self.got += self.room[:nbytes]

        def connection_lost(self, exc: Exception | None) -> None:
            self.ended.set_result(None)

    class Greets(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.writelines([b"hello, ", b"a longer greeting"])
            transport.close()

    async def main() -> None:
        async with await ends.b.create_protocol_server(Greets, port=7):
            made = await ends.a.create_protocol_connection(Buffered, "b", 7)
            protocol = made[1]
            assert isinstance(protocol, Buffered)
            await protocol.ended
            assert protocol.got == b"hello, a longer greeting"

    ends.run(main())


def test_a_protocol_that_fails_loses_its_connection(ends: wirespeed.Pair) -> None:
    class Fails(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

    async def main() -> None:
        seen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        async with await ends.b.create_protocol_server(Fails, port=7):
            reader, writer = await ends.a.open_connection("b", 7)
            writer.write(b"x")
            assert await reader.read() == b""
            writer.close()
        assert isinstance(seen[0]["exception"], ZeroDivisionError)

    ends.run(main())


def test_a_server_survives_resets_and_failures(ends: wirespeed.Pair) -> None:
    """A connection that is reset before it is accepted, and a factory that fails, end no server."""
    failures = iter([ZeroDivisionError("first"), None, None])

    class Greets(asyncio.Protocol):
        def __init__(self) -> None:
            failure = next(failures)
            if failure is not None:
                raise failure

        def connection_made(self, transport: Any) -> None:
            transport.write(b"hello")
            transport.close()

    async def main() -> None:
        seen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        async with await ends.b.create_protocol_server(Greets, port=7):
            reader, writer = await ends.a.open_connection("b", 7)
            assert await reader.read() == b""
            writer.close()
            assert isinstance(seen[0]["exception"], ZeroDivisionError)
            # The loop, and with it the server, has no turn between these calls.
            reset = ends.a.socket()
            reset.setblocking(False)
            assert reset.connect_ex((ends.b.address, 7)) in (0, errno.EINPROGRESS)
            ends.sleep("50ms")
            assert reset._is_connected()
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.close()
            ends.sleep("50ms")
            reader, writer = await ends.a.open_connection("b", 7)
            assert await asyncio.wait_for(reader.read(), 20) == b"hello"
            writer.close()
        assert len(seen) == 1

    ends.run(main())


def test_a_callback_that_fails_costs_no_other_connection_its_news(ends: wirespeed.Pair) -> None:
    called: list[int] = []

    def call(number: int) -> None:
        called.append(number)
        if number == 1:
            raise ZeroDivisionError

    async def main() -> None:
        seen: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context))
        readiness = Readiness.of(loop)
        tokens = [readiness.add(functools.partial(call, number)) for number in range(3)]
        with ends.a.socket() as unconnected:
            # All three have news at once: writing fails, without waiting.
            for token in tokens:
                unconnected._arm(readiness.poller, token, True)
            await asyncio.sleep(0.1)
        assert called == [0, 1, 2]
        assert [type(context["exception"]) for context in seen] == [ZeroDivisionError]

    ends.run(main())


def test_loops_leave_nothing_behind(ends: wirespeed.Pair) -> None:
    """Not even if their servers and connections were never closed."""

    async def main(number: int) -> None:
        server = await ends.b.create_protocol_server(asyncio.Protocol, port=number)
        transport, _ = await ends.a.create_protocol_connection(asyncio.Protocol, "b", number)
        assert server.is_serving() and transport.get_extra_info("peername")[1] == number

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    ends.run(main(1))
    before = descriptors()
    for number in range(2, 12):
        ends.run(main(number))
    assert descriptors() == before


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls(ends: wirespeed.Pair, tmp_path: Path) -> None:
    """TLS over the streams, with a certificate of host `b`."""
    server_side, client_side = certificate(tmp_path)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello ")
        writer.write((await reader.readline()).upper())
        writer.close()

    async def main() -> None:
        async with await ends.b.start_server(greet, port=443, ssl=server_side):
            reader, writer = await ends.a.open_connection("b", 443, ssl=client_side)
            assert await reader.readexactly(6) == b"hello "
            writer.write(b"client\n")
            assert await reader.read() == b"CLIENT\n"
            writer.close()
            with pytest.raises(ssl.SSLCertVerificationError):
                await ends.a.open_connection(ends.b.address, 443, ssl=client_side)

    ends.run(main())
