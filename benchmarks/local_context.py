"""What one session context costs the embedded server when much is stored: `python -m benchmarks.local_context --json`.

The messages lie in one session, every one of them derived; the request is the one that a turn's refresh makes. Writing
goes through the server's own functions, not over HTTP; the requests are timed over HTTP on one kept connection.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from honcho_actors.local import messages, process, schema, work

MESSAGES = 20_000
REQUESTS = 200
_LISTED = "tea piano Lisbon nurse garden bicycle mother winter novel bread train guitar harbour doctor summer kitchen"
WORDS = _LISTED.split()


def fill(directory: Path, count: int) -> float:
    """Stores and derives `count` messages of two peers; seconds it took."""
    started = time.perf_counter()
    database = schema.connect(schema.prepare(directory), durable=False)
    for start in range(0, count, messages.MAX_BATCH):
        batch = [
            {
                "peer_id": ("alice", "bot")[number % 2],
                "content": f"I told you {number} times of the {WORDS[number % 16]} and {WORDS[number // 16 % 16]}.",
                "metadata": {"delivery_id": f"{start:08x}"},
                "configuration": None,
                "created_at": None,
            }
            for number in range(start, min(count, start + messages.MAX_BATCH))
        ]
        database.execute("BEGIN")
        messages.add(database, "bench", "long", batch)
        while work.extract_items(database, messages.MAX_BATCH):
            pass
        database.execute("COMMIT")
    database.close()
    return time.perf_counter() - started


def timed(call: Callable[[], httpx.Response], count: int) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        call().raise_for_status()
        taken.append(1000 * (time.perf_counter() - started))
    taken.sort()
    return round(statistics.median(taken), 2), round(taken[int(0.99 * len(taken))], 2)


def measure(count: int, requests: int = REQUESTS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="local-context-") as data:
        seconds = fill(Path(data), count)
        with process.start(data) as server, httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            session = "/v3/workspaces/bench/sessions/long"
            query = {"peer_target": "alice", "max_conclusions": "25", "tokens": "1200", "summary": "true"}
            context, worst = timed(lambda: client.get(f"{session}/context", params=query), requests)
            absent = {"filters": {"metadata": {"delivery_id": "absent"}}}
            look, _ = timed(lambda: client.post(f"{session}/messages/list?size=1", json=absent), requests)
            search, _ = timed(lambda: client.post(f"{session}/search", json={"query": "the harbour"}), requests // 4)
            peer, _ = timed(lambda: client.get("/v3/workspaces/bench/peers/alice/context"), requests)
    return {
        "local_context_p50_ms": context,
        "local_context_p99_ms": worst,
        "peer_context_p50_ms": peer,
        "delivery_look_p50_ms": look,
        "search_p50_ms": search,
        "messages": count,
        "fill_s": round(seconds, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="The embedded server's context call with many messages stored.")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = measure(given.messages)
    print(json.dumps(result) if given.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
