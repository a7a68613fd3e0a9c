"""The native half of the package."""

from os import PathLike
from typing import Any, Self, final

from typing_extensions import Buffer

_Address = tuple[Any, ...]

class Deadlock(RuntimeError):
    """Nothing will ever happen in a world of virtual time, and a call waits."""

@final
class Poller:
    """Collects the tokens of sockets that have news."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...

@final
class World:
    """Stacks that share a virtual clock."""

    def time_ns(self) -> int: ...
    def wait_for(self, poller: Poller, timeout_ns: int | None) -> bool: ...
    def settle_all(self) -> None: ...
    def sleep_ns(self, time_ns: int) -> None: ...
    def add_thread(self) -> int: ...
    def begin_thread(self, number: int) -> None: ...
    def end_thread(self, number: int) -> None: ...
    def join_thread(self, number: int, timeout_ns: int | None) -> bool: ...
    def close(self) -> None: ...

@final
class Path:
    """The path between the stacks of a pair."""

    def set(self, direction: int, settings: dict[str, Any]) -> None: ...
    def finish(self) -> None: ...
    def counts(self, direction: int) -> dict[str, int]: ...

@final
class Connection:
    """A connection that was accepted and has no socket yet."""

@final
class StackCore:
    """A TCP/IP stack inside this process."""

    def __new__(
        cls,
        interface: str,
        ethernet: bool,
        addresses: list[str],
        host: list[str],
        gateways: list[str],
        secret: int,
    ) -> Self: ...
    @property
    def networks(self) -> list[str]: ...
    @property
    def world(self) -> World | None: ...
    @property
    def connections(self) -> int: ...
    def set_resolver(
        self, servers: list[str], search: list[str], names: list[tuple[str, str]]
    ) -> None: ...
    def lookup(self, host: str, timeout_ns: int | None) -> list[str]: ...
    def counters(self) -> dict[str, int]: ...
    def close(self) -> None: ...

class Socket:
    """A TCP or UDP socket of a stack."""

    def __new__(
        cls,
        stack: StackCore,
        family: int = ...,
        type: int = ...,
        proto: int = ...,
        *,
        _accepted: Connection | None = ...,
    ) -> Self: ...
    @property
    def _family(self) -> int: ...
    @property
    def _type(self) -> int: ...
    @property
    def _closed(self) -> bool: ...
    def _set_timeout_ns(self, ns: int | None) -> None: ...
    def _timeout_ns(self) -> int | None: ...
    def bind(self, address: _Address) -> None:
        """Set the local address."""

    def listen(self, backlog: int = ...) -> None:
        """Listen; the backlog is the number of connections that may wait for `accept`."""

    def _accept(self) -> tuple[Connection, _Address]: ...
    def _connect(self, address: _Address) -> None: ...
    def _is_connected(self) -> bool: ...
    def send(self, data: Buffer, flags: int = ...) -> int:
        """Send; returns how many bytes the stack has taken."""

    def sendall(self, data: Buffer, flags: int = ...) -> None:
        """Send everything. After an error nobody knows how much was sent."""

    def _sendto(self, data: Buffer, flags: int, address: _Address) -> int: ...
    def recv(self, bufsize: int, flags: int = ...) -> bytes:
        """Receive at most `bufsize` bytes; an empty result is the end of the stream."""

    def recv_into(self, buffer: Buffer, nbytes: int = ..., flags: int = ...) -> int:
        """Receive into a buffer; returns the number of bytes."""

    def recvfrom(self, bufsize: int, flags: int = ...) -> tuple[bytes, _Address]:
        """Receive a datagram, and the address of its sender."""

    def recvfrom_into(
        self, buffer: Buffer, nbytes: int = ..., flags: int = ...
    ) -> tuple[int, _Address]:
        """Receive a datagram into a buffer, and the address of its sender."""

    def shutdown(self, how: int) -> None:
        """Shut down one direction, or both: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`."""

    def _real_close(self) -> None: ...
    def getsockname(self) -> _Address:
        """The local address."""

    def getpeername(self) -> _Address:
        """The address of the peer."""

    def setsockopt(self, level: int, optname: int, value: int | Buffer) -> None:
        """Set an option."""

    def getsockopt(self, level: int, optname: int, buflen: int = ...) -> Any:
        """The value of an option: a number, or `bytes` if `buflen` is given."""

    def _arm(self, poller: Poller, token: int, write: bool) -> None: ...

def forked() -> None:
    """Called in the child after a fork."""

def pair(
    directions: list[dict[str, Any]] | None,
    mtu: int,
    secret: int,
    is_virtual: bool,
    capture: str | PathLike[str] | None,
) -> tuple[StackCore, StackCore, Path, World | None]: ...
