"""Many streams through the proxy at once, each with a canary of its own: `make proxy-load`, and a share in `make test`.

The proxy is a process of its own (`honcho-actors proxy`); model, Honcho and callers are in this one. Every stream has a
person, a conversation and a text of its own; the model checks that what it got is that person's, the caller that what
comes back is. Prints one line of JSON; exits 1 when a stream broke, anything was mixed, or memory grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.integrations.keeper import Held, Keeper
from tests.support.memory_world import Server
from tests.support.stub_model import Asked, Say, StubModel

CANARY = re.compile(r"canary-\d+-")
WORDS_AT_ONCE = 50
"""Streams that begin in the same moment; the next ones a tenth of a second later."""
GROWTH_KB = 24_000
"""That the process may grow between the time when all streams run and the end of the first one."""


@dataclass
class Report:
    """What came of it."""

    streams: int
    events: int
    seconds: float = 0.0
    whole: int = 0
    broken: int = 0
    mixed: int = 0
    without_memory: int = 0
    captured: int = 0
    captured_wrong: int = 0
    late_p99_ms: float = 0.0
    rss_begin_kb: int = 0
    rss_end_kb: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def whole_and_apart(self) -> bool:
        """No stream broke, none was mixed, each was captured once."""
        return self.whole == self.streams == self.captured and not (
            self.broken or self.mixed or self.without_memory or self.captured_wrong
        )

    @property
    def fine(self) -> bool:
        """That, and the process did not grow."""
        return self.whole_and_apart and self.rss_end_kb - self.rss_begin_kb <= GROWTH_KB


def canary(number: int) -> str:
    return f"canary-{number}-"


class Proxied:
    """`honcho-actors proxy` as a process."""

    def __init__(self, upstream: str, honcho: str, folder: Path) -> None:
        code = "import sys; from honcho_actors.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "proxy", "--upstream", upstream, "--port", "0", "--json"]
        environment = {
            "HONCHO_URL": honcho,
            "HONCHO_WORKSPACE_ID": "w",
            "HONCHO_ACTORS_STATE_DIR": str(folder / "state"),
            "HONCHO_ACTORS_CACHE_DIR": str(folder / "cache"),
            "HONCHO_ACTORS_DIALECTIC_CADENCE": "1000",
            "HONCHO_ACTORS_FIRST_TURN_WAIT": "30",
            "HOME": str(folder),
            "PATH": "",
        }
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=environment, text=True, cwd=Path(__file__).resolve().parents[2]
        )
        assert self.process.stdout is not None
        self.ready = json.loads(self.process.stdout.readline())
        self.url = str(self.ready["url"])

    def rss_kb(self) -> int:
        """What the process holds in memory now; 0 where the system does not say."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        return int(status.split("VmRSS:")[1].split()[0])

    def __enter__(self) -> Proxied:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=40)


def run(streams: int, events: int, pace: float) -> Report:
    """So many streams at once, each of so many events, `pace` seconds apart."""
    report = Report(streams, events)
    remote = Keeper(
        {f"u{number}": (f"Knows {canary(number)}.", []) for number in range(streams)}, answer=lambda query: None
    )
    mixed: list[str] = []
    bare: list[str] = []

    def script(asked: Asked) -> Say:
        text = asked.raw.decode()
        found = set(CANARY.findall(text))
        if len(found) != 1:
            mixed.append(str(found))
        if not CANARY.search(asked.system):
            bare.append(asked.system)
        return Say(" ".join([min(found)] * events), pace=pace)

    with tempfile.TemporaryDirectory(prefix="load-") as name, Server(remote) as honcho, StubModel(script) as model:
        with Proxied(model.root, honcho.url, Path(name)) as proxy:
            begun = time.monotonic()
            asyncio.run(_callers(report, proxy, pace))
            report.seconds = round(time.monotonic() - begun, 1)
        report.mixed += len(mixed)
        report.without_memory = len(bare)
        for number in range(streams):
            said = " ".join([canary(number)] * events)
            held = remote.held.get(f"s{number}", [])
            expected = [Held(f"u{number}", f"I am {canary(number)}", False), Held("assistant", said, False)]
            report.captured += held == expected
            report.captured_wrong += held not in ([], expected)
    return report


async def _callers(report: Report, proxy: Proxied, pace: float) -> None:
    late: list[float] = []
    tasks = []
    for number in range(report.streams):
        tasks.append(asyncio.ensure_future(_caller(report, proxy.url, number, pace, late)))
        if number % WORDS_AT_ONCE == WORDS_AT_ONCE - 1:
            await asyncio.sleep(0.1)
    await asyncio.sleep(min(10.0, pace * report.events / 4))
    report.rss_begin_kb = proxy.rss_kb()
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    report.rss_end_kb = proxy.rss_kb()
    await asyncio.gather(*tasks)
    report.late_p99_ms = round(sorted(late)[int(len(late) * 0.99)] * 1000, 1) if late else 0.0


async def _caller(report: Report, url: str, number: int, pace: float, late: list[float]) -> None:
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps(
        {"model": "stub", "stream": True, "messages": [{"role": "user", "content": f"I am {canary(number)}"}]}
    )
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"x-honcho-session: s{number}\r\nx-honcho-user: u{number}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write((head + body).encode())
        words, done, last = 0, False, 0.0
        while line := await reader.readline():
            if line.startswith(b"data: [DONE]"):
                done = True
            elif line.startswith(b"data: "):
                delta = json.loads(line[6:])["choices"]
                text = delta[0]["delta"].get("content") if delta else None
                if text:
                    words += 1
                    report.mixed += text.strip() != canary(number)
                    now = time.monotonic()
                    if last:
                        late.append(max(0.0, now - last - pace))
                    last = now
        writer.close()
        if done and words == report.events:
            report.whole += 1
        else:
            report.broken += 1
            report.errors.append(f"{number}: {words} of {report.events}, done {done}"[:100])
    except (OSError, ValueError, KeyError) as error:
        report.broken += 1
        report.errors.append(f"{number}: {type(error).__name__}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--events", type=int, default=120)
    parser.add_argument("--pace", type=float, default=0.5)
    given = parser.parse_args()
    report = run(given.streams, given.events, given.pace)
    print(json.dumps({**asdict(report), "errors": report.errors[:5], "fine": report.fine}), flush=True)
    return 0 if report.fine else 1


if __name__ == "__main__":
    sys.exit(main())
