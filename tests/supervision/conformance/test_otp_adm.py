"""OTP-23 to OTP-28 and what else one may ask of a supervisor: administration, and every refusal of it."""

from __future__ import annotations

import gc
import logging
import weakref
from itertools import product
from typing import Any

import pytest

from supervision import (
    BRUTAL_KILL,
    IGNORE,
    INFINITY,
    AlreadyPresent,
    AlreadyStarted,
    AutoShutdown,
    BadCombination,
    ByRefOnly,
    ChildSpec,
    Counts,
    NoProc,
    Normal,
    NotFound,
    Restart,
    Restarting,
    Running,
    Shutdown,
    StartError,
    Strategy,
)
from supervision.spec import tree
from supervision.spec_errors import DuplicateId
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row


@row("OTP-23")
def test_OTP_23_a_child_is_started_terminated_restarted_and_deleted_with_every_refusal(kit: Kit) -> None:
    sup = kit.sup()
    ref = sup.start_child(kit.spec("a"))
    with pytest.raises(AlreadyStarted) as caught:
        sup.start_child(kit.spec("a"))
    assert caught.value.ref is ref
    for name in ("restart_child", "delete_child"):
        with pytest.raises(Running):
            getattr(sup, name)("a")
    assert sup.terminate_child("a") is None
    assert sup.terminate_child("a") is None
    assert ref.exit_reason == Shutdown()
    with pytest.raises(AlreadyPresent):
        sup.start_child(kit.spec("a"))
    assert sup.restart_child("a") is not ref
    sup.terminate_child("a")
    assert sup.delete_child("a") is None
    for name in ("restart_child", "delete_child", "terminate_child"):
        with pytest.raises(NotFound):
            getattr(sup, name)("a")
    assert sup.start_child(kit.spec("a")).is_alive()
    assert sup.stop()
    calls: list[Any] = [
        lambda: sup.start_child(kit.spec("b")),
        lambda: sup.restart_child("a"),
        lambda: sup.delete_child("a"),
        lambda: sup.terminate_child("a"),
        sup.which_children,
        sup.count_children,
    ]
    for call in calls:
        with pytest.raises(NoProc):
            call()


@row("OTP-24")
def test_OTP_24_a_dynamic_supervisor_addresses_children_by_ref_only(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a"))
    for name in ("restart_child", "delete_child", "terminate_child"):
        with pytest.raises(ByRefOnly):
            getattr(sup, name)("a")
    assert sup.terminate_child(ref) is None
    assert sup.terminate_child(ref) is None, "a dead former child is fine"
    with pytest.raises(NotFound):
        sup.terminate_child(kit.spawn())


@row("OTP-25")
def test_OTP_25_what_a_start_gives_is_passed_through(kit: Kit) -> None:
    kit.plans["a"].extend([("info", "first"), ("info", "second"), ("info", "third")])
    sup = kit.sup()
    ref = sup.start_child(kit.spec("a"))
    assert ref.info == "first"
    sup.terminate_child("a")
    ref = sup.restart_child("a")
    assert ref.info == "second"
    kit.crash(ref)
    assert kit.fresh(sup, "a", ref).info == "third"


@row("OTP-26")
def test_OTP_26_fields_are_validated_and_ids_are_unique(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"))
    wrong: list[dict[str, Any]] = [{"restart": "sometimes"}, {"shutdown": -1}, {"args": 7}, {"name": 7}]
    for fields in wrong:
        with pytest.raises(ValueError):
            ChildSpec(**{"id": "b", "actor_class": kit.probe(), **fields})
    with pytest.raises(DuplicateId):
        kit.sup([kit.spec("a"), kit.spec("a")])
    assert sup.count_children() == Counts(1, 1, 0, 1)
    kit.quiet()
    assert kit.happened("start") == ["a"]


@row("OTP-27")
def test_OTP_27_the_cross_product_of_fields_is_accepted_or_a_bad_combination(kit: Kit) -> None:
    accepted = 0
    for restart, significant, mode, shutdown in product(
        Restart, (False, True), AutoShutdown, (0, 5.0, INFINITY, BRUTAL_KILL)
    ):
        bad = significant and (restart is Restart.PERMANENT or mode is AutoShutdown.NEVER)
        fields: dict[str, Any] = {"restart": restart, "significant": significant, "shutdown": shutdown}
        if bad:
            with pytest.raises(BadCombination):
                tree([kit.spec("a", **fields)], strategy=Strategy.ONE_FOR_ONE, auto_shutdown=mode)
        else:
            tree([kit.spec("a", **fields)], strategy=Strategy.ONE_FOR_ONE, auto_shutdown=mode)
            accepted += 1
    assert accepted == 3 * 2 * 3 * 4 - (1 * 3 + 2 * 1) * 4
    sup = kit.sup()
    with pytest.raises(BadCombination):
        sup.start_child(kit.spec("a", restart=Restart.TRANSIENT, significant=True))
    assert sup.which_children() == ()


@row("OTP-28")
def test_OTP_28_wrong_flags_are_refused_one_by_one(kit: Kit) -> None:
    wrong: list[dict[str, Any]] = [
        {"strategy": "none_for_all"},
        {"intensity": -1},
        {"intensity": INFINITY},
        {"period": 0},
        {"period": -1},
        {"period": INFINITY},
        {"auto_shutdown": "sometimes"},
    ]
    for flags in wrong:
        with pytest.raises(ValueError, match=next(iter(flags))):
            kit.sup([], **flags)
    with pytest.raises((ValueError, TypeError)):
        kit.sup([], kind="worker")
    kit.quiet()
    assert not kit.rt.lives


@row("OTP-44")
def test_OTP_44_a_restart_is_logged_at_info_and_a_start_by_request_at_debug(
    kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="supervision")
    sup = kit.sup()
    ref = sup.start_child(kit.spec("a"))
    kit.crash(ref)
    kit.fresh(sup, "a", ref)
    lines = [(record.levelno, record.getMessage()) for record in caplog.records if "started" in record.getMessage()]
    assert [level for level, text in lines if "restarted" in text] == [logging.INFO]
    assert [level for level, text in lines if "restarted" not in text] == [logging.DEBUG]


@row("OTP-71")
def test_OTP_71_many_temporary_children_are_counted_and_listed_alike(kit: Kit) -> None:
    many = 200 if kit.name == "threads" else 2000
    sup = kit.sup()
    pending = [sup.start_child(kit.spec(number, restart=Restart.TEMPORARY), block=False) for number in range(many)]
    for reply in pending:
        kit.get(reply)
    assert sup.count_children() == Counts(many, many, 0, many)
    assert [info.id for info in sup.which_children()] == list(reversed(range(many)))


@row("OTP-72")
def test_OTP_72_many_supervisors_as_children_are_counted_alike(kit: Kit) -> None:
    many = 200
    sup = kit.sup()
    pending = [
        sup.start_child(ChildSpec.dynamic(number, restart=Restart.TEMPORARY), block=False) for number in range(many)
    ]
    for reply in pending:
        kit.get(reply)
    assert sup.count_children() == Counts(many, many, many, 0)
    assert len(sup.which_children()) == many


@row("OTP-73")
@pytest.mark.only("sim")
def test_OTP_73_children_that_restart_count_as_workers_and_not_as_active(kit: Kit) -> None:
    sup = kit.dyn(intensity=10)
    refs = [sup.start_child(kit.spec(number)) for number in range(3)]
    kit.plans[1].append(Boom("not yet"))
    found = kit.between(1, lambda: (sup.count_children(), [info.state for info in sup.which_children()]))
    kit.crash(refs[1])
    (counts, states), _ = kit.until(lambda: found)[0]
    assert counts == Counts(specs=3, active=2, supervisors=0, workers=3)
    assert states == ["running", "restarting", "running"]
    kit.until(lambda: sup.count_children() == Counts(3, 3, 0, 3))


@row("OTP-39")
@row("OTP-75")
@pytest.mark.parametrize("kind", ["dynamic", *Strategy])
def test_OTP_39_and_75_the_arguments_of_a_temporary_child_are_not_kept(kit: Kit, kind: str) -> None:
    sup = kit.dyn() if kind == "dynamic" else kit.sup([], Strategy(kind))

    class Big:
        pass

    for turn in range(2):
        big = Big()
        gone = weakref.ref(big)
        kit.plans["a"].append(lambda probe: probe.args.clear())
        ref = sup.start_child(kit.spec("a", big, restart=Restart.TEMPORARY))
        del big
        kit.born.clear()
        assert kit.until(lambda: gc.collect() >= 0 and gone() is None, "the end of the argument")  # noqa: B023
        if turn == 0:
            kit.crash(ref)
            kit.until(lambda: not sup.which_children())


@row("OTP-76")
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("how", ["crash", "kill", "normal", "terminate"])
def test_OTP_76_only_temporary_children_lose_their_spec(kit: Kit, strategy: Strategy, how: str) -> None:
    kinds = {"p": Restart.PERMANENT, "tr": Restart.TRANSIENT, "te": Restart.TEMPORARY}
    for child_id, restart in kinds.items():
        sup = kit.sup([kit.spec(child_id, restart=restart)], strategy)
        ref = kit.ref(sup, child_id)
        if how == "terminate":
            sup.terminate_child(child_id)
        else:
            kit.end(ref, Normal() if how == "normal" else how)
        again = restart is Restart.PERMANENT or (restart is Restart.TRANSIENT and how in ("crash", "kill"))
        if how != "terminate" and again:
            kit.fresh(sup, child_id, ref)
            with pytest.raises(AlreadyStarted):
                sup.start_child(kit.spec(child_id))
        elif restart is Restart.TEMPORARY:
            kit.until(lambda: not sup.which_children())  # noqa: B023
            with pytest.raises(NotFound):
                sup.restart_child(child_id)
            assert sup.start_child(kit.spec(child_id)).is_alive()
        else:
            kit.until(lambda: kit.state(sup, child_id) == "down")  # noqa: B023
            with pytest.raises(AlreadyPresent):
                sup.start_child(kit.spec(child_id))
            assert sup.restart_child(child_id).is_alive()
        sup.stop()


@row("OTP-80")
def test_OTP_80_in_the_failed_restart_loop_everything_is_served(kit: Kit) -> None:
    sup = kit.sup(kit.specs("ab"), intensity=5)
    kit.plans["a"].append(Boom("not yet"))

    def ask() -> Any:
        return [
            sup.start_child(kit.spec("a"), block=False),
            sup.restart_child("a", block=False),
            sup.delete_child("a", block=False),
            sup.terminate_child("a", block=False),
        ]

    found = kit.between("a", lambda: kit.state(sup, "a"), ask)
    kit.crash(kit.ref(sup, "a"))
    state, replies = kit.until(lambda: found)[0]
    assert state == "restarting"
    for reply, error in zip(replies[:3], (AlreadyPresent, Restarting, Restarting), strict=True):
        with pytest.raises(error):
            kit.get(reply)
    assert kit.get(replies[3]) is None
    assert kit.state(sup, "a") == "down"
    assert sup.restart_child("a").is_alive()
    kit.plans["a"].append(Boom("not yet"))
    stopping = kit.between("a", ask=lambda: sup.stop(block=False))
    kit.crash(kit.ref(sup, "a"))
    assert kit.get(kit.until(lambda: stopping)[0][1])
    assert sup.exit_reason == Shutdown()


@row("OTP-81")
def test_OTP_81_the_same_under_rest_for_one_later_siblings_stay_down_and_earlier_ones_up(kit: Kit) -> None:
    sup = kit.sup(kit.specs("abc"), Strategy.REST_FOR_ONE, intensity=5)
    first = kit.ref(sup, "a")
    kit.plans["b"].append(Boom("not yet"))

    def look() -> Any:
        return [kit.state(sup, child_id) for child_id in "abc"]

    def ask() -> Any:
        return sup.start_child(kit.spec("c"), block=False), sup.terminate_child("b", block=False)

    found = kit.between("b", look, ask)
    kit.crash(kit.ref(sup, "b"))
    states, (started, terminated) = kit.until(lambda: found)[0]
    assert states == ["running", "restarting", "down"]
    with pytest.raises(AlreadyPresent):
        kit.get(started)
    assert kit.get(terminated) is None
    kit.quiet()
    assert [kit.state(sup, child_id) for child_id in "abc"] == ["running", "down", "down"]
    assert kit.ref(sup, "a") is first
    for child_id in "bc":
        assert sup.restart_child(child_id).is_alive()


@row("OTP-82")
def test_OTP_82_the_same_under_a_dynamic_supervisor(kit: Kit) -> None:
    sup = kit.dyn(intensity=5)
    refs = {name: sup.start_child(kit.spec(name)) for name in "ab"}
    kit.plans["a"].append(Boom("not yet"))
    found = kit.between("a", sup.which_children, lambda: sup.start_child(kit.spec("c"), block=False))
    kit.crash(refs["a"])
    children, started = kit.until(lambda: found)[0]
    assert [(info.id, info.state) for info in children] == [("b", "running"), ("a", "restarting")]
    assert kit.get(started).is_alive()
    kit.until(lambda: sup.count_children().active == 3)
    kit.plans["a"].append(Boom("not yet"))
    stopping = kit.between("a", ask=lambda: sup.stop(block=False))
    kit.crash(next(info.ref for info in sup.which_children() if info.id == "a"))
    assert kit.get(kit.until(lambda: stopping)[0][1])


@row("OTP-92")
def test_OTP_92_the_list_and_the_single_lookup_agree_through_a_life(kit: Kit) -> None:
    sup = kit.sup(kit.specs("abc"))

    def agree() -> None:
        assert [sup.which_child(info.id) for info in sup.which_children()] == list(sup.which_children())

    agree()
    sup.terminate_child("b")
    agree()
    assert kit.state(sup, "b") == "down"
    sup.delete_child("b")
    agree()
    with pytest.raises(NotFound):
        sup.which_child("b")
    assert [info.id for info in sup.which_children()] == ["c", "a"], "newest first"


@row("OTP-93")
def test_OTP_93_dynamic_children_are_looked_up_by_ref_and_nothing_else(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a"))
    assert sup.which_child(ref) == sup.which_children()[0]
    with pytest.raises(ByRefOnly):
        sup.which_child("a")
    with pytest.raises(NotFound):
        sup.which_child(kit.spawn())


@row("SUP-16")
def test_SUP_16_a_child_from_birth_to_oblivion(kit: Kit) -> None:
    sup = kit.sup()
    ref = sup.start_child(kit.spec("a"))
    assert sup.count_children() == Counts(1, 1, 0, 1)
    with pytest.raises(Running):
        sup.restart_child("a")
    sup.terminate_child("a")
    assert not ref.is_alive()
    assert sup.count_children() == Counts(1, 0, 0, 1)
    again = sup.restart_child("a")
    assert kit.ask(again, "ping") == "pong"
    with pytest.raises(Running):
        sup.delete_child("a")
    sup.terminate_child("a")
    sup.delete_child("a")
    assert sup.count_children() == Counts(0, 0, 0, 0)


@row("DYN-10")
def test_DYN_10_a_lowered_limit_keeps_those_who_run_and_refuses_new_ones(kit: Kit) -> None:
    from supervision import MaxChildren

    sup = kit.dyn()
    refs = [sup.start_child(kit.spec(number)) for number in range(3)]
    sup.set_max_children(1)
    with pytest.raises(MaxChildren):
        sup.start_child(kit.spec("more"))
    assert sup.count_children().active == 3
    for ref in refs:
        sup.terminate_child(ref)
    assert sup.start_child(kit.spec("more")).is_alive()
    with pytest.raises(ValueError, match="max_children"):
        sup.set_max_children(-1)


@row("DYN-16")
@row("TSK-09")
def test_DYN_16_and_TSK_09_every_outcome_of_a_start_has_its_answer(kit: Kit) -> None:
    sup = kit.dyn()
    kit.plans["info"].append(("info", 7))
    kit.plans["ignore"].append("ignore")
    kit.plans["error"].append(Boom("no"))
    kit.plans["junk"].append(object())
    assert sup.start_child(kit.spec("ok", restart=Restart.TEMPORARY)).is_alive()
    assert sup.start_child(kit.spec("info")).info == 7
    assert sup.start_child(kit.spec("ignore")) is IGNORE
    for name in ("error", "junk"):
        with pytest.raises(StartError):
            sup.start_child(kit.spec(name))
    assert sup.count_children() == Counts(2, 2, 0, 2)
