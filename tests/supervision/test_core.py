"""What comes between: events that reach a supervisor while it is still at something, and events that come too late."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import supervision
from supervision.core import State, new, step, which_children
from supervision.events import (
    Abandon,
    AskStop,
    Boot,
    ChildStarted,
    DeleteChild,
    Effect,
    Event,
    Exit,
    Exited,
    Expired,
    Ignored,
    Kill,
    Ready,
    Refuse,
    Reply,
    RestartChild,
    Retry,
    Spawn,
    StartChild,
    Started,
    StartFailed,
    Stop,
    TerminateChild,
    Token,
    TryAgain,
)
from supervision.persistent import Index, Table
from supervision.reasons import Crashed, Killed, Normal, Shutdown
from supervision.spec import BRUTAL_KILL, AutoShutdown, Restart, Strategy, TreeSpec, dynamic_tree, tree
from supervision.spec_errors import Restarting, ShuttingDown, StartError, StartTimeout
from tests.supervision.support.puretree import leaf

BUG = Crashed(ValueError("bug"))
NOISE = ("Arm", "Disarm", "Report")


class Sup:
    """A core with its state, driven event by event; effects other than timers and reports are returned."""

    def __init__(self, spec: TreeSpec, *, boot: bool = True) -> None:
        self.state: State = new(spec)
        if boot:
            self.do(Boot())
            for seq in range(len(spec.children)):
                self.do(Started(seq, 1, f"ref{seq}"))

    def do(self, event: Event) -> list[Effect]:
        self.state, effects = step(self.state, event)
        return [effect for effect in effects if type(effect).__name__ not in NOISE]

    def states(self) -> dict[object, str]:
        return {info.id: str(info.state) for info in reversed(which_children(self.state))}


def sup(ids: str, strategy: Strategy = Strategy.ONE_FOR_ONE, **flags: Any) -> Sup:
    return Sup(tree([leaf(child_id) for child_id in ids], strategy=strategy, **flags))


def kinds(effects: list[Effect]) -> list[tuple[str, int]]:
    return [(type(effect).__name__, getattr(effect, "seq", -1)) for effect in effects]


def test_a_step_is_a_function_and_leaves_the_old_state_as_it_was() -> None:
    one = sup("abc", Strategy.ONE_FOR_ALL)
    before, picture = one.state, which_children(one.state)
    first, second = step(before, Exited(1, 1, BUG, 0.0)), step(before, Exited(1, 1, BUG, 0.0))
    assert first[1] == second[1]
    assert which_children(first[0]) == which_children(second[0])
    assert which_children(before) == picture


def test_a_child_that_dies_during_a_group_restart_has_its_turn_afterwards() -> None:
    one = sup("abc", Strategy.REST_FOR_ONE)
    assert kinds(one.do(Exited(1, 1, BUG, 0.0))) == [("AskStop", 2)]
    assert one.do(Exited(0, 1, BUG, 0.0)) == [], "it waits: the supervisor is at something"
    assert kinds(one.do(Exited(2, 1, Shutdown(), 0.0))) == [("Spawn", 1)]
    assert kinds(one.do(Started(1, 2, "b2"))) == [("Spawn", 2)]
    assert kinds(one.do(Started(2, 2, "c2"))) == [("AskStop", 2)], "now it is the turn of a, and c and b go first"
    assert kinds(one.do(Exited(2, 2, Shutdown(), 0.0))) == [("AskStop", 1)]
    assert kinds(one.do(Exited(1, 2, Shutdown(), 0.0))) == [("Spawn", 0)]


def test_a_child_that_died_while_its_group_was_stopped_is_a_bystander() -> None:
    one = sup("abc", Strategy.ONE_FOR_ALL, intensity=1)
    one.do(Exited(0, 1, BUG, 0.0))
    one.do(Exited(1, 1, BUG, 0.0))
    assert kinds(one.do(Exited(2, 1, Shutdown(), 0.0))) == [("Spawn", 0)], "no second incident, no second stop"
    one.do(Started(0, 2, "a2"))
    one.do(Started(1, 2, "b2"))
    assert one.do(Started(2, 2, "c2")) == []
    assert one.states() == {"a": "running", "b": "running", "c": "running"}


def test_a_child_terminated_during_a_group_restart_is_not_started_again() -> None:
    one = sup("abc", Strategy.ONE_FOR_ALL)
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(TerminateChild("t", "b")) == [AskStop(1, 1)]
    assert one.do(Exited(1, 1, Shutdown(), 0.0)) == [Reply("t")]
    assert kinds(one.do(Exited(2, 1, Shutdown(), 0.0))) == [("Spawn", 0)]
    assert kinds(one.do(Started(0, 2, "a2"))) == [("Spawn", 2)]
    one.do(Started(2, 2, "c2"))
    assert one.states() == {"a": "running", "b": "down", "c": "running"}


def test_a_request_to_start_waits_for_the_group_and_a_refusal_does_not() -> None:
    one = sup("ab", Strategy.ONE_FOR_ALL)
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(StartChild("s", leaf("c"))) == []
    one.do(Exited(1, 1, Shutdown(), 0.0))
    (refused,) = one.do(DeleteChild("d", "b"))
    assert isinstance(refused, Refuse)
    assert isinstance(refused.error, Restarting)
    one.do(Started(0, 2, "a2"))
    assert kinds(one.do(Started(1, 2, "b2"))) == [("Spawn", 2)]
    assert one.do(Started(2, 1, "c1", "info")) == [Reply("s", ChildStarted("c1", "info"))]


def test_requests_that_wait_are_refused_when_the_supervisor_ends() -> None:
    one = sup("ab", Strategy.ONE_FOR_ALL)
    one.do(Exited(0, 1, BUG, 0.0))
    one.do(StartChild("s", leaf("c")))
    effects = one.do(Stop())
    assert [type(effect.error) for effect in effects if isinstance(effect, Refuse)] == [ShuttingDown]
    assert one.do(Exited(1, 1, Shutdown(), 0.0)) == [Exit(Shutdown())]
    (late,) = one.do(RestartChild("r", "a"))
    assert isinstance(late, Refuse)


def test_a_restart_that_fails_while_the_supervisor_ends_is_not_tried_again() -> None:
    one = sup("ab")
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(Stop()) == [AskStop(1, 1)]
    assert one.do(StartFailed(0, 2, ValueError("no"))) == []
    assert one.do(Exited(1, 1, Shutdown(), 0.0)) == [Exit(Shutdown())]


def test_a_child_that_is_being_started_on_request_is_stopped_with_the_supervisor_and_its_starter_told() -> None:
    one = sup("a")
    one.do(StartChild("s", leaf("b")))
    assert one.do(Stop()) == [AskStop(1, 1)]
    assert one.do(Started(1, 1, "b1")) == []
    effects = one.do(Exited(1, 1, Shutdown(), 0.0))
    assert [type(effect).__name__ for effect in effects] == ["Refuse", "AskStop"]


def test_a_stop_while_the_tree_starts_ends_it_with_an_error_for_the_starter() -> None:
    one = Sup(tree([leaf("a"), leaf("b")], strategy=Strategy.ONE_FOR_ONE), boot=False)
    one.do(Boot())
    assert kinds(one.do(Started(0, 1, "a1"))) == [("Spawn", 1)]
    assert one.do(Stop()) == [AskStop(1, 1)]
    assert one.do(StartFailed(1, 1, ValueError("no"))) == [AskStop(0, 1)]
    (ended,) = one.do(Exited(0, 1, Shutdown(), 0.0))
    assert isinstance(ended, Exit)
    assert isinstance(ended.error, StartError)


@pytest.mark.parametrize("answer", ["started", "ignored", "failed", "exited"])
def test_a_child_that_is_terminated_while_it_starts_may_answer_with_anything(answer: str) -> None:
    one = sup("a")
    one.do(StartChild("s", leaf("b")))
    assert one.do(TerminateChild("t", "b")) == [AskStop(1, 1)]
    if answer == "started":
        assert one.do(Started(1, 1, "b1")) == []
    events: dict[str, Event] = {
        "started": Exited(1, 1, Shutdown(), 0.0),
        "ignored": Ignored(1, 1),
        "failed": StartFailed(1, 1, ValueError("no")),
        "exited": Exited(1, 1, Killed(), 0.0),
    }
    refused, replied = one.do(events[answer])
    assert isinstance(refused, Refuse)
    assert replied == Reply("t")
    assert one.states() == {"a": "running"}


@pytest.mark.parametrize("answer", ["failed", "started and exited"])
def test_a_start_that_takes_too_long_is_abandoned_and_has_failed_when_the_child_is_gone(answer: str) -> None:
    one = sup("a")
    one.do(StartChild("s", leaf("b")))
    assert one.do(Expired(Token(1, 1, "start"))) == [Abandon(1, 1)]
    assert one.states() == {"a": "running", "b": "starting"}
    if answer == "failed":
        (refused,) = one.do(StartFailed(1, 1, ValueError("no")))
    else:
        assert one.do(Started(1, 1, "b1")) == []
        (refused,) = one.do(Exited(1, 1, Killed(), 0.0))
    assert isinstance(refused, Refuse)
    assert isinstance(refused.error, StartTimeout)
    for late in (Started(1, 1, "b1"), Exited(1, 1, Killed(), 0.0), StartFailed(1, 1, ValueError("no"))):
        assert one.do(late) == []
    assert one.states() == {"a": "running"}


def test_a_restart_that_takes_too_long_is_tried_again_when_the_child_is_gone_and_not_before() -> None:
    one = sup("a")
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(Expired(Token(0, 2, "start"))) == [Abandon(0, 2)]
    assert one.do(StartFailed(0, 2, ValueError("no"))) == [TryAgain(0, 2)]
    assert one.states() == {"a": "restarting"}
    one.do(Retry(0, 2, 0.0))
    one.do(Started(0, 3, "a3"))
    assert one.states() == {"a": "running"}


def test_a_child_whose_start_had_to_wait_is_started_for_whoever_asked_for_it() -> None:
    one = sup("ab", Strategy.REST_FOR_ONE)
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(StartChild("s", leaf("c"))) == []
    one.do(Exited(1, 1, Shutdown(), 0.0))
    one.do(Started(0, 2, "a2"))
    (spawn,) = one.do(Started(1, 2, "b2"))
    assert isinstance(spawn, Spawn)
    assert (spawn.spec.id, spawn.starter, spawn.again) == ("c", "s", False)


def test_what_carries_an_old_generation_is_ignored() -> None:
    one = sup("a")
    one.do(Exited(0, 1, BUG, 0.0))
    one.do(Started(0, 2, "a2"))
    stale: list[Event] = [
        Started(0, 1, "old"),
        Ignored(0, 1),
        StartFailed(0, 1, ValueError("old")),
        Exited(0, 1, BUG, 0.0),
        Retry(0, 1, 0.0),
        Expired(Token(0, 1, "stop")),
        Expired(Token(0, 2, "start")),
        Exited(7, 1, BUG, 0.0),
    ]
    for event in stale:
        assert one.do(event) == []
    assert which_children(one.state)[0].ref == "a2"


def test_a_retry_of_a_child_that_was_terminated_meanwhile_is_void() -> None:
    one = sup("a")
    one.do(Exited(0, 1, BUG, 0.0))
    assert one.do(StartFailed(0, 2, ValueError("no"))) == [TryAgain(0, 2)]
    assert one.do(TerminateChild("t", "a")) == [Reply("t")]
    assert one.do(Retry(0, 2, 0.0)) == []
    assert one.states() == {"a": "down"}


def test_the_window_includes_its_edge() -> None:
    one = sup("a", intensity=1, period=5.0)
    one.do(Exited(0, 1, BUG, 10.0))
    one.do(Started(0, 2, "a2"))
    assert one.do(Exited(0, 2, BUG, 15.0)) == [Exit(Shutdown("restart intensity reached"))]
    other = sup("a", intensity=1, period=5.0)
    other.do(Exited(0, 1, BUG, 10.0))
    other.do(Started(0, 2, "a2"))
    assert kinds(other.do(Exited(0, 2, BUG, 15.001))) == [("Spawn", 0)]


def test_a_killed_supervisor_abandons_everyone_at_once_and_ends_after_the_last() -> None:
    one = sup("abc")
    assert one.do(Kill()) == [Abandon(2, 1), Abandon(1, 1), Abandon(0, 1)]
    for seq in (1, 2):
        assert one.do(Exited(seq, 1, Killed(), 0.0)) == []
    assert one.do(Exited(0, 1, Killed(), 0.0)) == [Exit(Killed())]


def test_a_stop_that_hangs_can_be_cut_short_by_a_kill() -> None:
    one = sup("ab")
    assert one.do(Stop()) == [AskStop(1, 1)]
    assert one.do(Kill()) == [Abandon(1, 1), Abandon(0, 1)]
    one.do(Exited(0, 1, Killed(), 0.0))
    assert one.do(Exited(1, 1, Killed(), 0.0)) == [Exit(Killed())]


def test_a_significant_child_that_is_being_restarted_counts_as_running() -> None:
    fields: dict[str, Any] = {"restart": Restart.TRANSIENT, "significant": True}
    spec = tree(
        [leaf("a", **fields), leaf("b", **fields)],
        strategy=Strategy.ONE_FOR_ONE,
        auto_shutdown=AutoShutdown.ALL_SIGNIFICANT,
    )
    one = Sup(spec)
    one.do(Exited(0, 1, BUG, 0.0))
    one.do(StartFailed(0, 2, ValueError("no")))
    assert one.do(Exited(1, 1, Normal(), 0.0)) == []
    assert one.states() == {"a": "restarting", "b": "down"}
    one.do(Retry(0, 2, 0.0))
    one.do(Started(0, 3, "a3"))
    assert [type(effect) for effect in one.do(Exited(0, 3, Normal(), 0.0))] == [Exit]


def test_a_refusal_of_the_runtime_ends_a_supervisor_that_wanted_to_restart_but_not_one_that_was_asked() -> None:
    one = sup("a")
    (refused,) = [*one.do(StartChild("s", leaf("b"))), *one.do(StartFailed(1, 1, ValueError("full"), fatal=True))][1:]
    assert isinstance(refused, Refuse)
    one.do(Exited(0, 1, BUG, 0.0))
    assert [type(effect) for effect in one.do(StartFailed(0, 2, ValueError("full"), fatal=True))] == [Exit]


def test_a_dynamic_supervisor_stops_everyone_at_once_each_by_its_own_budget() -> None:
    one = Sup(dynamic_tree(), boot=False)
    assert one.do(Boot()) == [Ready()]
    for seq, budget in enumerate((5.0, BRUTAL_KILL)):
        one.do(StartChild(seq, leaf("x", shutdown=budget)))
        one.do(Started(seq, 1, f"ref{seq}"))
    assert one.do(Stop()) == [Abandon(1, 1), AskStop(0, 1)]


def test_ten_thousand_waiting_requests_are_served_without_recursion() -> None:
    one = sup("ab", Strategy.ONE_FOR_ALL)
    one.do(Exited(0, 1, BUG, 0.0))
    for number in range(3_000):
        one.do(StartChild(number, leaf("a")))
    one.do(Exited(1, 1, Shutdown(), 0.0))
    one.do(Started(0, 2, "a2"))
    assert len(one.do(Started(1, 2, "b2"))) == 3_000


def test_a_spawn_hides_its_arguments() -> None:
    one = sup("a")
    (spawn,) = one.do(StartChild("s", leaf("b", args=("hush",))))
    assert isinstance(spawn, Spawn)
    assert spawn.args == ("hush",)
    assert "hush" not in repr(spawn)


PURE = ("core", "policy", "state", "events", "spec", "spec_errors", "reasons", "persistent")


@pytest.mark.parametrize("name", PURE)
def test_the_pure_part_imports_no_thread_no_clock_and_no_pykka(name: str) -> None:
    path = Path(supervision.__file__).parent / f"{name}.py"
    allowed = {"__future__", "collections", "dataclasses", "enum", "math", "operator", "types", "typing"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            from_us = node.module == "supervision"
            found = {f"supervision.{alias.name}" for alias in node.names} if from_us else {str(node.module)}
        else:
            continue
        for module in found:
            root = module.split(".")[0]
            assert root in allowed or module in {f"supervision.{pure}" for pure in PURE}, f"{name} imports {module}"


def test_a_table_keeps_its_order_through_any_changes() -> None:
    table: Table[str] = Table()
    for key in range(2000):
        table = table.put(key, f"v{key}")
    older = table
    for key in range(0, 2000, 3):
        table = table.drop(key)
    kept = [f"v{key}" for key in range(2000) if key % 3]
    assert list(table.values()) == kept
    assert list(reversed(table)) == kept[::-1]
    assert len(table) == len(kept)
    assert len(older) == 2000
    assert (older.get(3), table.get(3), table.get(10**9)) == ("v3", None, None)


def test_an_index_holds_keys_whose_hashes_collide() -> None:
    class Same:
        def __hash__(self) -> int:
            return 7

    keys = [Same() for _ in range(5)]
    index = Index()
    for number, key in enumerate(keys):
        index = index.put(key, number)
    index = index.put(keys[0], 10).drop(keys[1])
    assert [index.get(key) for key in keys] == [10, None, 2, 3, 4]
