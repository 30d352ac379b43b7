"""A share of the kill run, for every `make test`; `make kill` is the whole of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

KILLS = 24


@pytest.mark.timeout(150)
def test_killed_again_and_again_under_faults_nothing_is_lost_doubled_or_reordered() -> None:
    """SIGKILL in mid-conversation, restart: every accepted capture reaches the server, once, in order."""
    command = [sys.executable, "-m", "tests.kill.harness", "--json", "--seed", "11", "--least", "2"]
    done = subprocess.run(
        [*command, "--kills", str(KILLS), "--seconds", "40"], capture_output=True, text=True, timeout=140, check=False
    )
    assert done.stdout.strip(), done.stderr[-2000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert (result["lost"], result["duplicated"], result["reordered"]) == (0, 0, 0), result
    assert result["flushed"], result
    assert result["kills"] >= 12, result
    assert result["held_and_forwarded"] > 0, result
    assert result["accepted_turns"] > 30, result
    for state in ("sending_before_bytes", "sending_after_bytes", "after_commit_before_ack", "acked_before_ledger"):
        assert result["histogram"].get(state, 0) >= 1, result
