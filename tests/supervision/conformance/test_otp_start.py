"""OTP-01 to OTP-15: how a supervisor and its children start, and what is left when they do not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from supervision import (
    IGNORE,
    INFINITY,
    AlreadyStarted,
    BadReturn,
    BadSpec,
    ChildSpec,
    Counts,
    NoProc,
    NotFound,
    Restart,
    Shutdown,
    StartError,
    Strategy,
    Supervisor,
    TreeSpec,
)
from supervision.spec import dynamic_tree
from supervision.spec_errors import BadClass, BadId
from tests.supervision.conformance.kit import Boom, Kit

row = pytest.mark.row


class Ignoring(Supervisor):
    @classmethod
    def init(cls) -> Any:
        return IGNORE


class Wrong(Supervisor):
    @classmethod
    def init(cls) -> Any:
        return {"strategy": "one_for_one"}


class Raising(Supervisor):
    @classmethod
    def init(cls) -> Any:
        raise Boom("no config")


@row("OTP-01")
def test_OTP_01_a_supervisor_without_children_starts_and_ends_with_shutdown(kit: Kit) -> None:
    sup = kit.sup()
    assert sup.is_alive()
    assert sup.which_children() == ()
    assert sup.stop()
    assert sup.exit_reason == Shutdown()


@row("OTP-02")
def test_OTP_02_a_supervisor_whose_init_says_ignore_is_no_error(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    result: Any = Ignoring.start(kit.rt)
    assert result is IGNORE
    kit.quiet()
    assert not kit.rt.lives
    assert not caplog.records


@row("OTP-03")
def test_OTP_03_a_permanent_child_that_ignores_keeps_its_spec(kit: Kit) -> None:
    kit.plans["b"].append("ignore")
    sup = kit.sup(kit.specs("ab"))
    assert [(info.id, info.ref is None) for info in sup.which_children()] == [("b", True), ("a", False)]
    assert sup.count_children() == Counts(specs=2, active=1, supervisors=0, workers=2)


@row("OTP-04")
def test_OTP_04_a_temporary_child_that_ignores_leaves_no_spec(kit: Kit) -> None:
    kit.plans["b"].append("ignore")
    sup = kit.sup([kit.spec("a"), kit.spec("b", restart=Restart.TEMPORARY)])
    assert [info.id for info in sup.which_children()] == ["a"]
    assert sup.count_children() == Counts(1, 1, 0, 1)


@row("OTP-05")
def test_OTP_05_the_same_through_start_child(kit: Kit) -> None:
    kit.plans["b"].append("ignore")
    sup = kit.sup(kit.specs("a"))
    assert sup.start_child(kit.spec("b", restart=Restart.TEMPORARY)) is IGNORE
    assert [info.id for info in sup.which_children()] == ["a"]


@row("OTP-06")
def test_OTP_06_the_same_under_a_dynamic_supervisor(kit: Kit) -> None:
    kit.plans["a"].append("ignore")
    sup = kit.dyn()
    assert sup.start_child(kit.spec("a", restart=Restart.TEMPORARY)) is IGNORE
    assert sup.which_children() == ()


@row("OTP-07")
def test_OTP_07_a_dynamic_supervisor_drops_a_permanent_child_that_ignores_and_stops_cleanly(kit: Kit) -> None:
    kit.plans["a"].append("ignore")
    sup = kit.dyn()
    assert sup.start_child(kit.spec("a")) is IGNORE
    assert sup.count_children() == Counts(0, 0, 0, 0)
    sup.start_child(kit.spec("b"))
    assert sup.stop()
    assert sup.exit_reason == Shutdown()


@row("OTP-08")
def test_OTP_08_an_init_that_returns_nonsense_is_a_named_error(kit: Kit) -> None:
    with pytest.raises(BadReturn, match=r"Wrong\.init returned a dict"):
        Wrong.start(kit.rt)
    kit.quiet()
    assert not kit.rt.lives


@row("OTP-09")
def test_OTP_09_an_init_that_raises_is_raised_in_the_caller_as_the_cause(kit: Kit) -> None:
    with pytest.raises((StartError, Boom)) as caught:
        Raising.start(kit.rt)
    assert isinstance(caught.value.__cause__ or caught.value, Boom)
    assert isinstance(caught.value, StartError)
    kit.quiet()
    assert not kit.rt.lives


@row("OTP-10")
@pytest.mark.parametrize("how", ["raises", "junk", "constructor"])
def test_OTP_10_a_child_that_does_not_start_is_an_error_and_leaves_nothing(kit: Kit, how: str) -> None:
    sup = kit.sup(kit.specs("a"))
    if how == "raises":
        kit.plans["b"].append(Boom("no"))
    elif how == "junk":
        kit.plans["b"].append({"what": "is this"})
    else:
        kit.factories["b"] = _raise
    with pytest.raises(StartError) as caught:
        sup.start_child(kit.spec("b"))
    assert caught.value.__cause__ is not None
    assert [info.id for info in sup.which_children()] == ["a"]
    kit.factories.clear()
    assert sup.start_child(kit.spec("b")).is_alive()


@row("OTP-11")
def test_OTP_11_a_restart_child_that_fails_keeps_the_spec(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"))
    sup.terminate_child("a")
    kit.plans["a"].append(Boom("no"))
    with pytest.raises(StartError) as caught:
        sup.restart_child("a")
    assert isinstance(caught.value.__cause__, Boom)
    assert kit.ref(sup, "a") is None
    assert sup.count_children() == Counts(1, 0, 0, 1)
    assert sup.restart_child("a").is_alive()


@row("OTP-12")
def test_OTP_12_a_dynamic_child_that_does_not_start_passes_its_reason_through(kit: Kit) -> None:
    sup = kit.dyn()
    kit.plans["a"].append(Boom("the reason"))
    with pytest.raises(StartError) as caught:
        sup.start_child(kit.spec("a"))
    assert isinstance(caught.value.__cause__, Boom)
    assert str(caught.value.__cause__) == "the reason"
    assert sup.count_children() == Counts(0, 0, 0, 0)


@row("OTP-13")
def test_OTP_13_specs_have_the_documented_defaults(kit: Kit) -> None:
    nested = ChildSpec.supervisor("nest", [], strategy=Strategy.ONE_FOR_ONE)
    sup = kit.sup([kit.spec("a"), nested])
    spec = sup.get_childspec("a")
    assert (spec.restart, spec.shutdown, spec.kind, spec.significant) == (Restart.PERMANENT, 5.0, "worker", False)
    assert (sup.get_childspec("nest").shutdown, sup.get_childspec("nest").kind) == (INFINITY, "supervisor")
    assert sup.get_childspec(kit.ref(sup, "a")) == spec
    with pytest.raises(NotFound):
        sup.get_childspec("nobody")


@row("OTP-14")
def test_OTP_14_the_spec_of_a_dynamic_child_is_found_by_ref(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a", restart=Restart.TRANSIENT))
    stranger = kit.spawn()
    assert sup.get_childspec(ref).restart is Restart.TRANSIENT
    with pytest.raises(NotFound):
        sup.get_childspec(stranger)


@row("OTP-15")
def test_OTP_15_faulty_specs_are_refused_by_name_and_unknown_fields_too(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"))
    probe = kit.probe()
    with pytest.raises(BadId):
        ChildSpec(None, probe)
    with pytest.raises(BadClass):
        ChildSpec("b", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ChildSpec("b", probe, modules=[])  # type: ignore[call-arg]
    with pytest.raises((BadSpec, TypeError)):
        sup.start_child({"id": "b"})
    assert [info.id for info in sup.which_children()] == ["a"]


@row("OTP-51")
def test_OTP_51_a_failure_deep_in_a_tree_reaches_the_starter_with_its_cause(kit: Kit) -> None:
    kit.plans["deep"].append(Boom("deep down"))
    inner = ChildSpec.supervisor("inner", [kit.spec("ok"), kit.spec("deep")], strategy=Strategy.ONE_FOR_ONE)
    outer = ChildSpec.supervisor("outer", [inner], strategy=Strategy.ONE_FOR_ONE)
    with pytest.raises(StartError) as caught:
        kit.sup([kit.spec("first"), outer])
    error: BaseException | None = caught.value
    chain = []
    while isinstance(error, StartError):
        chain.append(error.child)
        error = error.__cause__
    assert chain == ["outer", "inner", "deep"]
    assert isinstance(error, Boom)
    assert kit.happened("stop") == ["ok", "first"]
    kit.until(lambda: not kit.rt.lives)


@row("OTP-87")
def test_OTP_87_children_start_in_order_and_stop_in_exactly_the_reverse(kit: Kit) -> None:
    sup = kit.sup(kit.specs("abcd"), Strategy.REST_FOR_ONE)
    assert kit.happened("start") == ["a", "b", "c", "d"]
    old = kit.ref(sup, "b")
    kit.crash(old)
    kit.fresh(sup, "d", None)
    kit.until(lambda: kit.happened("start") == ["a", "b", "c", "d", "b", "c", "d"])
    assert kit.happened("stop") == ["b", "d", "c"], "b ran its own on_stop when it crashed"
    kit.until(lambda: kit.state(sup, "d") == "running")
    kit.log.clear()
    sup.stop()
    assert kit.happened("stop") == ["d", "c", "b", "a"]


@row("OTP-91")
def test_OTP_91_a_taken_name_is_answered_with_its_owner(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", name="the-name")])
    other = kit.sup()
    with pytest.raises(AlreadyStarted) as caught:
        other.start_child(kit.spec("b", name="the-name"))
    assert getattr(caught.value, "ref", None) is kit.ref(sup, "a")
    assert other.which_children() == ()


@row("DYN-01")
def test_DYN_01_a_dynamic_supervisor_is_itself_a_valid_child(kit: Kit) -> None:
    sup = kit.sup([ChildSpec.dynamic("pool", max_children=2)])
    pool = kit.ref(sup, "pool")
    pool.start_child(kit.spec("a"))
    assert pool.count_children() == Counts(1, 1, 0, 1)
    assert sup.count_children() == Counts(1, 1, 1, 0)


@row("DYN-02")
def test_DYN_02_several_dynamic_supervisors_live_under_one_parent_by_name(kit: Kit) -> None:
    sup = kit.sup()
    one = sup.start_child(Pool.child_spec(name="one"))
    two = sup.start_child(Pool.child_spec(name="two"))
    assert one is not two
    assert {info.id for info in sup.which_children()} == {"one", "two"}
    sup.start_child(Pool.child_spec())
    with pytest.raises(AlreadyStarted):
        sup.start_child(Pool.child_spec())
    assert kit.rt.registry.whereis("two") is two


@row("DYN-03")
def test_DYN_03_a_class_offers_its_own_spec_and_fields_override_it(kit: Kit) -> None:
    class Brief(Pool):
        child_defaults: ClassVar[dict[str, Any]] = {"restart": Restart.TEMPORARY, "shutdown": 1.0}

    assert (Brief.child_spec().restart, Brief.child_spec().shutdown) == (Restart.TEMPORARY, 1.0)
    spec = Brief.child_spec(id="other", restart=Restart.TRANSIENT)
    sup = kit.sup([spec])
    assert sup.get_childspec("other").restart is Restart.TRANSIENT


@row("DYN-04")
def test_DYN_04_the_defaults_are_three_restarts_in_five_seconds_and_no_limit(kit: Kit) -> None:
    flags = dynamic_tree().flags
    assert (flags.strategy, flags.intensity, flags.period, flags.max_children) == (
        Strategy.ONE_FOR_ONE,
        3,
        5.0,
        INFINITY,
    )
    sup = kit.dyn()
    for number in range(20):
        sup.start_child(kit.spec(number))
    assert sup.count_children().active == 20


@row("DYN-05")
def test_DYN_05_every_wrong_flag_is_refused_and_a_bad_init_is_named(kit: Kit) -> None:
    for flags in ({"max_children": -1}, {"intensity": -1}, {"period": 0}, {"extra_args": 7}):
        with pytest.raises(ValueError):
            kit.dyn(**flags)
    with pytest.raises((BadSpec, TypeError)):
        kit.dyn(auto_shutdown="any_significant")
    with pytest.raises(BadReturn):
        WrongPool.start(kit.rt)
    result: Any = Ignoring.start(kit.rt)
    assert result is IGNORE
    kit.quiet()
    assert not kit.rt.lives


@row("DYN-06")
def test_DYN_06_a_named_dynamic_supervisor_is_registered_and_stops(kit: Kit) -> None:
    sup = kit.dyn(name="pool")
    assert kit.rt.registry.whereis("pool") is sup
    assert sup.stop()
    assert kit.rt.registry.whereis("pool") is None
    with pytest.raises(NoProc):
        sup.count_children()


class Pool(Supervisor):
    @classmethod
    def init(cls) -> TreeSpec:
        return dynamic_tree()


class WrongPool(Supervisor):
    @classmethod
    def init(cls) -> Any:
        return "nonsense"


def _raise() -> None:
    raise Boom("the factory failed")
