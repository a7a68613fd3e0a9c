"""`Stack`: a TCP/IP stack in this process, with sockets for threads and for asyncio."""

from __future__ import annotations

import asyncio
import secrets
import socket as kernel
import ssl as ssl_module
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from . import _asyncio, _native, _units
from ._socket import Address, Socket


class Stack:
    """A TCP/IP stack in this process.

    `Stack(tap="ws0", addresses=["192.0.2.2/24"])` has a TAP interface of this machine as its port;
    the kernel is the host at the other end. `tun=` is the same without Ethernet. An interface that
    does not exist is made, which needs CAP_NET_ADMIN. `host=["192.0.2.1/24"]` gives the kernel's
    end addresses and brings it up. `gateways` are routers for everything else, at most one for each
    IP version. `servers` are name servers, and `names` are hosts that need none.
    """

    def __init__(
        self,
        *,
        tap: str | None = None,
        tun: str | None = None,
        addresses: Iterable[str] = (),
        host: Iterable[str] = (),
        gateways: Iterable[str] = (),
        servers: Iterable[str] = (),
        names: Mapping[str, str] | None = None,
        _core: _native.StackCore | None = None,
    ) -> None:
        if _core is not None:
            self._core = _core
            return
        interface = tap or tun
        if not interface or (tap and tun):
            raise TypeError("a stack has a port: give it tap=NAME or tun=NAME")
        self._core = _native.StackCore(
            interface,
            bool(tap),
            list(addresses),
            list(host),
            list(gateways),
            secrets.randbits(128),
        )
        self._core.set_resolver(list(servers), [], list((names or {}).items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stack; all of its sockets fail from then on."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<wirespeed.Stack {' '.join(self._core.networks)}>"

    @property
    def addresses(self) -> list[str]:
        """The stack's addresses."""
        return [network.partition("/")[0] for network in self._core.networks]

    @property
    def address(self) -> str:
        """The stack's first IPv4 address, or its first address."""
        addresses = self.addresses
        if not addresses:
            raise LookupError("the stack has no address: give it addresses=[...]")
        return next((found for found in addresses if "." in found), addresses[0])

    @property
    def address6(self) -> str:
        """The stack's first IPv6 address."""
        for found in self.addresses:
            if ":" in found:
                return found
        raise LookupError("the stack has no IPv6 address: give it one in addresses=[...]")

    @property
    def world(self) -> _native.World | None:
        """The world of virtual time, or `None` in real time."""
        return self._core.world

    @property
    def connections(self) -> int:
        """How many TCP connections the stack has."""
        return self._core.connections

    def counters(self) -> dict[str, int]:
        """Counters that are not zero, and with `drop_` before their names dropped packets."""
        return self._core.counters()

    def time(self) -> float:
        """The time in seconds: of the world in virtual time, or of `time.monotonic`."""
        return _asyncio.time_of(self.world)

    def socket(
        self,
        family: int = kernel.AF_INET,
        type: int = kernel.SOCK_STREAM,
        proto: int = 0,
    ) -> Socket:
        """A new socket, as `socket.socket(family, type, proto)`."""
        return Socket(self, family, type, proto)

    def create_connection(
        self,
        address: Address,
        timeout: Any = None,
        source_address: Address | None = None,
    ) -> Socket:
        """A TCP connection, as `socket.create_connection`; tries all addresses of the host."""
        host, port = address
        if not isinstance(timeout, int | float):
            # `None`, or what `socket.create_connection` takes for "none was given".
            timeout = None
        failure: OSError | None = None
        for found in self.gethostbyname_all(host, timeout):
            family = kernel.AF_INET6 if ":" in found else kernel.AF_INET
            connection = self.socket(family)
            try:
                connection.settimeout(timeout)
                if source_address is not None:
                    connection.bind(source_address)
                connection.connect((found, port))
                return connection
            except OSError as error:
                connection.close()
                failure = error
        raise failure or kernel.gaierror(kernel.EAI_NONAME, f"{host} has no address")

    def create_server(
        self, address: Address, *, family: int = kernel.AF_INET, backlog: int = 128
    ) -> Socket:
        """A listening TCP socket, as `socket.create_server`."""
        listener = self.socket(family)
        try:
            listener.bind(address)
            listener.listen(backlog)
            return listener
        except BaseException:
            listener.close()
            raise

    def gethostbyname_all(self, host: str, timeout: float | None = None) -> list[str]:
        """The addresses of a host, which is a name or an address as text."""
        try:
            return self._core.lookup(host, _units.timeout(timeout))
        except FileNotFoundError as error:
            raise kernel.gaierror(kernel.EAI_NONAME, str(error)) from None

    async def open_connection(
        self,
        host: str,
        port: int,
        *,
        limit: int = 2**16,
        ssl: ssl_module.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TCP connection as streams, as `asyncio.open_connection`."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await self.create_protocol_connection(
            lambda: protocol, host, port, ssl=ssl, server_hostname=server_hostname
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def start_server(
        self,
        client_connected_cb: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
        host: str = "",
        port: int = 0,
        *,
        limit: int = 2**16,
        backlog: int = 128,
        ssl: ssl_module.SSLContext | None = None,
    ) -> _asyncio.Server:
        """A TCP server with streams, as `asyncio.start_server`."""
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=limit, loop=loop)
            return asyncio.StreamReaderProtocol(reader, client_connected_cb, loop=loop)

        return await self.create_protocol_server(protocol, host, port, backlog=backlog, ssl=ssl)

    async def create_protocol_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl: ssl_module.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """A TCP connection with a protocol, as `loop.create_connection`."""
        return await _asyncio.connect(
            self, protocol_factory, host, port, ssl, server_hostname or host
        )

    async def create_protocol_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str = "",
        port: int = 0,
        *,
        backlog: int = 128,
        ssl: ssl_module.SSLContext | None = None,
    ) -> _asyncio.Server:
        """A TCP server with protocols, as `loop.create_server`."""
        family = kernel.AF_INET6 if ":" in host else kernel.AF_INET
        listener = self.create_server((host, port), family=family, backlog=backlog)
        return _asyncio.Server(listener, protocol_factory, ssl)
