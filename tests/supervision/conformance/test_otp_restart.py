"""OTP-29 to OTP-56: which endings are answered by a restart, of whom, how often, and what happens then."""

from __future__ import annotations

from typing import Any

import pytest

from supervision import (
    AlreadyPresent,
    ChildSpec,
    Counts,
    Crashed,
    Killed,
    NoProc,
    Normal,
    Restart,
    Shutdown,
    Strategy,
    SupervisorRef,
)
from supervision.events import Happening
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row

QUIET: list[Any] = [Normal(), Shutdown(), Shutdown("why")]
LOUD: list[Any] = ["crash", "kill"]


def check_gave_up(kit: Kit, sup: SupervisorRef) -> None:
    reason = kit.reason(sup)
    assert isinstance(reason, Shutdown)
    assert kit.witness.reports(Happening.GAVE_UP)


@row("OTP-29")
def test_OTP_29_crashes_spaced_beyond_the_period_never_exhaust_the_intensity(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"), intensity=1, period=1.0)
    for _ in range(3):
        old = kit.ref(sup, "a")
        kit.crash(old)
        kit.fresh(sup, "a", old)
        kit.advance(2.1)
    assert sup.is_alive()


@row("OTP-30")
def test_OTP_30_one_for_one_replaces_the_crashed_child_only_until_intensity_is_used_up(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), intensity=2)
    other = kit.ref(sup, "b")
    for _ in range(2):
        old = kit.ref(sup, "a")
        kit.crash(old)
        kit.fresh(sup, "a", old)
        assert kit.ref(sup, "b") is other
    kit.crash(kit.ref(sup, "a"))
    check_gave_up(kit, sup)
    assert other.exit_reason == Shutdown()


@row("OTP-31")
def test_OTP_31_one_for_one_with_a_child_that_cannot_restart_ends_and_takes_its_sibling(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), intensity=4)
    other = kit.ref(sup, "b")
    kit.plans["a"].extend([Boom("never")] * 10)
    kit.crash(kit.ref(sup, "a"))
    check_gave_up(kit, sup)
    assert other.exit_reason == Shutdown()
    assert kit.happened("start") == ["a", "b", "a", "a", "a", "a"], "one incident and three retries were admitted"


@row("OTP-32")
def test_OTP_32_one_for_all_starts_everyone_afresh_and_counts_one_incident(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), Strategy.ONE_FOR_ALL, intensity=2)
    for _ in range(2):
        old = [kit.ref(sup, child_id) for child_id in "ab"]
        kit.crash(old[0])
        kit.fresh(sup, "b", old[1])
        assert kit.ref(sup, "a") not in old
        assert old[1].exit_reason == Shutdown()
        kit.until(lambda: kit.state(sup, "b") == "running")
    kit.crash(kit.ref(sup, "b"))
    check_gave_up(kit, sup)


@row("OTP-33")
def test_OTP_33_one_for_all_whose_second_child_cannot_restart_ends(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), Strategy.ONE_FOR_ALL, intensity=4)
    kit.plans["b"].extend([Boom("never")] * 10)
    kit.crash(kit.ref(sup, "a"))
    check_gave_up(kit, sup)
    assert kit.happened("start") == ["a", "b"] * 5


@row("OTP-34")
def test_OTP_34_one_for_all_stops_those_already_restarted_before_the_next_attempt(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), Strategy.ONE_FOR_ALL, intensity=4)
    kit.plans["b"].append(Boom("not yet"))
    kit.log.clear()
    found = kit.between("b", lambda: [kit.state(sup, child_id) for child_id in "ab"])
    kit.crash(kit.ref(sup, "a"))
    kit.until(lambda: kit.happened("start") == ["a", "b", "a", "b"])
    kit.until(lambda: sup.count_children().active == 2)
    assert found[0][0] == ["running", "restarting"]
    assert kit.log == [
        ("stop", "a"),
        ("stop", "b"),
        ("start", "a"),
        ("start", "b"),
        ("stop", "a"),
        ("start", "a"),
        ("start", "b"),
    ]


@row("OTP-35")
def test_OTP_35_a_dynamic_child_is_restarted_until_intensity_is_used_up(kit: Kit) -> None:
    sup = kit.dyn(intensity=2)
    other = sup.start_child(kit.spec("b"))
    ref = sup.start_child(kit.spec("a"))
    for _ in range(2):
        kit.crash(ref)
        dead = ref
        kit.until(lambda: kit.happened("start").count("a") >= 2)
        ref = kit.until(lambda: _living(sup, "a", dead))  # noqa: B023
    kit.crash(ref)
    check_gave_up(kit, sup)
    assert other.exit_reason == Shutdown()


@row("OTP-37")
def test_OTP_37_a_dynamic_child_that_gave_info_is_restarted_as_any_other(kit: Kit) -> None:
    sup = kit.dyn()
    kit.plans["a"].extend([("info", 1), ("info", 2)])
    ref = sup.start_child(kit.spec("a"))
    kit.crash(ref)
    assert kit.until(lambda: _living(sup, "a", ref)).info == 2


@row("OTP-38")
def test_OTP_38_a_dynamic_child_that_cannot_restart_ends_the_supervisor_and_the_others(kit: Kit) -> None:
    sup = kit.dyn(intensity=4)
    other = sup.start_child(kit.spec("b"))
    ref = sup.start_child(kit.spec("a"))
    kit.plans["a"].extend([Boom("never")] * 10)
    kit.crash(ref)
    check_gave_up(kit, sup)
    assert other.exit_reason == Shutdown()


@row("OTP-40")
@pytest.mark.parametrize("restart", [Restart.PERMANENT, Restart.TRANSIENT])
def test_OTP_40_a_dynamic_child_that_ignores_its_restart_is_dropped(kit: Kit, restart: Restart) -> None:
    sup = kit.dyn()
    kit.plans["a"].extend(["ok", "ignore"])
    ref = sup.start_child(kit.spec("a", restart=restart))
    kit.crash(ref)
    kit.until(lambda: sup.count_children() == Counts(0, 0, 0, 0))
    kit.quiet()
    assert kit.happened("start") == ["a", "a"], "and not tried again"


@row("OTP-41")
def test_OTP_41_rest_for_one_restarts_those_who_came_after(kit: Kit) -> None:
    sup = kit.sup(kit.specs("abc"), Strategy.REST_FOR_ONE, intensity=2)
    first = kit.ref(sup, "a")
    for _ in range(2):
        old = kit.ref(sup, "b"), kit.ref(sup, "c")
        kit.log.clear()
        kit.crash(old[0])
        kit.fresh(sup, "c", old[1])
        assert kit.log == [("stop", "b"), ("stop", "c"), ("start", "b"), ("start", "c")]
        assert old[1].exit_reason == Shutdown()
        assert kit.ref(sup, "a") is first
        kit.until(lambda: kit.state(sup, "c") == "running")
    kit.crash(kit.ref(sup, "c"))
    check_gave_up(kit, sup)


@row("OTP-42")
def test_OTP_42_rest_for_one_whose_later_child_cannot_restart_ends(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), Strategy.REST_FOR_ONE, intensity=2)
    kit.plans["b"].extend([Boom("never")] * 10)
    kit.crash(kit.ref(sup, "a"))
    check_gave_up(kit, sup)


@row("OTP-43")
def test_OTP_43_rest_for_one_retries_from_the_child_that_failed_and_leaves_the_earlier_ones(kit: Kit) -> None:
    sup = kit.sup(kit.specs("abc"), Strategy.REST_FOR_ONE, intensity=4)
    kit.plans["b"].append(Boom("not yet"))
    kit.log.clear()
    kit.crash(kit.ref(sup, "a"))
    kit.until(lambda: kit.happened("start") == ["a", "b", "b", "c"])
    kit.until(lambda: sup.count_children().active == 3)
    assert kit.happened("stop") == ["a", "c", "b"]


@row("OTP-45")
def test_OTP_45_a_permanent_child_is_restarted_after_a_normal_end(kit: Kit) -> None:
    check_stays(kit, Restart.PERMANENT, Normal(), restarted=True)


@row("OTP-46")
def test_OTP_46_a_transient_child_is_not_restarted_after_a_normal_end_and_keeps_its_spec(kit: Kit) -> None:
    sup = check_stays(kit, Restart.TRANSIENT, Normal(), restarted=False)
    assert kit.ref(sup, "a") is None
    with pytest.raises(AlreadyPresent):
        sup.start_child(kit.spec("a"))


@row("OTP-47")
def test_OTP_47_a_temporary_child_is_not_restarted_after_a_normal_end_and_loses_its_spec(kit: Kit) -> None:
    sup = check_stays(kit, Restart.TEMPORARY, Normal(), restarted=False)
    assert [info.id for info in sup.which_children()] == ["b"]


@row("OTP-48")
@pytest.mark.parametrize("reason", [Shutdown(), Shutdown("why")])
def test_OTP_48_a_permanent_child_is_restarted_after_a_shutdown(kit: Kit, reason: Shutdown) -> None:
    check_stays(kit, Restart.PERMANENT, reason, restarted=True)


@row("OTP-49")
@pytest.mark.parametrize("reason", [Shutdown(), Shutdown("why")])
def test_OTP_49_a_transient_child_is_not_restarted_after_a_shutdown_but_on_request(kit: Kit, reason: Shutdown) -> None:
    sup = check_stays(kit, Restart.TRANSIENT, reason, restarted=False)
    assert sup.restart_child("a").is_alive()


@row("OTP-50")
@pytest.mark.parametrize("reason", [Shutdown(), Shutdown("why")])
def test_OTP_50_a_temporary_child_is_not_restarted_after_a_shutdown_and_frees_its_id(
    kit: Kit, reason: Shutdown
) -> None:
    sup = check_stays(kit, Restart.TEMPORARY, reason, restarted=False)
    assert sup.start_child(kit.spec("a")).is_alive()


@row("OTP-52")
@pytest.mark.parametrize("how", LOUD)
def test_OTP_52_a_permanent_child_is_restarted_after_a_crash(kit: Kit, how: str) -> None:
    check_stays(kit, Restart.PERMANENT, how, restarted=True)


@row("OTP-53")
@pytest.mark.parametrize("how", LOUD)
def test_OTP_53_a_transient_child_is_restarted_after_a_crash(kit: Kit, how: str) -> None:
    check_stays(kit, Restart.TRANSIENT, how, restarted=True)


@row("OTP-54")
@pytest.mark.parametrize("how", LOUD)
def test_OTP_54_a_temporary_child_is_not_restarted_after_a_crash(kit: Kit, how: str) -> None:
    check_stays(kit, Restart.TEMPORARY, how, restarted=False)


@row("DYN-19")
@row("DYN-20")
@row("DYN-21")
@pytest.mark.parametrize("restart", list(Restart))
def test_DYN_19_20_21_dynamic_children_are_restarted_by_the_same_table(kit: Kit, restart: Restart) -> None:
    for way in (*QUIET, *LOUD):
        sup = kit.dyn()
        ref = sup.start_child(kit.spec("a", restart=restart))
        reason = kit.end(ref, way)
        again = restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and not reason.quiet)
        if again:
            assert kit.until(lambda: _living(sup, "a", ref)).is_alive()  # noqa: B023
        else:
            kit.until(lambda: not sup.which_children())  # noqa: B023
        sup.stop()


@row("DYN-22")
def test_DYN_22_a_restart_may_give_anything(kit: Kit) -> None:
    for second, wanted in (("ok", 1), (("info", 7), 1), ("ignore", 0)):
        sup = kit.dyn()
        kit.plans["a"].extend(["ok", second])
        kit.crash(sup.start_child(kit.spec("a")))
        kit.until(lambda: kit.happened("start") == ["a", "a"])
        kit.until(lambda: sup.count_children() == Counts(wanted, wanted, 0, wanted))  # noqa: B023
        sup.stop()
        kit.log.clear()
    for bad in (Boom("no"), object()):
        sup = kit.dyn()
        kit.plans["a"].extend(["ok", bad])
        found = kit.between("a", sup.which_children)
        kit.crash(sup.start_child(kit.spec("a")))
        assert kit.until(lambda: found)[0][0][0].state == "restarting"  # noqa: B023
        kit.until(lambda: sup.count_children() == Counts(1, 1, 0, 1))  # noqa: B023
        sup.stop()


@row("DYN-26")
def test_DYN_26_a_retry_that_succeeds_ends_the_trouble(kit: Kit) -> None:
    sup = kit.dyn(intensity=2)
    kit.plans["a"].extend(["ok", Boom("not yet"), "ok"])
    ref = sup.start_child(kit.spec("a"))
    kit.crash(ref)
    assert kit.until(lambda: _living(sup, "a", ref)).is_alive()
    assert kit.happened("start") == ["a"] * 3


@row("DYN-27")
def test_DYN_27_too_many_restarts_end_the_supervisor_with_shutdown(kit: Kit) -> None:
    sup = kit.dyn(intensity=1)
    ref = sup.start_child(kit.spec("a"))
    kit.crash(ref)
    kit.crash(kit.until(lambda: _living(sup, "a", ref)))
    check_gave_up(kit, sup)
    with pytest.raises(NoProc):
        sup.start_child(kit.spec("b"))


@row("DYN-28")
def test_DYN_28_retries_count_against_the_intensity(kit: Kit) -> None:
    sup = kit.dyn(intensity=1)
    kit.plans["a"].extend(["ok", Boom("no")])
    kit.crash(sup.start_child(kit.spec("a")))
    check_gave_up(kit, sup)
    assert kit.happened("start") == ["a", "a"]


@row("OTP-56")
def test_OTP_56_a_tree_of_supervisors_heals_layer_by_layer(kit: Kit) -> None:
    layer = [
        ChildSpec.supervisor("one", [kit.spec("a"), kit.spec("b")], strategy=Strategy.ONE_FOR_ONE, intensity=1),
        ChildSpec.supervisor("two", [kit.spec("c"), kit.spec("d")], strategy=Strategy.ONE_FOR_ALL, intensity=1),
        ChildSpec.dynamic("pool", intensity=1),
    ]
    sup = kit.sup(layer, Strategy.ONE_FOR_ALL, intensity=1)
    one, two, pool = (kit.ref(sup, name) for name in ("one", "two", "pool"))
    pool.start_child(kit.spec("job"))
    other = kit.ref(one, "b")
    old = kit.ref(one, "a")
    kit.crash(old)
    fresh = kit.fresh(one, "a", old)
    assert kit.ref(one, "b") is other
    assert [kit.ref(sup, name) for name in ("one", "two", "pool")] == [one, two, pool]
    kit.crash(fresh)
    assert isinstance(kit.reason(one), Shutdown)
    again = kit.fresh(sup, "pool", pool)
    kit.until(lambda: kit.state(sup, "pool") == "running")
    assert again.count_children() == Counts(0, 0, 0, 0), "dynamic children are not resurrected"
    assert kit.ref(sup, "one") is not one
    assert kit.ref(sup, "two") is not two
    assert two.exit_reason == Shutdown()
    assert sup.is_alive()


@row("OTP-78")
@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
def test_OTP_78_a_temporary_sibling_that_was_stopped_with_the_group_stays_away(kit: Kit, strategy: Strategy) -> None:
    sup = kit.sup([kit.spec("a"), kit.spec("t", restart=Restart.TEMPORARY)], strategy)
    old, temporary = kit.ref(sup, "a"), kit.ref(sup, "t")
    kit.crash(old)
    kit.fresh(sup, "a", old)
    assert temporary.exit_reason == Shutdown()
    kit.until(lambda: [info.id for info in sup.which_children()] == ["a"])
    assert sup.is_alive()
    assert kit.happened("start").count("t") == 1


@row("OTP-79")
@pytest.mark.parametrize("how", ["kill supervisor", "kill", "crash", "normal", "terminate"])
def test_OTP_79_a_named_worker_of_a_nested_supervisor_is_found_again_whatever_ends_it(kit: Kit, how: str) -> None:
    inner = ChildSpec.supervisor("inner", [kit.spec("w", name="worker")], strategy=Strategy.ONE_FOR_ONE, name="inner")
    sup = kit.sup([inner], intensity=9)
    whereis = kit.rt.registry.whereis
    worker, nested = whereis("worker"), whereis("inner")
    if how == "kill supervisor":
        nested.kill()
        assert kit.reason(nested) == Killed()
        assert worker.exit_reason is not None, "orphans end first"
    elif how == "terminate":
        nested.terminate_child("w")
        nested.restart_child("w")
    else:
        kit.end(worker, Normal() if how == "normal" else how)
    found = kit.until(lambda: (ref := whereis("worker")) is not None and ref is not worker and ref.is_alive() and ref)
    assert kit.ask(found, "ping") == "pong"
    assert sup.is_alive()


def check_stays(kit: Kit, restart: Restart, how: Any, *, restarted: bool) -> SupervisorRef:
    """A child ends, with a sibling beside it; checks whether it comes back, and that the sibling hears nothing of
    it."""
    sup = kit.sup([kit.spec("a", restart=restart), kit.spec("b")])
    old, sibling = kit.ref(sup, "a"), kit.ref(sup, "b")
    reason = kit.end(old, how)
    assert isinstance(reason, Crashed) if how == "crash" else reason == (Killed() if how == "kill" else how)
    if restarted:
        assert kit.fresh(sup, "a", old).is_alive()
    else:
        kit.until(lambda: not any(info.ref is old for info in sup.which_children()))
        kit.quiet()
        assert kit.happened("start") == ["a", "b"]
    assert kit.ref(sup, "b") is sibling
    return sup


def _living(sup: SupervisorRef, child_id: Any, dead: Any) -> Any:
    refs = [info.ref for info in sup.which_children() if info.id == child_id and info.ref is not None]
    return refs[0] if refs and refs[0] is not dead else None
