"""asyncio over sockets of a stack: connections, servers, and how a loop hears of ready sockets.

The stack reports sockets that are ready through a descriptor, on which the event loop waits.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl as ssl_module
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from ._native import Poller, World
from ._socket import Socket
from ._transport import StreamTransport

if TYPE_CHECKING:
    from ._stack import Stack


def time_of(world: World | None) -> float:
    """The time in seconds of a world, or of the system."""
    return time.monotonic() if world is None else world.time_ns() / 1e9


class Readiness:
    """What the sockets of one event loop wait for."""

    # By the number of the loop. Only the open loop itself keeps the object: the callbacks know the
    # loop, so it would never be freed otherwise.
    _of: weakref.WeakValueDictionary[int, Readiness] = weakref.WeakValueDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.poller = Poller()
        self._loop = weakref.ref(loop)
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._tokens = 0
        loop.add_reader(self.poller.fileno(), self._report)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Readiness:
        """The readiness of a loop, which is made with its first socket."""
        found = cls._of.get(id(loop))
        if found is None or found._loop() is not loop:
            found = cls._of[id(loop)] = Readiness(loop)
        return found

    def add(self, callback: Callable[[], None]) -> int:
        """A token, whose reports call `callback`."""
        self._tokens += 1
        self._callbacks[self._tokens] = callback
        return self._tokens

    def remove(self, token: int) -> None:
        """Forget a token; its reports do nothing from then on."""
        self._callbacks.pop(token, None)

    def _report(self) -> None:
        self._call(iter(self.poller.take()))

    def _call(self, tokens: Iterator[int]) -> None:
        try:
            for token in tokens:
                callback = self._callbacks.get(token)
                if callback is not None:
                    callback()
        except BaseException:
            # The loop reports it. The news of the other sockets must not be lost.
            asyncio.get_running_loop().call_soon(self._call, tokens)
            raise


async def ready(of: Socket, write: bool) -> None:
    """Wait until a call of the socket would not wait."""
    loop = asyncio.get_running_loop()
    readiness = Readiness.of(loop)
    future: asyncio.Future[None] = loop.create_future()
    token = readiness.add(lambda: None if future.done() else future.set_result(None))
    try:
        of._arm(readiness.poller, token, write)
        await future
    finally:
        readiness.remove(token)


async def _connected(of: Socket, address: tuple[str, int]) -> None:
    try:
        of.connect(address)
    except BlockingIOError as error:
        if error.errno != errno.EINPROGRESS:
            raise
        while not of._is_connected():
            await ready(of, True)


async def _addresses(stack: Stack, host: str) -> list[str]:
    try:
        return stack.gethostbyname_all(host, 0)
    except BlockingIOError:
        pass
    if stack.world is not None:
        raise socket.gaierror(socket.EAI_AGAIN, f"{host} is not one of the names of this pair")
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, stack.gethostbyname_all, host)


async def connect(
    stack: Stack,
    protocol_factory: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    ssl: ssl_module.SSLContext | None,
    server_hostname: str,
) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
    """Connect, trying all addresses of the host in turn."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for found in await _addresses(stack, host):
        family = socket.AF_INET6 if ":" in found else socket.AF_INET
        connection = stack.socket(family)
        try:
            connection.setblocking(False)
            await _connected(connection, (found, port))
        except OSError as error:
            connection.close()
            failure = error
            continue
        except BaseException:
            connection.close()
            raise
        protocol = protocol_factory()
        if ssl is None:
            transport = StreamTransport(loop, Readiness.of(loop), connection, protocol)
            try:
                # The loop calls `connection_made` first.
                await asyncio.sleep(0)
            except BaseException:
                transport.abort()
                raise
            return transport, protocol
        return await _with_tls(loop, connection, protocol, ssl, server_hostname), protocol
    raise failure or socket.gaierror(socket.EAI_NONAME, f"{host} has no address")


async def _with_tls(
    loop: asyncio.AbstractEventLoop,
    connection: Socket,
    protocol: asyncio.BaseProtocol,
    ssl: ssl_module.SSLContext,
    server_hostname: str | None,
) -> asyncio.Transport:
    """A TLS connection over the socket, as client or, without a name, as server."""
    before = _Before()
    plain = StreamTransport(loop, Readiness.of(loop), connection, before)
    try:
        transport = await loop.start_tls(
            plain, before, ssl, server_side=server_hostname is None, server_hostname=server_hostname
        )
    except BaseException:
        plain.abort()
        raise
    assert transport is not None
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    before.pass_on(protocol)
    return transport


class _Before(asyncio.Protocol):
    """Takes the protocol's place until TLS has begun, and keeps what came with the handshake."""

    def __init__(self) -> None:
        self._data = bytearray()

    def data_received(self, data: bytes) -> None:
        self._data += data

    def pass_on(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what came to the protocol."""
        if isinstance(protocol, asyncio.Protocol) and self._data:
            protocol.data_received(bytes(self._data))
        while isinstance(protocol, asyncio.BufferedProtocol) and self._data:
            room = memoryview(protocol.get_buffer(len(self._data)))
            count = min(len(room), len(self._data))
            room[:count] = self._data[:count]
            del self._data[:count]
            protocol.buffer_updated(count)


class Server:
    """A TCP server of a stack, with the calls of `asyncio.Server`; it serves from the beginning."""

    def __init__(
        self,
        listener: Socket,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        ssl: ssl_module.SSLContext | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._factory = protocol_factory
        self._ssl = ssl
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = self._loop.create_future()
        listener.setblocking(False)
        self._readiness = Readiness.of(self._loop)
        self._token = self._readiness.add(self._accept)
        listener._arm(self._readiness.poller, self._token, False)

    @property
    def sockets(self) -> tuple[Socket, ...]:
        """The listening socket, until the server is closed."""
        return () if self._closed.done() else (self._listener,)

    def is_serving(self) -> bool:
        """Is the server open?"""
        return not self._closed.done()

    async def start_serving(self) -> None:
        """Nothing to do: the server serves from the beginning."""

    async def serve_forever(self) -> None:
        """Serve until the task is cancelled, or the server is closed."""
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()

    def close(self) -> None:
        """Stop accepting. Open connections stay."""
        if not self._closed.done():
            self._readiness.remove(self._token)
            self._listener.close()
            self._closed.set_result(None)

    async def wait_closed(self) -> None:
        """Wait until the server is closed."""
        await asyncio.shield(self._closed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    def _accept(self) -> None:
        while not self._closed.done():
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                self._loop.call_exception_handler(
                    {"message": "the server cannot accept any more", "exception": error}
                )
                self.close()
                return
            connection.setblocking(False)
            try:
                protocol = self._factory()
            except Exception as error:
                connection.close()
                self._loop.call_exception_handler(
                    {"message": "no protocol for a connection", "exception": error}
                )
                continue
            if self._ssl is None:
                StreamTransport(self._loop, self._readiness, connection, protocol)
            else:
                coroutine = self._tls(connection, protocol, self._ssl)
                task = self._loop.create_task(coroutine)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if not self._closed.done():
            self._listener._arm(self._readiness.poller, self._token, False)

    async def _tls(
        self, connection: Socket, protocol: asyncio.BaseProtocol, ssl: ssl_module.SSLContext
    ) -> None:
        try:
            await _with_tls(self._loop, connection, protocol, ssl, None)
        except (OSError, EOFError) as error:
            context = {"message": "a TLS handshake failed", "exception": error}
            self._loop.call_exception_handler(context)
