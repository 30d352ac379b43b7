"""A copied fork against a real Honcho: `python -m tests.kill.real_fork --upstream URL`. Needs the server's deriver.

A conversation of 15 turns (30 messages) is captured and derived, forked, and its child says one turn more, all through
`Memory`. What the server holds is then read over plain HTTP: the copies, the conclusions of both sessions, and the
child's summaries.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from honcho_actors.model import Turn
from honcho_actors.privacy import identity
from honcho_actors.runtime import Memory
from honcho_actors.settings import Settings

TURNS = 15
OWN = "My daughter plays the oboe."


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url + "/v3/workspaces/" + path, data=data, method=method, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for left in reversed(range(5)):
        try:
            with opener.open(request, timeout=30) as reply:
                return json.loads(reply.read())
        except (urllib.error.URLError, TimeoutError):  # a busy server answers 500 now and then
            if not left:
                raise
            time.sleep(2.0)
    raise AssertionError


def every(url: str, path: str, filters: dict[str, Any]) -> list[dict[str, Any]]:
    """All pages of a list."""
    found: list[dict[str, Any]] = []
    page = 1
    while True:
        answer = ask(url, "POST", f"{path}?page={page}&size=100", {"filters": filters})
        found += answer["items"]
        if page >= answer["pages"]:
            return found
        page += 1


def idle(url: str, workspace: str, session: str, until: float) -> bool:
    """Waits until the deriver owes nothing to the session."""
    where = urllib.parse.urlencode({"session_id": session})
    while time.monotonic() < until:
        status = ask(url, "GET", f"{workspace}/queue/status?{where}")
        if status["total_work_units"] and status["completed_work_units"] == status["total_work_units"]:
            return True
        time.sleep(1.0)
    return False


def talk(memory: Memory, session: str, number: int, text: str, answer: str) -> None:
    turn = Turn(session, "ana", prompt=text, answer=answer, turn_id=f"{session}-{number}")
    memory.capture(turn).wait("accepted", 10.0)


def run(url: str, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    workspace = f"fork-{time.time_ns():x}"
    with tempfile.TemporaryDirectory(prefix="fork-") as scratch:
        folder = Path(scratch)
        settings = Settings(base_url=url, workspace=workspace, state_dir=folder / "state", cache_dir=folder / "cache")
        names = {}
        for session in ("parent", "child"):
            found = identity.resolve(Turn(session, "ana", prompt="x"), settings)
            assert isinstance(found, identity.Identity)
            names[session] = found.remote_session
        parent, child = names["parent"], names["child"]
        with Memory.start(settings) as memory:
            for number in range(TURNS):
                said = f"I keep boat number {number} in harbour {number + 50}."
                talk(memory, "parent", number, said, f"Noted, number {number}.")
            flushed = memory.flush(60.0)
            derived = idle(url, workspace, parent, until)
            memory.fork("parent", "child", at=f"parent-{TURNS - 1}")
            talk(memory, "child", 0, OWN, "An oboe, how lovely.")
            flushed = memory.flush(60.0) and flushed
        derived = idle(url, workspace, child, until) and derived
    originals = every(url, f"{workspace}/sessions/{parent}/messages/list", {})
    messages = every(url, f"{workspace}/sessions/{child}/messages/list", {})
    copies = [message for message in messages if "copied_from" in message["metadata"]]
    conclusions = {
        session: every(url, f"{workspace}/conclusions/list", {"session_id": session}) for session in (parent, child)
    }
    of_copies = [one for one in conclusions[child] if "oboe" not in one["content"]]
    summary: dict[str, Any] | None = None
    while summary is None and time.monotonic() < until:
        summary = ask(url, "GET", f"{workspace}/sessions/{child}/summaries").get("short_summary")
        if summary is None:
            time.sleep(2.0)
    return {
        "workspace": workspace,
        "child": child,
        "flushed": flushed,
        "derived": derived,
        "parent_messages": len(originals),
        "child_messages": len(messages),
        "copies": len(copies),
        "copies_in_order": [one["content"] for one in copies] == [one["content"] for one in originals]
        and copies == messages[: len(copies)],
        "conclusions_of_parent": len(conclusions[parent]),
        "conclusions_of_child": len(conclusions[child]),
        "conclusions_of_copies": len(of_copies),
        "child_summary": summary,
        "summary_covers": next(
            (n for n, one in enumerate(messages, 1) if summary and one["id"] == summary["message_id"]), 0
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--seconds", type=float, default=420.0, help="longest time for the deriver and the summary")
    given = parser.parse_args()
    result = run(given.upstream, given.seconds)
    print(json.dumps(result, indent=1))
    kept = result["copies"] == result["parent_messages"] == 2 * TURNS and result["copies_in_order"]
    own = result["conclusions_of_child"] > 0 and not result["conclusions_of_copies"]
    return 0 if kept and own and result["child_summary"] else 1


if __name__ == "__main__":
    sys.exit(main())
