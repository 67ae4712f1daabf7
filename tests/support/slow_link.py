"""A proxy in a host's own network namespace: all that the host sends or gets takes longer. Ends with its parent's pipe.

As a program: `python slow_link.py PORT MILLISECONDS`. Connections reach it by iptables' REDIRECT; it asks the kernel where
they were going. A message comes as late as that, and the next one does not wait for it: a long way, not a narrow one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

_MARK = 50
_ORIGINAL_DST = 80
_CHUNK = 64 * 1024


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
) -> None:
    loop, due = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def write() -> None:
        while True:
            at, data = await due.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    writing = asyncio.create_task(write())
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            due.put_nowait((loop.time() + delay, data))
    due.put_nowait((loop.time() + delay, b""))
    with contextlib.suppress(OSError):
        await writing


async def _serve(port: int, delay: float) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = writer.get_extra_info("socket").getsockopt(socket.SOL_IP, _ORIGINAL_DST, 16)
        _, to_port, address = struct.unpack("!HH4s", told[:8])
        onward = socket.socket()
        onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _MARK)
        onward.setblocking(False)  # noqa: FBT003
        try:
            await asyncio.get_running_loop().sock_connect(
                onward, (socket.inet_ntoa(address), to_port)
            )
        except OSError:
            onward.close()
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(sock=onward)
        await asyncio.gather(
            _pass_on(reader, far_writer, delay), _pass_on(far_reader, writer, delay)
        )
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(accept, "0.0.0.0", port)
    print("ready", flush=True)
    async with server:
        # Whoever has started it holds the other end.
        await asyncio.to_thread(sys.stdin.read)


@contextlib.contextmanager
def slow_link(pid: int, milliseconds: int, except_port: int, port: int = 15999) -> Iterator[None]:
    """Make a container's connections slow, both ways, but for those to one port.

    Args:
        pid: a process of the container.
        milliseconds: how much later a message comes.
        except_port: of connections that stay as they are.
        port: the proxy's own, in the container's namespace.
    """
    if os.geteuid() or not (shutil.which("nsenter") and shutil.which("iptables")):
        pytest.skip("needs root, nsenter and iptables on this machine")
    inside = ["nsenter", "--target", str(pid), "--net"]
    words = [*inside, sys.executable, __file__, str(port), str(milliseconds)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdin is not None
        assert proxy.stdout.readline() == b"ready\n"
        for chain, way in (("OUTPUT", ["-o", "eth0"]), ("PREROUTING", ["-i", "eth0"])):
            rule = [chain, *way, "-p", "tcp", "!", "--dport", str(except_port)]
            rule += ["-m", "mark", "!", "--mark", str(_MARK)]
            to = ["-j", "REDIRECT", "--to-ports", str(port)]
            subprocess.run(
                [*inside, "iptables", "--wait", "-t", "nat", "-A", *rule, *to],
                check=True,
                capture_output=True,
                timeout=30,
            )
        try:
            yield
        finally:
            proxy.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]) / 1e3))
