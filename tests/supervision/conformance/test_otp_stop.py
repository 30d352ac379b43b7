"""OTP-16 to OTP-22, OTP-55 and DYN-29 to DYN-41: how children are stopped, and what those get who do not listen."""

from __future__ import annotations

from typing import Any

import pytest

from supervision import (
    BRUTAL_KILL,
    INFINITY,
    ActorAbandoned,
    ChildSpec,
    Counts,
    Crashed,
    Killed,
    NoProc,
    Normal,
    NotFound,
    Restart,
    Shutdown,
    Strategy,
)
from supervision.events import Happening
from supervision.spec_errors import BadShutdown
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row


def hang(kit: Kit, ref: Any, child_id: Any) -> None:
    ref.tell("hang")
    kit.until(lambda: ("hangs in turn", child_id) in kit.log, "the hang")


@row("OTP-16")
def test_OTP_16_infinity_is_legal_for_workers_and_supervisors_and_both_get_shutdown(kit: Kit) -> None:
    nested = ChildSpec.supervisor("nest", [kit.spec("b")], strategy=Strategy.ONE_FOR_ONE, shutdown=INFINITY)
    sup = kit.sup([kit.spec("a", shutdown=INFINITY), nested])
    worker, nest = kit.ref(sup, "a"), kit.ref(sup, "nest")
    assert sup.stop()
    assert (worker.exit_reason, nest.exit_reason) == (Shutdown(), Shutdown())
    assert kit.happened("stop") == ["b", "a"]


@row("OTP-17")
def test_OTP_17_a_child_that_sleeps_past_its_budget_is_abandoned_and_its_sibling_is_not(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a"), kit.spec("b", hangs=True, shutdown=1.0)])
    a, b = kit.ref(sup, "a"), kit.ref(sup, "b")
    hang(kit, b, "b")
    done = sup.stop(block=False)
    kit.until(lambda: kit.state(sup, "b") == "stopping")
    kit.advance(0.9)
    kit.quiet()
    assert not done.settled
    kit.advance(0.2)
    assert kit.get(done)
    assert (a.exit_reason, b.exit_reason, sup.exit_reason) == (Shutdown(), Killed(), Shutdown())
    if kit.name == "threads":
        assert any(isinstance(event, ActorAbandoned) for event in kit.witness.seen)
        assert kit.rt.abandoned_count == 1


@row("OTP-18")
def test_OTP_18_dynamic_children_share_one_deadline(kit: Kit) -> None:
    sup = kit.dyn()
    hung = [sup.start_child(kit.spec(number, hangs=True, shutdown=1.0)) for number in range(3)]
    good = sup.start_child(kit.spec("good"))
    for number, ref in enumerate(hung):
        hang(kit, ref, number)
    done = sup.stop(block=False)
    kit.until(lambda: all(info.state == "stopping" for info in sup.which_children()))
    kit.advance(1.0)
    assert kit.get(done)
    assert [ref.exit_reason for ref in hung] == [Killed()] * 3
    assert good.exit_reason == Shutdown()


@row("OTP-19")
def test_OTP_19_a_brutally_killed_child_gets_no_grace(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", shutdown=BRUTAL_KILL)])
    ref = kit.ref(sup, "a")
    sup.terminate_child("a")
    assert ref.exit_reason == Killed()
    assert kit.happened("stop") == []


@row("OTP-20")
def test_OTP_20_ten_dynamic_children_are_killed_in_one_pass(kit: Kit) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number, hangs=True, shutdown=BRUTAL_KILL)) for number in range(10)]
    for number, ref in enumerate(refs):
        hang(kit, ref, number)
    assert sup.stop()
    assert [ref.exit_reason for ref in refs] == [Killed()] * 10


@row("OTP-21")
@pytest.mark.parametrize("restart", list(Restart))
def test_OTP_21_children_that_end_by_themselves_during_the_stop_are_not_restarted(kit: Kit, restart: Restart) -> None:
    ways: list[Any] = ["crash", "kill", Normal(), Shutdown("why")]
    sup = kit.sup([kit.spec(number, restart=restart) for number in range(4)] + [kit.spec("last", hangs=True)])
    refs = [kit.ref(sup, number) for number in range(4)]
    kit.endings["last"] = "hang"
    done = sup.stop(block=False)
    kit.until(lambda: ("hangs in stop", "last") in kit.log)
    for ref, way in zip(refs, ways, strict=True):
        kit.end(ref, way)
    kit.quiet()
    assert kit.happened("start") == [0, 1, 2, 3, "last"]
    kit.advance(5.0)
    assert kit.get(done)
    reasons = [ref.exit_reason for ref in refs]
    assert isinstance(reasons[0], Crashed)
    assert reasons[1:] == [Killed(), Normal(), Shutdown("why")]
    assert sup.exit_reason == Shutdown()
    assert kit.happened("start") == [0, 1, 2, 3, "last"], "nobody was restarted"


@row("OTP-22")
def test_OTP_22_dynamic_children_that_end_otherwise_do_not_derail_the_stop(kit: Kit) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number)) for number in range(3)]
    kit.endings[1] = Boom("in on_stop")
    assert sup.stop()
    assert sup.exit_reason == Shutdown()
    assert isinstance(refs[1].exit_reason, Crashed)
    assert [refs[0].exit_reason, refs[2].exit_reason] == [Shutdown(), Shutdown()]
    assert [report.child_id for report in kit.witness.reports(Happening.STOPPED)] == [1]


@row("OTP-55")
def test_OTP_55_a_child_that_ignores_its_stop_cannot_hang_the_supervisor(kit: Kit) -> None:
    sup = kit.sup([kit.spec("deaf", hangs=True, shutdown=2.0), kit.spec("b")])
    hang(kit, kit.ref(sup, "deaf"), "deaf")
    done = sup.terminate_child("deaf", block=False)
    kit.until(lambda: kit.state(sup, "deaf") == "stopping")
    old = kit.ref(sup, "b")
    kit.crash(old)
    kit.fresh(sup, "b", old)
    assert sup.start_child(kit.spec("c")).is_alive(), "served in between"
    kit.advance(2.0)
    assert kit.get(done) is None
    assert kit.state(sup, "deaf") == "down"


@row("DYN-29")
def test_DYN_29_zero_and_positive_budgets_are_accepted_and_zero_does_not_wait(kit: Kit) -> None:
    sup = kit.dyn()
    kind, hung = (
        sup.start_child(kit.spec("kind", shutdown=0)),
        sup.start_child(kit.spec("hung", hangs=True, shutdown=0)),
    )
    later = sup.start_child(kit.spec("later", shutdown=1))
    hang(kit, hung, "hung")
    assert sup.stop()
    assert hung.exit_reason == Killed()
    assert kind.exit_reason in (Shutdown(), Killed())
    assert later.exit_reason == Shutdown()


@row("DYN-30")
def test_DYN_30_a_negative_budget_is_refused(kit: Kit) -> None:
    sup = kit.dyn()
    with pytest.raises(BadShutdown):
        sup.start_child(kit.spec("a", shutdown=-1))
    assert sup.count_children() == Counts(0, 0, 0, 0)


@row("DYN-31")
def test_DYN_31_a_dynamic_supervisor_kills_brutally_all_at_once(kit: Kit) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number, shutdown=BRUTAL_KILL)) for number in range(3)]
    assert sup.stop()
    assert [ref.exit_reason for ref in refs] == [Killed()] * 3


@row("DYN-32")
def test_DYN_32_with_infinity_all_get_shutdown(kit: Kit) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number, shutdown=INFINITY)) for number in range(3)]
    assert sup.stop()
    assert [ref.exit_reason for ref in refs] == [Shutdown()] * 3


@row("DYN-33")
@row("DYN-35")
@pytest.mark.parametrize("budget", [INFINITY, 5.0])
def test_DYN_33_and_35_children_that_end_with_another_reason_keep_it(kit: Kit, budget: float) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number, shutdown=budget)) for number in range(3)]
    kit.endings[1] = Shutdown("my own")
    kit.endings[2] = Crashed(Boom("so there"))
    assert sup.stop()
    assert refs[0].exit_reason == Shutdown()
    assert refs[1].exit_reason == Shutdown("my own")
    assert isinstance(refs[2].exit_reason, Crashed)


@row("DYN-34")
def test_DYN_34_within_an_integer_budget_all_get_shutdown(kit: Kit) -> None:
    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number, shutdown=5)) for number in range(3)]
    assert sup.stop()
    assert [ref.exit_reason for ref in refs] == [Shutdown()] * 3


@row("DYN-36")
def test_DYN_36_when_the_budget_expires_only_the_hung_are_abandoned(kit: Kit) -> None:
    sup = kit.dyn()
    good, hung = sup.start_child(kit.spec("good")), sup.start_child(kit.spec("hung", hangs=True, shutdown=0.5))
    hang(kit, hung, "hung")
    done = sup.stop(block=False)
    kit.until(lambda: good.exit_reason == Shutdown())
    assert not done.settled
    kit.advance(0.5)
    assert kit.get(done)
    assert hung.exit_reason == Killed()


@row("DYN-37")
def test_DYN_37_a_permanent_child_that_ends_normally_during_the_stop_is_reported_and_not_restarted(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a"))
    kit.endings["a"] = Normal()
    assert sup.stop()
    assert ref.exit_reason == Normal()
    assert kit.happened("start") == ["a"]
    assert [(one.child_id, one.reason) for one in kit.witness.reports(Happening.STOPPED)] == [("a", Normal())]


@row("DYN-38")
def test_DYN_38_each_child_is_stopped_by_its_own_kind_of_budget(kit: Kit) -> None:
    sup = kit.dyn()
    kinds = {"infinity": INFINITY, "seconds": 5.0, "kill": BRUTAL_KILL, "short": 1.0}
    refs = {name: sup.start_child(kit.spec(name, hangs=name == "short", shutdown=kinds[name])) for name in kinds}
    hang(kit, refs["short"], "short")
    done = sup.stop(block=False)
    kit.until(lambda: all(refs[name].exit_reason for name in ("infinity", "seconds", "kill")))
    kit.advance(1.0)
    assert kit.get(done)
    wanted = {"infinity": Shutdown(), "seconds": Shutdown(), "kill": Killed(), "short": Killed()}
    assert {name: ref.exit_reason for name, ref in refs.items()} == wanted


@row("DYN-39")
def test_DYN_39_a_brutally_terminated_child_is_gone_and_once_more_is_fine(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a", shutdown=BRUTAL_KILL))
    sup.terminate_child(ref)
    assert ref.exit_reason == Killed()
    assert sup.which_children() == ()
    assert sup.terminate_child(ref) is None, "Erlang's answer, not Elixir's"


@row("DYN-40")
def test_DYN_40_a_terminated_child_is_gone(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a", shutdown=1))
    sup.terminate_child(ref)
    assert ref.exit_reason == Shutdown()
    assert sup.which_children() == ()


@row("DYN-41")
def test_DYN_41_a_child_whose_restart_failed_can_be_removed(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a"))
    kit.plans["a"].append(Boom("no"))
    found = kit.between("a", sup.which_children, lambda: sup.terminate_child(ref, block=False))
    kit.crash(ref)
    (children, reply), *_ = kit.until(lambda: found)
    assert [info.state for info in children] == ["restarting"]
    assert kit.get(reply) is None, "the dead ref of a child is fine"
    kit.quiet()
    assert sup.is_alive()


@row("OTP-36")
def test_OTP_36_dynamic_children_are_stopped_together_within_one_budget(kit: Kit) -> None:
    sup = kit.dyn()
    for number, budget in enumerate((1.0, 2.0, 3.0)):
        hang(kit, sup.start_child(kit.spec(number, hangs=True, shutdown=budget)), number)
    begun = kit.now()
    done = sup.stop(block=False)
    kit.until(lambda: all(info.state == "stopping" for info in sup.which_children()))
    for _ in range(3):
        assert not done.settled
        kit.advance(1.0)
        kit.quiet()
    assert kit.get(done)
    assert kit.now() - begun == 3.0, "the longest budget, not the sum"


@row("TSK-12")
def test_TSK_12_a_terminated_job_is_gone_and_a_stranger_is_not_found(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("job", restart=Restart.TEMPORARY))
    sup.terminate_child(ref)
    assert sup.count_children() == Counts(0, 0, 0, 0)
    with pytest.raises(NotFound):
        sup.terminate_child(kit.spawn("stranger"))
    with pytest.raises(NoProc):
        ref.tell("late")
