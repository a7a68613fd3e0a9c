"""`Socket`: a socket of a stack, with the calls of `socket.socket`."""

from __future__ import annotations

import errno
import io
import socket
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from . import _native, _units

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._stack import Stack

Address = tuple[Any, ...]


class Socket(_native.Socket):
    """A TCP or UDP socket of a stack.

    `Socket(stack)` is a TCP socket for IPv4. The calls, errors and timeouts are those of
    `socket.socket`. Names of hosts are looked up by the stack. Calls may come from any thread.

    It has no descriptor: `select` and `selectors` cannot wait for it. Use threads, or the stack's
    calls for asyncio.
    """

    stack: Stack
    """The stack of the socket."""

    _file_count = 0
    _close_wanted = False

    def __new__(
        cls,
        stack: Stack,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,
        proto: int = 0,
        *,
        _accepted: _native.Connection | None = None,
    ) -> Self:
        made = super().__new__(cls, stack._core, family, type, proto, _accepted=_accepted)
        made.stack = stack
        return made

    @property
    def family(self) -> socket.AddressFamily:
        """`AF_INET` or `AF_INET6`."""
        return socket.AddressFamily(self._family)

    @property
    def type(self) -> socket.SocketKind:
        """`SOCK_STREAM` or `SOCK_DGRAM`."""
        return socket.SocketKind(self._type)

    @property
    def proto(self) -> int:
        """The number of TCP or UDP."""
        stream = self._type == socket.SOCK_STREAM
        return socket.IPPROTO_TCP if stream else socket.IPPROTO_UDP

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<wirespeed.Socket family={self.family.name} type={self.type.name}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a socket cannot be pickled: it belongs to a stack of this process")

    def fileno(self) -> int:
        """Fails: the socket is not one of the kernel's. After `close` it is -1, as in `socket`."""
        if self._closed:
            return -1
        raise io.UnsupportedOperation(
            "the socket has no descriptor: use threads, or the stack's calls for asyncio; "
            "docs/python.md has adapters for HTTP libraries"
        )

    def settimeout(self, value: float | None) -> None:
        """The longest time that a call waits, in seconds; `None` without limit, 0 not at all."""
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._set_timeout_ns(_units.timeout(value))

    def gettimeout(self) -> float | None:
        """The timeout in seconds."""
        ns = self._timeout_ns()
        return None if ns is None else ns / 1e9

    @property
    def timeout(self) -> float | None:
        """The timeout in seconds."""
        return self.gettimeout()

    def setblocking(self, flag: bool) -> None:
        """Let calls wait without limit, or not at all."""
        self.settimeout(None if flag else 0)

    def getblocking(self) -> bool:
        """Do calls wait?"""
        return self._timeout_ns() != 0

    def accept(self) -> tuple[Socket, Address]:
        """Wait for a connection; returns its socket and the peer's address."""
        connection, address = self._accept()
        accepted = Socket(self.stack, self._family, self._type, _accepted=connection)
        return accepted, address

    def bind(self, address: Address) -> None:
        """Set the local address. Port 0 stands for any free one, which `listen` chooses."""
        super().bind(self._resolved(address))

    def connect(self, address: Address) -> None:
        """Connect to the peer. A UDP socket then sends to it, and receives from it alone."""
        self._connect(self._resolved(address))

    def connect_ex(self, address: Address) -> int:
        """`connect`, but returns the error's number instead of raising it."""
        try:
            self.connect(address)
        except TimeoutError as error:
            return error.errno or errno.EAGAIN
        except OSError as error:
            if error.errno is None:
                raise
            return error.errno
        return 0

    def sendto(self, data: Buffer, *args: Any) -> int:
        """`sendto(data, address)` or `sendto(data, flags, address)`: send one datagram."""
        if len(args) not in (1, 2):
            raise TypeError("sendto takes data, flags if there are some, and an address")
        flags = args[0] if len(args) == 2 else 0
        return self._sendto(data, flags, self._resolved(args[-1]))

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file that was opened in binary mode; returns how many bytes were sent."""
        if self._type != socket.SOCK_STREAM:
            raise ValueError("only a TCP socket sends files")
        if offset:
            file.seek(offset)
        sent = 0
        while count is None or sent < count:
            data = file.read(1 << 16 if count is None else min(1 << 16, count - sent))
            if not data:
                break
            self.sendall(data)
            sent += len(data)
        return sent

    def close(self) -> None:
        """Close the socket, once the files that `makefile` made are closed too."""
        self._close_wanted = True
        if self._file_count == 0:
            self._real_close()

    def makefile(
        self,
        mode: str = "r",
        buffering: int | None = None,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """A file of the connection, as `open` makes one; modes are `r`, `w`, `rw`, with `b` too."""
        if not set(mode) <= {"r", "w", "b"}:
            raise ValueError(f"invalid mode {mode!r} (only r, w, b allowed)")
        writing = "w" in mode
        reading = "r" in mode or not writing
        raw = _RawFile(self, reading, writing)
        if buffering is None or buffering < 0:
            buffering = io.DEFAULT_BUFFER_SIZE
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("unbuffered streams must be binary")
            return raw
        buffer: Any
        if reading and writing:
            buffer = io.BufferedRWPair(raw, raw, buffering)
        elif reading:
            buffer = io.BufferedReader(raw, buffering)
        else:
            buffer = io.BufferedWriter(raw, buffering)
        if "b" in mode:
            return buffer
        return io.TextIOWrapper(buffer, encoding, errors, newline)

    def _file_closed(self) -> None:
        self._file_count -= 1
        if self._file_count == 0 and self._close_wanted:
            self._real_close()

    def _resolved(self, address: Any) -> Any:
        """The address with its host as numbers."""
        if not isinstance(address, tuple) or not address or not isinstance(address[0], str):
            return address
        host = address[0]
        if host == "<broadcast>":
            return ("255.255.255.255", *address[1:])
        if not host or _is_numeric(host):
            return address
        wanted = socket.AF_INET6 if ":" in host else self._family
        for found in self.stack.gethostbyname_all(host):
            if (":" in found) == (wanted == socket.AF_INET6):
                return (found, *address[1:])
        raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address of this family")


class _RawFile(io.RawIOBase):
    """The unbuffered file of a socket."""

    def __init__(self, of: Socket, reading: bool, writing: bool) -> None:
        super().__init__()
        self._socket = of
        self._reading = reading
        self._writing = writing
        of._file_count += 1

    def readable(self) -> bool:
        return self._reading and not self.closed

    def writable(self) -> bool:
        return self._writing and not self.closed

    def readinto(self, buffer: Buffer) -> int | None:
        if not self.readable():
            raise io.UnsupportedOperation("not readable")
        try:
            return self._socket.recv_into(buffer)
        except BlockingIOError:
            return None

    def write(self, data: Buffer) -> int | None:
        if not self.writable():
            raise io.UnsupportedOperation("not writable")
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return None

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def name(self) -> int:
        """-1, as of a file without a descriptor."""
        return -1

    @property
    def mode(self) -> Literal["rb", "wb", "rwb"]:
        """The mode of the file."""
        if self._reading and self._writing:
            return "rwb"
        return "rb" if self._reading else "wb"

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._socket._file_closed()


def _is_numeric(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
            return True
        except OSError:
            continue
    return False

