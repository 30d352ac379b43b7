"""A process without a descriptor left: whoever waits at a door costs its loop nothing, and is answered later."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, os, resource, socket
from honcho_actors.ops.wire import Answer, Door

class Counted(Door):
    looks = 0
    def _accept(self):
        self.looks += 1
        super()._accept()

async def main():
    loop = asyncio.get_running_loop()
    door = Counted(lambda asked: Answer(b"{}"))
    port = await door.start(0)
    client = socket.socket()
    client.setblocking(False)
    held = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    await loop.sock_connect(client, ("127.0.0.1", port))
    while not door.looks:
        await asyncio.sleep(0)
    for _ in range(2000):
        await asyncio.sleep(0)
    spent = door.looks
    for one in held:
        os.close(one)
    await loop.sock_sendall(client, b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    said = await asyncio.wait_for(loop.sock_recv(client, 100), 30)
    client.close()
    door.close()
    await asyncio.sleep(0)
    print(spent, said[:15].decode())

asyncio.run(main())
"""


def test_who_waits_while_there_is_no_descriptor_left_is_not_looked_at_at_every_turn_of_the_loop() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    looks, answer = done.stdout.strip().split(" ", 1)
    assert int(looks) < 100
    assert answer == "HTTP/1.1 200 OK"
