"""The GEN, REG and PRT rows: calls, casts, stops and names."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

from supervision import (
    AlreadyStarted,
    CallingSelf,
    CallTimeout,
    NoProc,
    Normal,
    Registry,
    Restart,
    Shutdown,
    Strategy,
    Waiter,
    WouldBlockLoop,
    child_spec,
)
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row


@row("GEN-01")
def test_GEN_01_an_actor_class_has_a_default_spec(kit: Kit) -> None:
    spec = child_spec(kit.probe(), args=("a", kit))
    assert (spec.id, spec.restart, spec.shutdown, spec.kind) == (kit.probe().__name__, Restart.PERMANENT, 5.0, "worker")
    assert kit.ask(kit.sup().start_child(spec), "ping") == "pong"


@row("GEN-03")
@row("GEN-09")
def test_GEN_03_and_09_an_actor_is_registered_and_found_by_name(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", name="ann")])
    assert kit.rt.registry.whereis("ann") is kit.ref(sup, "a")
    assert kit.rt.registry.whereis("bob") is None
    solo = kit.spawn()
    kit.rt.registry.register("bob", solo)
    assert kit.rt.registry.whereis("bob") is solo
    solo.kill()
    kit.reason(solo)
    assert kit.rt.registry.whereis("bob") is None


@row("GEN-04")
def test_GEN_04_ask_tell_and_cast(kit: Kit) -> None:
    ref = kit.spawn()
    assert kit.ask(ref, "ping") == "pong"
    ref.tell("told")
    assert ref.cast("cast")
    assert kit.ask(ref, "heard") == ["told", "cast"]
    kit.end(ref, Normal())
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("late")
    assert ref.cast("late") is False


@row("GEN-05")
@row("THR-31")
def test_GEN_05_and_THR_31_a_call_fails_in_distinct_ways(kit: Kit) -> None:
    ref = kit.spawn(hangs=True)

    def ask_self(probe: Any) -> Any:
        try:
            return probe.actor_ref.ask("ping")
        except (CallingSelf, WouldBlockLoop) as error:
            return type(error)

    assert kit.ask(ref, ("do", ask_self)) is (
        CallingSelf if kit.probe(hangs=True).life_kind == "thread" else WouldBlockLoop
    )
    if kit.probe(hangs=True).life_kind == "task":

        async def aask_self(probe: Any) -> Any:
            try:
                return await probe.actor_ref.aask("ping")
            except CallingSelf as error:
                return type(error)

        assert kit.ask(ref, ("await", aask_self)) is CallingSelf
    ref.tell("hang")
    with pytest.raises(CallTimeout):
        timed_out(kit, ref)
    ref.kill()
    kit.reason(ref)
    with pytest.raises(NoProc):
        ref.ask("ping")


def timed_out(kit: Kit, ref: Any) -> Any:
    """An ask with a time-out of a second, which passes."""
    if kit.sim:
        return ref.ask("ping", timeout=1.0)
    reply = ref.ask("ping", block=False)
    kit.until(lambda: ("hangs in turn", "solo") in kit.log)
    kit.clock.advance(1.0)  # type: ignore[attr-defined]
    return reply.get(timeout=0.0)


@row("GEN-06")
def test_GEN_06_without_a_name_nothing_is_registered(kit: Kit) -> None:
    kit.sup(kit.specs("ab"))
    kit.spawn()
    assert len(kit.rt.registry) == 0


@row("GEN-07")
def test_GEN_07_an_actor_outside_any_tree_works_and_is_nobodys_child(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"))
    ref = kit.spawn()
    assert kit.ask(ref, "ping") == "pong"
    kit.crash(ref)
    kit.quiet()
    assert not ref.is_alive()
    assert sup.count_children().active == 1


@row("GEN-10")
def test_GEN_10_a_stop_waits_carries_its_reason_and_is_refused_from_inside(kit: Kit) -> None:
    ref = kit.spawn()

    def stop_self(probe: Any) -> Any:
        try:
            return probe.actor_ref.stop()
        except (CallingSelf, WouldBlockLoop) as error:
            return type(error)

    refused = CallingSelf if kit.probe().life_kind == "thread" else WouldBlockLoop
    assert kit.ask(ref, ("do", stop_self)) is refused
    assert kit.get(ref.stop(Shutdown("my reason"), block=False)) is True
    assert ref.exit_reason == Shutdown("my reason")
    assert kit.get(ref.stop(block=False)) is False, "it had ended before"


@row("PRT-02")
def test_PRT_02_a_key_leads_to_its_shard_without_a_mailbox(kit: Kit) -> None:
    shards = 4
    specs = [kit.spec(number, f"own-{number}", name=f"shard-{number}") for number in range(shards)]
    kit.sup(specs)
    whereis = kit.rt.registry.whereis
    for key in (-7, -1, 0, 3, 11, 2**70):
        ref = whereis(f"shard-{key % shards}")
        assert kit.ask(ref, ("do", lambda probe: (probe.id, probe.args))) == (key % shards, [f"own-{key % shards}"])


@row("REG-01")
def test_REG_01_the_name_of_a_dead_actor_is_free_before_its_restart_begins(kit: Kit) -> None:
    seen: list[Any] = []
    for way in ("crash", "kill", Normal()):
        sup = kit.sup([kit.spec("a", name="ann")])
        old = kit.ref(sup, "a")
        kit.plans["a"].append(lambda probe: seen.append(kit.rt.registry.whereis("ann")))
        kit.end(old, way)
        fresh = kit.fresh(sup, "a", old)
        assert kit.rt.registry.whereis("ann") is fresh
        assert seen.pop() is fresh, "already the new one in its own on_start"
        sup.stop()


@row("REG-02")
def test_REG_02_a_name_has_one_living_owner(kit: Kit) -> None:
    one, two = kit.spawn("one"), kit.spawn("two")
    registry: Registry = kit.rt.registry
    registry.register("ann", one)
    registry.register("ann", one)
    with pytest.raises(AlreadyStarted) as caught:
        registry.register("ann", two)
    assert caught.value.ref is one
    kit.end(one, "kill")
    registry.register("ann", two)
    assert registry.whereis("ann") is two
    with pytest.raises(NoProc):
        registry.register("zoe", one)
    assert registry.whereis("zoe") is None


@row("REG-03")
def test_REG_03_names_are_counted_looked_up_and_given_back(kit: Kit) -> None:
    registry: Registry = kit.rt.registry
    ref = kit.spawn()
    registry.register("ann", ref)
    registry.register("bob", ref)
    assert len(registry) == 2
    assert sorted(registry) == ["ann", "bob"]
    assert registry.unregister("ann")
    assert not registry.unregister("ann")
    assert (registry.whereis("ann"), registry.whereis("bob")) == (None, ref)


@row("REG-04")
def test_REG_04_a_handle_by_name_follows_the_restarted_actor(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", name="ann")])
    handle = kit.rt.registry.via("ann")
    handle.tell("before")
    old = kit.ref(sup, "a")
    kit.crash(old)
    kit.fresh(sup, "a", old)
    handle.tell("after")
    assert kit.ask(kit.ref(sup, "a"), "heard") == ["after"]
    sup.terminate_child("a")
    with pytest.raises(NoProc, match="ann"):
        handle.tell("nobody")


@row("REG-05")
def test_REG_05_every_end_of_the_owner_frees_its_names(kit: Kit) -> None:
    for way in ("crash", "kill", Normal(), Shutdown()):
        ref = kit.spawn()
        for name in ("ann", "bob"):
            kit.rt.registry.register(name, ref)
        kit.end(ref, way)
        assert len(kit.rt.registry) == 0


@row("REG-06")
def test_REG_06_refused_registrations_leave_nothing(kit: Kit) -> None:
    registry: Registry = kit.rt.registry
    owner, other = kit.spawn("owner"), kit.spawn("other")
    registry.register("ann", owner)
    for _ in range(10_000):
        with pytest.raises(AlreadyStarted):
            registry.register("ann", other)
    assert len(registry) == 1
    assert other.life.names == ()


@row("REG-07")
def test_REG_07_a_name_is_a_lock_by_key_that_every_death_releases(kit: Kit) -> None:
    registry: Registry = kit.rt.registry
    holders = {key: kit.spawn(key) for key in ("one", "two")}
    for key, holder in holders.items():
        registry.register(f"lock:{key}", holder)
    latecomer = kit.spawn("late")
    with pytest.raises(AlreadyStarted) as caught:
        registry.register("lock:one", latecomer)
    waiter = Waiter[str]().bind(caught.value.ref, lambda down: type(down.reason).__name__)
    gone = Waiter[str]().bind(caught.value.ref, lambda down: "never read")
    del gone
    holders["one"].tell(("raise", Boom("holder")))
    kit.until(lambda: waiter.resolved)
    assert waiter.value == "Crashed"
    registry.register("lock:one", latecomer)
    assert registry.whereis("lock:two") is holders["two"]
    kit.end(latecomer, "kill")
    assert registry.whereis("lock:one") is None


@row("SUP-05")
def test_SUP_05_a_tree_is_reached_by_name_through_its_restarts(kit: Kit) -> None:
    from supervision import ChildSpec

    nested = ChildSpec.supervisor("nest", kit.specs("a"), strategy=Strategy.ONE_FOR_ONE, name="nest")
    kit.sup([nested])
    handle = kit.rt.registry.via("nest")
    old = handle.ref
    old.kill()
    kit.until(lambda: handle.is_alive() and handle.ref is not old)
    assert handle.ref.count_children().specs == 1
