"""`demo`: a conversation is remembered, over real HTTP, through an outage and a restart; the figures are read back.

Three kinds of processes: this one tells the story and counts; the server and the runtime are processes of their own.
What the summary says of deliveries is counted by reading the server, what it says of turns by scraping the runtime.
Nothing is left behind but what `--keep` names.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from honcho_actors.cli import asking, out, transcript
from honcho_actors.cli.processes import (
    ProcessFailed,
    Proxy,
    Runtime,
    Upstream,
    in_order_when_told_to_end,
    start_server,
)
from honcho_actors.cli.reading import Counted, ServerReader, Unreadable
from honcho_actors.cli.screen import Row, Screen
from honcho_actors.cli.status import reason_off
from honcho_actors.cli.story import Step, Story, story
from honcho_actors.cli.transcript import MOST_LINE_CHARS, Transcript
from honcho_actors.privacy import egress
from honcho_actors.sessions.budget import utf8_thirds
from honcho_actors.settings import Settings

BUDGET: Final = 3.0
DELIVERED_WITHIN: Final = 40.0
SETTLE_TIME: Final = 2.0
PATIENCE: Final = 10.0
"""Seconds within which a status comes to say what has happened; a figure that does not come is told as it is."""
WITHHELD: Final = "(withheld: it holds a credential)"


def demo(*, transcript: Path | None, as_json: bool, delay: float, pace: float, keep: Path | None) -> int:
    """Runs the demo; 0 when everything that was said is on the server exactly once and in order."""
    told = _read(transcript)
    settings = Settings.load()
    if not settings.configured and any(problem.field == "base_url" for problem in settings.problems):
        out.usage(reason_off(settings))
    if settings.configured:
        refused = asking.why_not(settings)
        if refused:
            out.usage(f"the server at {settings.server_url} is not asked: {refused}")
    if keep is not None:
        keep = keep.absolute()
        try:
            keep.mkdir(mode=0o700, parents=True)
        except OSError as error:
            out.usage(f"the directory {keep} cannot be made: {(error.strerror or 'error').lower()}")
    screen = Screen(quiet=as_json)
    with in_order_when_told_to_end():
        folder = keep if keep is not None else Path(tempfile.mkdtemp(prefix="honcho-actors-demo-"))
        try:
            result = _Demo(told, settings, folder, screen, delay, pace).run()
        except (ProcessFailed, Unreadable) as error:
            raise out.Stop(str(error), out.USAGE) from None
        finally:
            screen.pause()
            if keep is None:
                shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        out.emit_json(result)
    return out.FINE if result["exact"] else out.NOT_FINE


def _read(path: Path | None) -> Transcript:
    try:
        return transcript.read(path if path is not None else transcript.bundled())
    except transcript.Unusable as error:
        out.usage(str(error))


def _is_withheld(text: str) -> bool:
    """Whether the runtime's gate keeps this text here: what it withholds is not looked for on the server."""
    return isinstance(egress.verdict(text, MOST_LINE_CHARS), egress.Withheld)


class _Demo:
    """The story as it runs: processes, what was handed over so far, what was seen."""

    def __init__(
        self, told: Transcript, settings: Settings, folder: Path, screen: Screen, delay: float, pace: float
    ) -> None:
        self._told = told
        self._configured = settings if settings.configured else None
        self._folder = folder
        self._screen = screen
        self._delay = delay
        self._pace = pace
        self._said: dict[str, list[tuple[str, str]]] = {}
        self._not_taken: list[str] = []
        self._withheld = 0
        self._scrapes: list[dict[tuple[str, str], float]] = []
        self._pids: list[int] = []
        self._workspace = f"honcho-actors-demo-{secrets.token_hex(3)}"
        if self._configured is not None and settings.sources["workspace"] != "default":
            self._workspace = settings.workspace

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        for line in self._told.skipped:
            self._screen.note(f"transcript: {line}")
        with ExitStack() as stack:
            self._server = self._start_server()
            stack.callback(lambda: self._server.stop())
            self._reader = self._open_reader()
            stack.callback(self._reader.close)
            self._runtime = self._start_runtime()
            stack.callback(lambda: self._runtime.end())
            self._introduce()
            result = self._tell(story(self._told))
        result["seconds"] = round(time.monotonic() - started, 1)
        self._screen.note(f"\nended by itself after {result['seconds']} s")
        return result

    def _start_server(self, port: int = 0) -> Upstream:
        """The embedded server; when one is configured, a way to that one, so that it can seem to be gone."""
        if self._configured is None:
            return start_server(self._folder / "server", port=port, delay=self._delay)
        return Proxy(str(self._configured.server_url), self._folder, port)

    def _open_reader(self) -> ServerReader:
        url = self._server.url if self._configured is None else str(self._configured.server_url)
        key = None if self._configured is None else self._configured.api_key
        reader = ServerReader(url, Settings(base_url=url, api_key=key, workspace=self._workspace))
        if not reader.is_honcho():
            reader.close()
            out.usage(f"the server at {url} does not answer as Honcho does (HONCHO_URL)")
        return reader

    def _introduce(self) -> None:
        server = (
            f"server   process {self._server.pid}, {self._server.url}, {self._delay * 1000:.0f} ms for every request"
        )
        if self._configured is not None:
            server = f"server   {self._configured.server_url}, reached through process {self._server.pid}"
        self._screen.note(
            f"{server}; workspace {self._workspace}\n"
            f"runtime  process {self._runtime.pid}, metrics at {self._runtime.hello['metrics']}\n"
            f"story    process {os.getpid()}: {out.counted(len(self._told.conversations), 'conversation')}, "
            f"{out.counted(self._told.count, 'utterance')}"
        )

    def _tell(self, parts: Story) -> dict[str, Any]:
        screen = self._screen
        screen.phase("conversation", "a conversation: the first turn waits for memory once, the others do not")
        self._turns(parts.known)
        self._flush()
        self._goes_idle(parts.known)
        screen.phase("new_conversation", "a new conversation with a person who is known already: warm from the start")
        new = self._turns(parts.new_conversation)
        self._flush()
        outage = self._outage(parts.outage)
        recovered = self._recovery(parts.recovered)
        self._scrape()
        restart = self._restart(parts.restarted)
        self._flush()
        scraped = self._scrape()
        counts = self._count()
        return self._summary(new, outage, recovered, restart, scraped, counts)

    def _turns(self, steps: tuple[Step, ...]) -> list[Row]:
        rows = []
        for step in steps:
            rows.append(self._turn(step))
            if self._pace:
                time.sleep(self._pace)
        return rows

    def _turn(self, step: Step) -> Row:
        conversation, exchange = step.conversation, step.exchange
        whose: dict[str, Any] = {"session_key": conversation.key, "user": conversation.user}
        found = self._runtime.ask("context", query=step.query, budget=BUDGET, **whose)
        state = "-"
        if exchange is not None:
            receipt = self._runtime.ask(
                "capture",
                prompt=list(exchange.prompt),
                answer=exchange.answer,
                at=exchange.at.isoformat() if exchange.at else None,
                wait="accepted" if self._pace else None,
                **whose,
            )
            state = str(receipt["state"])
            texts = [("user", text) for text in exchange.prompt]
            texts += [("assistant", exchange.answer)] if exchange.answer is not None else []
            kept = [one for one in texts if not _is_withheld(one[1])]
            if state == "skipped" and kept:
                self._not_taken.append(f"{conversation.key}: {state} ({receipt['reason']})")
            else:
                self._said.setdefault(conversation.key, []).extend(kept)
                self._withheld += len(texts) - len(kept)
        row = Row(
            len(self._screen.rows) + 1,
            conversation.key,
            found["state"],
            found["reason"],
            round(found["waited"] * 1000, 1),
            found["age"],
            utf8_thirds(found["system"]) + utf8_thirds(found["user_message"]),
            WITHHELD if _is_withheld(step.query) else step.query,
            state,
        )
        self._screen.row(row)
        return row

    def _outage(self, steps: tuple[Step, ...]) -> dict[str, Any]:
        pid, port = self._server.pid, _port(self._server)
        self._server.kill()
        what = "the server is gone" if self._configured is None else "the way to the server is cut"
        self._screen.phase("outage", f"{what} (process {pid} killed): turns go on")
        rows = self._turns(steps)
        pending = self._pending(sum(1 for step in steps if step.exchange is not None))
        self._screen.note(f"waiting in the outbox: {pending}")
        return {
            "turns": len(rows),
            "longest_wait_ms": max((row.waited_ms for row in rows), default=0.0),
            "pending": pending,
            "port": port,
        }

    def _recovery(self, steps: tuple[Step, ...]) -> dict[str, Any]:
        begun = time.monotonic()
        self._server = self._start_server(_port(self._server))
        what = "the server is back" if self._configured is None else "the way to the server is open again"
        self._screen.phase("recovery", f"{what} (process {self._server.pid}, the same data)")
        flushed = self._flush()
        took = time.monotonic() - begun
        counts = self._count()
        held = sum(one.held for one in counts)
        self._screen.note(
            f"delivered after {took:.1f} s: {out.counted(held, 'message')} read from the server, "
            f"{sum(map(_said, counts)):,} handed over"
        )
        self._turns(steps)
        self._flush()
        return {"flushed": flushed, "seconds": round(took, 1), "held": held, "said": sum(map(_said, counts))}

    def _restart(self, steps: tuple[Step, ...]) -> dict[str, Any]:
        before = self._runtime.pid
        code = self._runtime.end()
        self._runtime = self._start_runtime()
        loaded = self._wait_for_snapshots()
        self._screen.phase(
            "restart",
            f"the runtime ended (process {before}, exit {code}) and started as process {self._runtime.pid}; "
            f"{loaded} snapshots were loaded in the background",
        )
        rows = self._turns(steps)
        return {
            "before": before,
            "after": self._runtime.pid,
            "exit_code": code,
            "loaded": loaded,
            "first_path": rows[0].path if rows else None,
            "first_wait_ms": rows[0].waited_ms if rows else None,
        }

    def _start_runtime(self) -> Runtime:
        runtime = Runtime(
            self._folder,
            {
                "base_url": self._server.url,
                "workspace": self._workspace,
                "state_dir": str(self._folder / "state"),
                "cache_dir": str(self._folder / "cache"),
                "metrics_port": "0",
                "settle_time": str(SETTLE_TIME),
            },
            pass_key=None if self._configured is None else self._configured.api_key,
        )
        self._pids.append(runtime.pid)
        return runtime

    def _wait_for_snapshots(self) -> int:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            sessions = self._status()["sessions"]
            if sessions["snapshots"] != "loading":
                return int(sessions["restored"])
            time.sleep(0.02)
        return int(self._status()["sessions"]["restored"])

    def _pending(self, expected: int) -> int:
        """What waits in the outbox; its count is published once a second."""
        end = time.monotonic() + PATIENCE
        while True:
            pending = int(self._status()["outbox"].get("pending_turns") or 0)
            if pending == expected or time.monotonic() >= end:
                return pending
            time.sleep(0.05)

    def _status(self) -> dict[str, Any]:
        return self._runtime.ask("status")

    def _flush(self) -> bool:
        answer = self._runtime.ask("flush", timeout=DELIVERED_WITHIN, within=DELIVERED_WITHIN + 5.0)
        return bool(answer["flushed"])

    def _count(self) -> list[Counted]:
        return [
            self._reader.count(conversation, self._said[conversation.key])
            for conversation in self._told.conversations
            if conversation.key in self._said
        ]

    def _goes_idle(self, steps: tuple[Step, ...]) -> None:
        """These conversations rest: memory reads once more what is known now, as a host would have it do."""
        for key, user in dict.fromkeys((step.conversation.key, step.conversation.user) for step in steps):
            self._runtime.ask("refresh", session_key=key, user=user)
        end = time.monotonic() + PATIENCE
        quiet = 0
        while quiet < 3 and time.monotonic() < end:
            time.sleep(0.1)
            quiet = 0 if self._metrics()["honcho_actors_refresh_in_progress", ""] else quiet + 1

    def _scrape(self) -> dict[tuple[str, str], float]:
        """(name, labels) -> value of the running process; kept, because the next process counts from zero."""
        found = self._metrics()
        self._scrapes.append(found)
        return found

    def _metrics(self) -> dict[tuple[str, str], float]:
        try:
            reply = httpx.get(str(self._status()["endpoints"]["metrics"]), timeout=5.0, trust_env=False)
            reply.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProcessFailed(f"the metrics could not be scraped ({type(error).__name__})") from None
        return {
            (sample.name, ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(reply.text)
            for sample in family.samples
        }

    def _sum(self, name: str, **labels: str) -> int:
        wanted = {f"{key}={value}" for key, value in labels.items()}
        return round(
            sum(
                value
                for scrape in self._scrapes
                for (one, label), value in scrape.items()
                if one == f"honcho_actors_{name}" and wanted <= set(label.split(","))
            )
        )

    def _summary(
        self,
        new: list[Row],
        outage: dict[str, Any],
        recovered: dict[str, Any],
        restart: dict[str, Any],
        scraped: dict[tuple[str, str], float],
        counts: list[Counted],
    ) -> dict[str, Any]:
        paths = {path: self._sum("turns_total", path=path) for path in ("warm", "restored", "cold", "off")}
        waits = sorted(row.waited_ms for row in self._screen.rows if row.path in ("warm", "restored"))
        cold = [row.waited_ms for row in self._screen.rows if row.path == "cold"]
        exact = all(one.is_exact for one in counts) and not self._not_taken
        result: dict[str, Any] = {
            "exact": exact and recovered["flushed"],
            "utterances": self._told.count,
            "skipped_lines": list(self._told.skipped),
            "not_taken": self._not_taken,
            "withheld": self._withheld,
            "turns": paths,
            "turns_shown": len(self._screen.rows),
            "longest_warm_wait_ms": waits[-1] if waits else None,
            "cold_waits_ms": cold,
            "new_conversation_first_path": new[0].path if new else None,
            "outage": outage,
            "recovery": recovered,
            "restart": restart,
            "delivered": self._sum("deliveries_total", outcome="delivered"),
            "requests": self._sum("requests_total"),
            "server": [
                {
                    "conversation": one.session, "said": one.said, "held": one.held, "missing": one.missing,
                    "doubled": one.doubled, "in_order": one.in_order,
                }
                for one in counts
            ],
            "processes": {"server": self._server.pid, "runtimes": self._pids},
            "metrics_scraped": len(scraped),
            "rows": self._screen.as_list(),
        }  # fmt: skip
        held, said = sum(one.held for one in counts), sum(map(_said, counts))
        longest = outage["longest_wait_ms"]
        order = "in order, none twice" if exact else "NOT exact: " + ", ".join(_wrong(counts, self._not_taken))
        self._screen.figures(
            "what the metrics and the server say",
            [
                ("turns", ", ".join(f"{count} {path}" for path, count in paths.items()) + " (metrics)"),
                ("cold turns waited", ", ".join(f"{one:.0f} ms" for one in cold) or "none"),
                ("warm turns waited", f"at most {waits[-1]:.1f} ms" if waits else "none"),
                ("known person, new conversation", str(result["new_conversation_first_path"])),
                ("during the outage", f"{out.counted(outage['turns'], 'turn')}, longest wait {longest:.1f} ms"),
                ("first turn after the restart", f"{restart['first_path']}, {restart['first_wait_ms']} ms"),
                (
                    "deliveries",
                    f"{result['delivered']:,} in {out.counted(result['requests'], 'request')} altogether (metrics)",
                ),
                ("on the server", f"{held:,} of {out.counted(said, 'message')}, {order} (read from the server)"),
                *(
                    [("withheld", f"{self._withheld} of what was said: a credential stays here")]
                    if self._withheld
                    else []
                ),
            ],
        )
        return result


def _said(one: Counted) -> int:
    return one.said


def _wrong(counts: list[Counted], not_taken: list[str]) -> Iterator[str]:
    for one in counts:
        if not one.is_exact:
            yield f"{one.session}: {one.missing} missing, {one.doubled} doubled, in order: {one.in_order}"
    yield from not_taken


def _port(server: Upstream) -> int:
    return int(server.url.rsplit(":", 1)[1])
