"""`StreamTransport`: a TCP connection of a stack as an asyncio transport."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._socket import Socket

if TYPE_CHECKING:
    from ._asyncio import Readiness

_RECEIVED_MAX = 256 * 1024
_HIGH_WATER = 64 * 1024


class StreamTransport(asyncio.Transport):
    """A TCP connection. Its protocol is told about data, the end, and how much waits to be sent."""

    _start_tls_compatible = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        readiness: Readiness,
        connection: Socket,
        protocol: asyncio.BaseProtocol,
    ) -> None:
        extra: dict[str, Any] = {"socket": connection}
        # A connection that the peer has reset already has no addresses; reading reports the error.
        with contextlib.suppress(OSError):
            extra["sockname"] = connection.getsockname()
            extra["peername"] = connection.getpeername()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(extra)
        self._loop = loop
        self._readiness = readiness
        self._socket = connection
        self._unsent = bytearray()
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._writing_paused = False
        self._reading = True
        self._armed = False
        self._eof_wanted = False
        self._closing = False
        self._lost = False
        self._reader = readiness.add(self._readable)
        self._writer = readiness.add(self._writable)
        self.set_protocol(protocol)
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._arm_reader)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol hear of the connection."""
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that hears of the connection."""
        return self._protocol

    def is_closing(self) -> bool:
        """Is the connection closed, or about to be?"""
        return self._closing

    def is_reading(self) -> bool:
        """Does the protocol get data that arrives?"""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Leave data that arrives in the stack, whose window then closes."""
        self._reading = False

    def resume_reading(self) -> None:
        """Let the protocol get data again."""
        if not self._reading and not self._closing:
            self._reading = True
            self._arm_reader()

    def _arm_reader(self) -> None:
        if self._reading and not self._closing and not self._armed:
            self._armed = True
            self._socket._arm(self._readiness.poller, self._reader, False)

    def _readable(self) -> None:
        self._armed = False
        if not self._reading or self._closing:
            return
        try:
            self._read()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fail(error, "the protocol failed to take data")

    def _read(self) -> None:
        """Pass on what has arrived, or the end of the stream."""
        protocol: Any = self._protocol
        received: bytes | int
        try:
            if self._buffered:
                room = memoryview(protocol.get_buffer(-1))
                if not room.nbytes:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                received = self._socket.recv_into(room)
            else:
                received = self._socket.recv(_RECEIVED_MAX)
        except BlockingIOError:
            self._arm_reader()
            return
        except OSError as error:
            self._end(error)
            return
        if isinstance(received, int) and received:
            protocol.buffer_updated(received)
        elif received:
            protocol.data_received(received)
        elif protocol.eof_received():
            self._reading = False
        else:
            self.close()
        self._arm_reader()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data, now or as soon as there is room."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__}")
        if self._eof_wanted:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._closing:
            return
        if self._unsent:
            self._unsent += data
        else:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._end(error)
                return
            if sent == memoryview(data).nbytes:
                return
            self._unsent += memoryview(data).cast("B")[sent:]
            self._arm_writer()
        self._tell_protocol()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Send several pieces of data."""
        self.write(b"".join(list_of_data))

    def _arm_writer(self) -> None:
        self._socket._arm(self._readiness.poller, self._writer, True)

    def _writable(self) -> None:
        if self._lost or not self._unsent:
            return
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            self._arm_writer()
            return
        except OSError as error:
            self._end(error)
            return
        del self._unsent[:sent]
        if self._unsent:
            self._arm_writer()
        elif self._closing:
            self._loop.call_soon(self._lose, None)
        elif self._eof_wanted:
            self._shut_down()
        self._tell_protocol()

    def _tell_protocol(self) -> None:
        if not self._writing_paused and len(self._unsent) > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and len(self._unsent) <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait here because the stack has no room."""
        return len(self._unsent)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The low and the high mark."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the marks of the buffer at which the protocol pauses and resumes writing."""
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._tell_protocol()

    def can_write_eof(self) -> bool:
        """A TCP connection can be closed in one direction."""
        return True

    def write_eof(self) -> None:
        """Close the direction in which this side sends, once everything is sent."""
        if self._closing or self._eof_wanted:
            return
        self._eof_wanted = True
        if not self._unsent:
            self._shut_down()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        """Close the connection, once everything is sent."""
        if self._closing:
            return
        self._closing = True
        self._readiness.remove(self._reader)
        if not self._unsent:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """Close the connection at once; what was not sent is lost."""
        self._end(None)

    def _force_close(self, error: BaseException | None) -> None:
        """End the connection with an error; TLS of asyncio calls this."""
        self._end(error)

    def _fail(self, error: BaseException, message: str) -> None:
        self._loop.call_exception_handler(
            {
                "message": message,
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._lost:
            return
        self._closing = True
        self._unsent.clear()
        self._readiness.remove(self._reader)
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: BaseException | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._readiness.remove(self._writer)
        try:
            self._protocol.connection_lost(error if isinstance(error, Exception) else None)
        finally:
            self._socket.close()

    def __repr__(self) -> str:
        state = "closed" if self._lost else "closing" if self._closing else "open"
        return f"<wirespeed transport {state} {self._socket!r}>"
