"""`Memory`: one object for threads and for event loops, started once and forgotten for months.

Promises: `start` touches no network and never raises for bad settings or an unreachable server; a warm `context` is a
look into a published table; no call here raises for what the network, the disk or the tree does, and each says in a
closed vocabulary why it gave nothing; `close` keeps its timeout, from any thread, twice, whatever hangs.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from honcho_actors.model import Context, Document, Reason, ReceiptState, SkipReason, State, Turn, TurnRequest

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from honcho_actors.capture.importer import Imported
    from honcho_actors.host.tools import Style, ToolRegistry
    from honcho_actors.runtime.parts import (
        Capture,
        Clock,
        Health,
        HealthChange,
        Meters,
        PackageNotFoundError,
        Receipt,
        RunState,
        Searching,
        Sessions,
        Settings,
        SettingsCell,
        Status,
        Tree,
        asyncio,
        identity,
        part,
        shown,
        version,
    )
    from honcho_actors.satellite import ContextContributor, HonchoProvider
    from honcho_actors.satellite.tools import Tool, ToolResult
    from honcho_actors.sessions.budget import Counter

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 5.0
STOP_SECONDS: Final = 1.0
"""What the tree gets at the end of `close`, after the drain."""

LOOP_SECONDS: Final = 0.3
"""What of that is kept for an event loop and threads that do not end by themselves."""

LAST_LOOK: Final = 0.25
"""Seconds for the look, after the drain, at whether something came meanwhile."""

LONGEST: Final = 1e6
"""Seconds that any wait here may be given; what is longer is cut."""

OFF: Final[Mapping[Reason, Context]] = MappingProxyType({one: Context((), State.OFF, one) for one in Reason})


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What `forget` removed here, and what it could not: `remains` is one sentence about the server."""

    done: bool
    undelivered_turns: int
    remote_sessions: tuple[str, ...]
    remains: str


class Memory:
    """The public face. Made by `Memory.start`; every method may be called from any thread."""

    def __init__(
        self, cell: SettingsCell, meters: Meters, clock: Clock, *, tree: bool, counter: Counter | None = None
    ) -> None:
        """Use `Memory.start`."""
        self._cell = cell
        self._meters = meters
        self._clock = clock
        self._started_at = time.time()
        self._began = clock.now()
        self._closing = threading.Lock()
        self._inside: set[int] = set()
        """Threads in the middle of `close`."""
        self._closed: bool | None = None
        self._box: ToolRegistry | None = None
        self._drained = not tree
        self._forked = False
        self._companions: dict[str, Any] = {}
        self._off: Reason | None = None if tree else Reason.DISABLED
        self._tree: Tree | None = Tree(cell, meters, clock, self._status_for_endpoint, counter) if tree else None
        if self._tree is not None:
            self._sessions: Sessions = self._tree.sessions
            self._capture: Capture = self._tree.capture
            self._searching = Searching(self._tree)
        _started.add(self)

    @classmethod
    def start(
        cls,
        settings: Settings | None = None,
        *,
        tree: bool = True,
        registry: CollectorRegistry | None = None,
        clock: Clock | None = None,
        counter: Counter | None = None,
    ) -> Self:
        """A running runtime. Without `settings` they are loaded, and read again when a source changes.

        `tree=False` gives the face alone: every call answers *off*. `registry`: where the metrics are registered; two
        runtimes on one registry share them. `counter(text)` counts the tokens of `context_tokens`: by default a third
        of the UTF-8 bytes; `sessions.budget.bpe_counter()` (extra `tokens`) counts exactly. `clock` is for tests.
        Touches no network, prints nothing. The first one of a process loads the rooms that it stands on.
        """
        _load()
        memory = cls(SettingsCell(settings), Meters.on(registry), clock or Clock(), tree=tree, counter=counter)
        if memory._tree is not None:
            memory._tree.start()
        return memory

    # -- turns ---------------------------------------------------------------------------------------------------------

    def context(self, request: TurnRequest, budget: float | None = None) -> Context:
        """This turn's memory. A warm turn ignores `budget` (seconds; default `first_turn_wait`); a cold one waits at
        most that long, minus headroom. On a thread that runs an event loop it never waits."""
        if self._off is not None:
            return OFF[self._off]
        try:
            return self._sessions.serve(request, budget)
        except Exception:  # noqa: BLE001 - boundary: a turn never fails because of memory
            return OFF[Reason.OVERLOADED] if self._off is None else OFF[self._off]

    async def acontext(self, request: TurnRequest, budget: float | None = None) -> Context:
        """As `context`, suspending the task instead of the thread; on any event loop."""
        if self._off is not None:
            return OFF[self._off]
        try:
            return await self._sessions.aserve(request, budget)
        except Exception:  # noqa: BLE001 - boundary: a turn never fails because of memory
            return OFF[Reason.OVERLOADED] if self._off is None else OFF[self._off]

    def capture(self, turn: Turn) -> Receipt:
        """Hands over what was said. Returns at once with a *pending* receipt; what was accepted is delivered once."""
        if self._off is not None:
            return _skipped(SkipReason.CLOSED if self._off is Reason.CLOSED else SkipReason.DISABLED)
        try:
            return self._capture.capture(turn)
        except Exception:  # noqa: BLE001 - boundary: a turn never fails because of memory
            return _skipped(SkipReason.STORE_FAILED)

    async def acapture(self, turn: Turn) -> Receipt:
        """As `capture`, returning when the turn is on disk (or was skipped)."""
        if self._off is not None:
            return _skipped(SkipReason.CLOSED if self._off is Reason.CLOSED else SkipReason.DISABLED)
        try:
            return await self._capture.acapture(turn)
        except Exception:  # noqa: BLE001 - boundary: a turn never fails because of memory
            return _skipped(SkipReason.STORE_FAILED)

    def import_files(
        self,
        paths: Iterable[Path],
        *,
        user: str | None = None,
        partition: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        """Hands over what was said elsewhere (JSON Lines, `messages` JSON, a ChatGPT export), once: what an earlier
        run brought in is known. Returns when all is on disk; `flush` waits for the delivery. Waits for the disk: not
        for a thread that runs an event loop. Raises `capture.importer.NotReadable` at a file that holds nothing of the
        kind.
        """
        from honcho_actors.capture.importer import Imported, import_files

        if self._off is not None:
            return Imported()
        return import_files(self._capture, paths, user=user, partition=partition, progress=progress)

    def prewarm(self, request: TurnRequest) -> None:
        """Starts the load of a conversation that is about to begin. Never waits."""
        if self._off is None:
            self._sessions.prewarm(request)

    def refresh(self, request: TurnRequest) -> None:
        """Reads a conversation again: it went idle or was archived, and its snapshot is to be of its end."""
        if self._off is None:
            self._sessions.refresh(request)

    # -- beside turns --------------------------------------------------------------------------------------------------

    def search(
        self, query: str, scope: str = "session", key: str | None = None, limit: int | None = None
    ) -> tuple[Document, ...]:
        """What was said about `query`, inside exactly this scope (see `runtime.searching`). Empty on every failure, and
        on a thread that runs an event loop (use `asearch` there)."""
        if self._off is not None or self._tree is None or _on_loop():
            return ()
        settings = self._cell.current
        try:
            reply = self._searching.start(settings, query, scope, key, limit)
            found: tuple[Document, ...] = reply.get(timeout=settings.request_timeout + 1.0)
            return found
        except Exception:  # noqa: BLE001 - boundary: a search that fails finds nothing
            return ()

    async def asearch(
        self, query: str, scope: str = "session", key: str | None = None, limit: int | None = None
    ) -> tuple[Document, ...]:
        """As `search`, on any event loop."""
        if self._off is not None or self._tree is None:
            return ()
        settings = self._cell.current
        try:
            reply = self._searching.start(settings, query, scope, key, limit)
            found: tuple[Document, ...] = await reply
            return found
        except Exception:  # noqa: BLE001 - boundary: a search that fails finds nothing
            return ()

    def fork(self, parent: str, child: str, at: str | None = None) -> None:
        """Notes that `child` begins as a copy of `parent` up to the turn `at`. Durable, no network. TypeError and
        ValueError as for `opt_out`."""
        ends = _conversation(parent, "parent"), _conversation(child, "child")
        if at is not None and not isinstance(at, str):
            raise TypeError(f"at must be a turn's id (str) or None, not {type(at).__name__}")
        if self._off is None:
            self._capture.fork(*ends, at)

    def opt_out(self, session_key: str) -> None:
        """Nothing of this conversation is captured from now on. Durable.

        A wish that cannot be kept must not look as if it were: `session_key` that is no str raises TypeError, a blank
        one ValueError (a blank key stands for no conversation of its own)."""
        key = _conversation(session_key, "session_key")
        if self._off is None:
            self._capture.opt_out(key)

    def opt_in(self, session_key: str) -> None:
        """Takes `opt_out` back, for what is captured from now on. TypeError and ValueError as there."""
        key = _conversation(session_key, "session_key")
        if self._off is None:
            self._capture.opt_in(key)

    def forget(self, user: str) -> Forgotten:
        """Removes everything that this machine holds of a person: cached memory, snapshots, queued turns, ledger. What
        the server holds stays there, and the answer says so."""
        settings = self._cell.current
        who = identity.resolve(TurnRequest(session_key="forget", user=user), settings)
        if self._off is not None or isinstance(who, identity.NoIdentity):
            return Forgotten(False, 0, (), "nothing was removed: memory is off, or this is nobody here")
        for name, companion in list(self._companions.items()):
            part(partial(_done, companion.forget, who.user_peer), [], name)
        found = self._capture.forget(user)
        # After it: a delivery that lands meanwhile has the person read.
        done = self._sessions.forget(who.user_peer) and found.done
        where = settings.server_url or "the server"
        remains = f"what was delivered stays on {where}, workspace {settings.workspace}, under peer {who.user_peer}"
        return Forgotten(done, found.undelivered_turns, found.remote_sessions, remains)

    def contributor(self) -> ContextContributor:
        """What a host registers with its `ContextRegistry`, inline."""
        from honcho_actors.satellite import ContextContributor

        return ContextContributor(self._sessions)

    def provider(self) -> HonchoProvider:
        """What a host registers with its `MemoryProviders`: searched and told through them, inline."""
        from honcho_actors.runtime.tooling import provider

        return provider(self._cell, self._tree, lambda: self._off is not None, self.capture)

    def tools(self, *, aliases: bool = True) -> tuple[Tool, ...]:
        """The tools for a model (see `docs/tools.md`), with the three other names unless `aliases=False`. None while
        `recall_mode` is context; a tool that was taken before then refuses."""
        from honcho_actors.runtime.tooling import tools

        return tools(self._cell, self._meters, self._tree, lambda: self._off is not None, aliases=aliases)

    def tool_schemas(self, request: TurnRequest | None = None, *, style: Style = "openai") -> list[dict[str, Any]]:
        """The five tools as a model's request takes them: `openai` (chat completions), `openai-responses`, `anthropic`,
        `mcp`. None while `recall_mode` is context, for subagents and for shared audiences."""
        return self._toolbox().schemas(request, style)

    def call_tool(self, name: str, arguments: object, request: TurnRequest | None) -> ToolResult:
        """Runs what a model called; `arguments` is a mapping, the JSON text that it sent, or None. Always an answer,
        whose `text` goes back to the model. Blocks for the tool's own time; on an event loop use `acall_tool`."""
        from honcho_actors.runtime.tooling import result

        return result(self._toolbox().call(name, arguments, request))

    async def acall_tool(self, name: str, arguments: object, request: TurnRequest | None) -> ToolResult:
        """As `call_tool`, suspending the task; on any event loop."""
        from honcho_actors.runtime.tooling import result

        return result(await self._toolbox().acall(name, arguments, request))

    def _toolbox(self) -> ToolRegistry:
        found = self._box
        if found is None:
            from honcho_actors.runtime.tooling import box

            found = self._box = box(self._cell, self._meters, self._tree, lambda: self._off is not None)
        return found

    def reload(self) -> None:
        """Reads the settings' sources again at once."""
        if not self._forked:
            self._cell.reload()

    def flush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """True when nothing accepted is undelivered (set aside and expired count as ended); False after `timeout`
        seconds. A closed runtime says how it was left. A timeout that is no number raises TypeError, NaN ValueError."""
        seconds = _seconds(timeout)
        if self._off is not None:
            return self._drained
        return False if _on_loop() else self._capture.flush(seconds)

    async def aflush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """As `flush`, on any event loop."""
        seconds = _seconds(timeout)
        return self._drained if self._off is not None else await self._capture.aflush(seconds)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._cell.current

    @property
    def meters(self) -> Meters:
        """The meters, for whoever exposes them in an own way."""
        return self._meters

    # -- status --------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """How the runtime is. Touches no network, waits for no actor."""
        settings = self._cell.current
        problems: list[str] = []
        tree = self._tree
        sessions = part(self._sessions.status, problems, "sessions") if tree is not None else {}
        outbox = part(self._capture.status, problems, "outbox") if tree is not None else {}
        client = part(tree.clients.status, problems, "client") if tree is not None else {}
        if tree is not None:
            problems += tree.problems()
        problems += [str(problem) for problem in settings.problems]
        condition = Health() if tree is None else tree.telling.look()
        state, health = self._health(settings, condition, outbox, tree)
        return Status(
            state,
            health,
            os.getpid(),
            _version(),
            self._started_at,
            max(0.0, self._clock.now() - self._began),
            _settings_part(settings),
            sessions,
            outbox,
            client,
            tree.rows() if tree is not None else (),
            tree.endpoints() if tree is not None else {"metrics": None, "admin": None},
            tuple(problems),
            self._meters.runs.shown(),
            shown(condition, self._clock.now(), time.time()),
        )

    def _status_for_endpoint(self) -> Mapping[str, Any]:
        return self.status().as_dict()

    def _health(
        self, settings: Settings, condition: Health, outbox: Mapping[str, Any], tree: Tree | None
    ) -> tuple[RunState, str]:
        if self._forked:
            return "closed", "this process was forked from the one that memory runs in: it needs a Memory of its own"
        if self._off is Reason.CLOSED:
            return "closed", "the runtime is closed"
        if tree is None:
            return "off", "the runtime was started without its tree"
        if not settings.enabled:
            return "off", "memory is switched off"
        if not settings.configured:
            bad = next((one for one in settings.problems if one.field == "base_url"), None)
            if bad is not None:
                return "off", f"memory is off: the server's address cannot be used: {bad.text}"
            return "off", "memory is off: no server and no key is set"
        refused = tree.clients.problem()
        if refused:
            return "off", f"memory is off: the server may not be asked: {refused}"
        if condition.troubles:
            return "degraded", condition.sentence
        if settings.read_only:
            return "ready", "memory is read, and nothing is written (save_messages is off)"
        pending = outbox.get("pending_turns") or 0
        return "ready", f"memory is on; {pending} turn{'' if pending == 1 else 's'} to be delivered"

    def on_health(self, callback: Callable[[HealthChange], object]) -> Callable[[], None]:
        """`callback(change)` is called when memory becomes degraded, when a cause comes or goes, and when it has
        recovered; what is returned takes it back. It runs on a daemon thread of ours, one call at a time and in order,
        never on yours, and may block at its own cost; what it raises is logged."""
        return (lambda: None) if self._tree is None else self._tree.telling.subscribe(callback)

    # -- life ----------------------------------------------------------------------------------------------------------

    def close(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Drains until a second before `timeout`, then ends everything. True when all of it ended by itself in time;
        what is undelivered stays on disk. Any thread, any number of times; a thread that runs an event loop is held up
        for as long as it takes (use `aclose` there). What hangs may take half a second where less was given. From
        inside a close (a signal's handler, a finalizer, a companion) it is False at once, and that one goes on. A
        timeout that is no number raises TypeError, NaN ValueError."""
        timeout = _seconds(timeout)
        me = threading.get_ident()
        if self._closed is not None or me in self._inside:
            return bool(self._closed)
        if self._tree is not None and self._tree.here():
            # A finalizer, wherever the collector happened to run: what it waits for would wait for it.
            threading.Thread(target=self.close, args=(timeout,), name="honcho-close", daemon=True).start()
            return False
        self._inside.add(me)
        try:
            if not self._closing.acquire(timeout=timeout + STOP_SECONDS):
                return False  # another thread is still closing it, and gave it longer
            try:
                if self._closed is None:
                    self._closed = self._close(timeout)
                return self._closed
            finally:
                self._closing.release()
        finally:
            self._inside.discard(me)

    def _close(self, timeout: float) -> bool:
        if self._tree is None:
            self._off = Reason.CLOSED
            return True
        if not _on_loop():
            return self._end(timeout)
        ended: list[bool] = []
        worker = threading.Thread(target=lambda: ended.append(self._end(timeout)), name="honcho-close", daemon=True)
        worker.start()
        worker.join(timeout + STOP_SECONDS)
        return bool(ended and ended[0])

    async def aclose(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """As `close`, suspending the task."""
        timeout = _seconds(timeout)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()

        def settle(ended: bool) -> None:
            if not done.done():
                done.set_result(ended)

        def end() -> None:
            ended = False
            try:
                ended = self.close(timeout)
            finally:  # whoever awaits it is answered, whatever a companion's close has thrown
                with contextlib.suppress(RuntimeError):  # nobody awaits it on a loop that has been closed meanwhile
                    loop.call_soon_threadsafe(settle, ended)

        threading.Thread(target=end, name="honcho-close", daemon=True).start()
        return await done

    def companion(self, name: str, make: Callable[[Self], T]) -> T:
        """What lives beside this runtime and ends with it: made at the first call under this name; its `close()` is
        called before the drain, so that what it still has to say is captured, and `forget(peer)` with `forget`."""
        found: T = self._companions.get(name) or self._companions.setdefault(name, make(self))
        return found

    def _end(self, timeout: float) -> bool:
        assert self._tree is not None
        self._inside.add(threading.get_ident())  # on a loop's behalf it is a thread of its own
        end = time.monotonic() + max(0.0, timeout)
        for name, companion in list(self._companions.items()):
            part(partial(_done, companion.close), [], name)
        drain = timeout - STOP_SECONDS
        flushed = False
        if drain > 0.0 and self._cell.current.configured and not self._cell.current.read_only:
            flushed = self._capture.flush(drain)
        self._off = Reason.CLOSED
        if flushed:  # and nothing came while it was drained
            flushed = self._capture.flush(min(LAST_LOOK, max(0.0, end - time.monotonic())))
        try:
            return self._tree.close(max(0.1, end - LOOP_SECONDS - time.monotonic()))
        finally:
            self._drained = flushed or self._capture.nothing_owed

    def _left_behind(self) -> None:
        """In a forked child: threads, loop and locks of this runtime stayed with the parent, and it goes on there."""
        self._closing = threading.Lock()
        self._inside = set()
        if self._tree is not None and self._closed is None:
            self._forked, self._closed, self._drained, self._off = True, True, False, Reason.CLOSED
            self._tree.left_behind()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()


def _done(act: Callable[..., object], *arguments: object) -> Mapping[str, Any]:
    act(*arguments)
    return {}


def _load() -> None:
    """The names of `runtime.parts`, into this module."""
    from honcho_actors.runtime import parts

    globals().update({name: getattr(parts, name) for name in parts.__all__})


def _skipped(reason: SkipReason) -> Receipt:
    return Receipt("", ReceiptState.SKIPPED, reason)


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _conversation(key: object, name: str) -> str:
    """The key of one conversation; a mistake of the program is told instead of being kept for a wish."""
    if not isinstance(key, str):
        raise TypeError(f"{name} must be the key of a conversation (str), not {type(key).__name__}")
    if not key.strip():
        raise ValueError(f"{name} is blank: it names no conversation")
    return key


def _seconds(timeout: object) -> float:
    """A timeout between 0 and `LONGEST`."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, not {type(timeout).__name__}")
    if math.isnan(timeout):
        raise ValueError("timeout must be a number of seconds, not NaN")
    return float(min(max(timeout, 0.0), LONGEST))


def _version() -> str:
    try:
        return version("honcho-actors")
    except PackageNotFoundError:
        return "unknown"


def _settings_part(settings: Settings) -> Mapping[str, Any]:
    return {
        "configured": settings.configured,
        "server": settings.server_url,
        "api_key": "present" if settings.api_key else "absent",
        "workspace": settings.workspace,
        "read_only": settings.read_only,
        "epoch": settings.epoch,
        "require_user": settings.require_user,
        "recall_mode": settings.recall_mode,
        "state_dir": str(settings.state_dir),
    }


_started: weakref.WeakSet[Memory] = weakref.WeakSet()


def _after_fork() -> None:
    for memory in list(_started):
        memory._left_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
