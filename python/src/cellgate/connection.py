"""Live connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LOOK_S = 0.5
"""How long a task waits before it looks again by itself: a thread may have heard what the server
told, and so have taken it off the descriptor."""


class Connection(_native.Connection):
    """A connection with its contract, from ``connect``.

    Threads may use it together: one that receives keeps none from sending. Coroutines wait by its
    descriptor, and so do programs with a ``select`` of their own (``arm``); of these three kinds
    of waiting, one connection has one at a time.
    """

    __module__ = "cellgate"

    def __init__(
        self,
        address: str,
        contract: str,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        # `_native.Connection.__new__` has opened it.
        self._sleepers: dict[asyncio.Future[None], int | None] = {}
        # Where the descriptor is watched: a loop, and its number there.
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it; after an exception at once, without what waits to be sent."""
        if kind is None:
            self.close()
        else:
            self.close(linger=0)

    def __iter__(self) -> Iterator[bytes]:
        """Received SDUs, until it is closed."""
        while not self.closed:
            try:
                sdu = self.recv()
            except ValueError:
                if self.closed:
                    return
                raise
            yield sdu

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The same for ``async for``."""
        while not self.closed:
            try:
                sdu = await self.arecv()
            except ValueError:
                if self.closed:
                    return
                raise
            yield sdu

    def __repr__(self) -> str:
        return f"<cellgate.Connection {self.address}: {'closed' if self.closed else self.contract}>"

    async def arecv(self) -> bytes:
        """Receives an SDU, as ``recv``; other tasks run meanwhile. ``asyncio.timeout`` ends it, and
        loses nothing."""
        while (sdu := self.try_recv()) is None:
            await self._sleep(None)
        return sdu

    async def asend(self, data: Buffer) -> None:
        """Sends an SDU, as ``send``; other tasks run while there is no credit or room."""
        while not self.try_send(data):
            await self._sleep(memoryview(data).nbytes)

    def close(self, linger: float = 10.0) -> None:
        """Waits until what was sent has left, for ``linger`` seconds at most, and closes it. With 0
        what waits to be sent is not sent. What is closed stays so.

        Raises ``TimeoutError`` where not all has left; it is closed all the same.
        """
        if self._watched is not None:
            loop, _ = self._watched
            if asyncio._get_running_loop() is loop:
                self._wake()
            else:
                loop.call_soon_threadsafe(self._wake)
        super().close(linger)

    async def _sleep(self, octets: int | None) -> None:
        """Waits until an SDU may be received, or one of ``octets`` sent."""
        loop = asyncio.get_running_loop()
        sleeper = loop.create_future()
        self._sleepers[sleeper] = octets
        lengths = [one for one in self._sleepers.values() if one is not None]
        receives = len(lengths) < len(self._sleepers)
        look = loop.call_later(_LOOK_S, self._wake)
        try:
            # It is armed for all that sleep.
            if not self.arm(receive=receives, send=min(lengths, default=None)):
                self._wake()
            elif self._watched is None:
                descriptor = self.fileno()
                loop.add_reader(descriptor, self._wake)
                self._watched = (loop, descriptor)
            await sleeper
        finally:
            look.cancel()
            self._sleepers.pop(sleeper, None)
            if not self._sleepers:
                self._unwatch()

    def _wake(self) -> None:
        """Has all that sleep try again."""
        self._unwatch()
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        self._sleepers.clear()

    def _unwatch(self) -> None:
        if self._watched is not None:
            loop, descriptor = self._watched
            loop.remove_reader(descriptor)
            self._watched = None


def connect(
    address: str,
    contract: str,
    *,
    socket: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> Connection:
    """Opens a connection at ``address`` (``a.0.100``: interface, VPI, VCI) with a ``contract``::

        with cellgate.connect("a.0.100", "cbr,aal5:pcr=10Mbps,max_sdu=1500") as connection:
            connection.send(b"an SDU")
            print(connection.recv(timeout=1.0))

    ``socket`` is the path of the server's control socket; without, ``$CELLGATE_SOCKET`` or the
    usual places. ``timeout`` is how long an answer of the server may take, in seconds.

    Raises ``Refused`` if the server does, ``NoServer`` if there is none, ``ValueError`` if the
    address or the contract makes no sense.
    """
    return Connection(address, contract, socket=socket, timeout=timeout)
