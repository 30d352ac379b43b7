"""`page`, `alerts`, `dashboards`: what they print, and how they end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from honcho_actors import Memory, Settings
from honcho_actors.cli import app
from honcho_actors.ops import rules


class Ended:
    """How a command ended, and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in this process."""

    def asked(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["honcho-actors", *arguments])
        monkeypatch.chdir(tmp_path)
        code = app.run()
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return asked


def test_page_prints_one_link_on_stdout_and_what_it_is_on_stderr(run: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Memory.start(Settings(state_dir=state, cache_dir=tmp_path / "cache")):
        plain = run("page", "--state-dir", str(state))
        assert plain.code == 0
        link = plain.out.strip()
        assert link.startswith("http://127.0.0.1:")
        assert "once, within 2 minutes" in plain.err
        address, _, shown = link.partition("/#")
        assert httpx.get(f"{address}/key", headers={"Authorization": f"Ticket {shown}"}).status_code == 200
        found = json.loads(run("page", "--state-dir", str(state), "--json").out)
        assert (found["pid"], found["seconds"]) == (os.getpid(), 120)
        assert found["url"] != link
        token = json.loads((state / "admin.json").read_text())["token"]
        assert token not in plain.out + found["url"], "the link does not give the owner's token away"


def test_page_ends_with_3_where_no_process_runs(run: Run, tmp_path: Path) -> None:
    none = run("page", "--state-dir", str(tmp_path / "nobody"))
    assert (none.code, none.out) == (3, "")
    assert "no process runs" in none.err
    state = tmp_path / "left"
    state.mkdir()
    (state / "admin.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "token": "t", "pid": 1}))
    assert run("page", "--state-dir", str(state)).code == 3, "an announcement that was left behind opens nothing"


def test_alerts_prints_the_rules_as_they_are(run: Run) -> None:
    assert run("alerts").out == rules.text()
    assert [one["alert"] for one in json.loads(run("alerts", "--json").out)] == list(rules.names())


def test_a_runbook_is_printed_by_name_and_an_unknown_name_is_a_usage_error_that_lists_them(run: Run) -> None:
    assert run("alerts", "--runbook", "KeyRejected").out.startswith("# HonchoActorsKeyRejected\n")
    wrong = run("alerts", "--runbook", "Nonsense")
    assert (wrong.code, wrong.out) == (2, "")
    assert "HonchoActorsOutboxStuck" in wrong.err


def test_dashboards_prints_json_or_a_configuration(run: Run) -> None:
    assert json.loads(run("dashboards").out)["uid"] == "honcho-actors"
    assert "- targets: ['10.0.0.7:9464']" in run("dashboards", "--scrape", "10.0.0.7:9464").out
