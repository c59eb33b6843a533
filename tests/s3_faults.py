"""A proxy before an S3 server that does what networks and busy servers do: it waits, throttles and cuts connections."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
THROTTLED = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_SLOW_DOWN), _SLOW_DOWN)
)


@dataclass
class Faults:
    """What goes wrong, as shares of all requests. It can be changed at any time."""

    throttled: float = 0.0
    cut_before: float = 0.0
    """The request does not reach the server."""
    cut_after: float = 0.0
    """It does, and its answer does not come back."""
    cut_within: float = 0.0
    """Half of the answer comes back."""
    latency: float = 0.0
    """Seconds before each answer."""
    seen: Counter[str] = field(default_factory=Counter)
    asked: list[str] = field(default_factory=list)
    """Every request, as `PUT /bucket/name`."""
    sent: int = 0
    """Bytes of all answers."""
    random: random.Random = field(default_factory=lambda: random.Random(7))

    def next(self) -> str:
        drawn = self.random.random()
        for name in ("throttled", "cut_before", "cut_after", "cut_within"):
            drawn -= getattr(self, name)
            if drawn < 0:
                self.seen[name] += 1
                return name
        self.seen["passed"] += 1
        return "passed"


@contextmanager
def faulty(endpoint: str, faults: Faults) -> Iterator[str]:
    """The endpoint of a proxy before another one, as long as this lasts."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="s3-faults", daemon=True)
    thread.start()
    host, port = endpoint.removeprefix("http://").split(":")

    held = set[asyncio.Task[None] | None]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        held.add(task)  # the loop holds it weakly, and a client that has gone holds it no longer
        try:
            await _answer(reader, writer, host, int(port), faults)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            held.discard(task)

    starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(handle, "127.0.0.1", 0), loop)
    server = starting.result(10)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _ended(server: asyncio.Server) -> None:
    server.close()
    for _ in range(10):  # a connection that was just accepted gets its task a moment later
        await asyncio.sleep(0.01)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, faults: Faults
) -> None:
    """One request a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    size = next(
        (int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0
    )
    body = await reader.readexactly(size)
    faults.asked.append(lines[0].decode().rpartition(" ")[0])
    fault = faults.next()
    await asyncio.sleep(faults.latency)
    if fault == "cut_before":
        return
    if fault == "throttled":
        writer.write(THROTTLED)
        await writer.drain()
        return
    kept = [line for line in lines[:-2] if not line.lower().startswith(b"connection:")]
    server_reader, server_writer = await asyncio.open_connection(host, port)
    try:
        server_writer.write(b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body)
        await server_writer.drain()
        answer = await server_reader.read()
    finally:
        server_writer.close()
    if fault == "cut_after":
        return
    faults.sent += len(answer)
    writer.write(answer[: len(answer) // 2] if fault == "cut_within" else answer)
    await writer.drain()
