"""asyncio over the sockets, in the usual event loop and in virtual time."""

from __future__ import annotations

import asyncio
import gc
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import wirespeed

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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls(ends: wirespeed.Pair, tmp_path: Path) -> None:
    """TLS over the streams, with a certificate of host `b`."""
    pem = tmp_path / "tls.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=b -addext subjectAltName=DNS:b"
    subprocess.run([*make.split(), "-keyout", pem, "-out", tmp_path / "cert"], check=True)
    pem.write_text(pem.read_text() + (tmp_path / "cert").read_text())
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pem)
    client_side = ssl.create_default_context(cafile=str(pem))

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
