"""What remains of the DYN and SUP rows: specs, limits, extra arguments, names, supervisor classes."""

from __future__ import annotations

from typing import Any

import pytest

from supervision import (
    BadCombination,
    BadSpec,
    ChildSpec,
    Counts,
    MaxChildren,
    Restart,
    StartError,
    Strategy,
    Supervisor,
    TreeSpec,
    child_spec,
)
from tests.supervision.conformance.kit import Boom, Kit, ThreadProbe

row = pytest.mark.row


class Team(Supervisor):
    """A supervisor class whose children depend on an argument."""

    @classmethod
    def init(cls, kit: Kit, *names: str) -> TreeSpec:
        return Supervisor.tree([kit.spec(name) for name in names], strategy=Strategy.ONE_FOR_ONE)


@row("DYN-12")
def test_DYN_12_a_child_is_started_from_a_spec(kit: Kit) -> None:
    sup = kit.dyn()
    ref = sup.start_child(kit.spec("a", restart=Restart.TRANSIENT, shutdown=1.5))
    assert ref.is_alive()
    assert sup.get_childspec(ref).shutdown == 1.5


@row("DYN-13")
@row("SUP-13")
def test_DYN_13_and_SUP_13_a_child_is_started_from_its_class_and_arguments(kit: Kit) -> None:
    for sup in (kit.dyn(), kit.sup()):
        ref = sup.start_child((kit.probe(), ("a", kit)))
        assert kit.ask(ref, "ping") == "pong"
        other = sup.start_child(child_spec(kit.probe(), id="b", args=("b", kit)))
        assert kit.ask(other, "ping") == "pong"


@row("DYN-14")
def test_DYN_14_extra_arguments_stand_before_each_childs_own(kit: Kit) -> None:
    sup = kit.dyn(extra_args=("x", "y"))
    ref = sup.start_child(kit.spec("a", "own"))
    assert kit.ask(ref, ("do", lambda probe: probe.args)) == ["x", "y", "own"]


@row("DYN-15")
@row("SUP-14")
def test_DYN_15_and_SUP_14_an_invalid_spec_is_refused_in_the_callers_thread(kit: Kit) -> None:
    for sup in (kit.dyn(), kit.sup()):
        for wrong in (7, None, "probe", {"id": "a"}, int, (int, ())):
            with pytest.raises(TypeError):
                sup.start_child(wrong)
        for fields in ({"restart": "never"}, {"shutdown": -1}, {"name": ""}):
            with pytest.raises(BadSpec):
                sup.start_child(child_spec(kit.probe(), **fields))
        with pytest.raises(BadCombination):
            sup.start_child(kit.spec("a", restart=Restart.TEMPORARY, significant=True))
        assert sup.which_children() == ()
    assert not kit.log


@row("DYN-17")
@pytest.mark.parametrize("where", ["on_start", "constructor"])
@pytest.mark.parametrize("error", [ValueError("v"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_DYN_17_whatever_a_start_raises_is_a_start_error_and_the_supervisor_lives(
    kit: Kit, where: str, error: BaseException
) -> None:
    sup = kit.dyn()

    def fail() -> None:
        raise error

    if where == "on_start":
        kit.plans["a"].append(error)
    else:
        kit.factories["a"] = fail
    with pytest.raises(StartError) as caught:
        sup.start_child(kit.spec("a"))
    assert type(caught.value.__cause__) is type(error)
    kit.factories.clear()
    assert sup.start_child(kit.spec("b")).is_alive()


@row("DYN-18")
@row("TSK-06")
def test_DYN_18_and_TSK_06_a_full_supervisor_refuses_in_the_caller(kit: Kit) -> None:
    sup = kit.dyn(max_children=0)
    with pytest.raises(MaxChildren):
        sup.start_child(kit.spec("a"))
    assert sup.is_alive()
    assert not kit.log


@row("DYN-23")
def test_DYN_23_a_child_in_the_failed_restart_loop_occupies_its_slot(kit: Kit) -> None:
    sup = kit.dyn(max_children=1)
    kit.plans["a"].extend(["ok", Boom("not yet")])
    ref = sup.start_child(kit.spec("a"))
    found = kit.between("a", ask=lambda: sup.start_child(kit.spec("b"), block=False))
    kit.crash(ref)
    with pytest.raises(MaxChildren):
        kit.get(kit.until(lambda: found)[0][1])


@row("DYN-24")
def test_DYN_24_a_restarted_child_occupies_its_slot(kit: Kit) -> None:
    sup = kit.dyn(max_children=1)
    kit.crash(sup.start_child(kit.spec("a")))
    kit.until(lambda: kit.happened("start") == ["a", "a"] and sup.count_children().active == 1)
    with pytest.raises(MaxChildren):
        sup.start_child(kit.spec("b"))


@row("DYN-25")
def test_DYN_25_extra_arguments_are_applied_again_on_restart(kit: Kit) -> None:
    sup = kit.dyn(extra_args=("x",))
    kit.crash(sup.start_child(kit.spec("a", "own"), timeout=None))
    kit.until(lambda: kit.happened("start") == ["a", "a"] and sup.count_children().active == 1)
    ref = sup.which_children()[0].ref
    assert kit.ask(ref, ("do", lambda probe: probe.args)) == ["x", "own"]


@row("SUP-01")
def test_SUP_01_a_supervisor_class_has_a_default_spec(kit: Kit) -> None:
    spec = Team.child_spec(args=(kit, "a"))
    assert (spec.id, spec.kind, spec.restart) == ("Team", "supervisor", Restart.PERMANENT)
    sup = kit.sup([spec])
    assert kit.ref(sup, "Team").count_children() == Counts(1, 1, 0, 1)


@row("SUP-02")
def test_SUP_02_classes_and_specs_are_normalised_and_strangers_named(kit: Kit) -> None:
    assert child_spec(ThreadProbe).id == "ThreadProbe"
    assert child_spec((ThreadProbe, (1,)), id="b").args == (1,)
    assert child_spec(kit.spec("a"), restart=Restart.TEMPORARY).restart is Restart.TEMPORARY
    with pytest.raises(TypeError, match="<class 'int'> is not a child"):
        child_spec(int)
    assert child_spec(Team).kind == "supervisor"


@row("SUP-03")
def test_SUP_03_a_tree_is_flags_and_children_and_needs_a_strategy(kit: Kit) -> None:
    spec = Supervisor.tree(kit.specs("ab"), strategy=Strategy.REST_FOR_ONE, intensity=7)
    assert (spec.flags.strategy, spec.flags.intensity, len(spec.children)) == (Strategy.REST_FOR_ONE, 7, 2)
    with pytest.raises(TypeError, match="strategy"):
        Supervisor.tree([])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="strategy"):
        Supervisor.start(kit.rt, [])


@row("SUP-05")
@row("SUP-07")
def test_SUP_05_and_07_a_supervisor_may_have_a_name(kit: Kit) -> None:
    sup = kit.sup(kit.specs("a"), name="the-tree")
    assert kit.rt.registry.whereis("the-tree") is sup
    handle = kit.rt.registry.via("the-tree")
    assert handle.is_alive()
    assert handle.ref is sup
    sup.stop()
    assert kit.rt.registry.whereis("the-tree") is None


@row("SUP-08")
@row("GEN-02")
def test_SUP_08_and_GEN_02_a_named_child_comes_back_under_its_name_and_bad_names_are_refused(kit: Kit) -> None:
    sup = kit.sup([kit.spec("a", name="worker")])
    whereis = kit.rt.registry.whereis
    old = whereis("worker")
    kit.crash(old)
    fresh = kit.fresh(sup, "a", old)
    assert whereis("worker") is fresh
    sup.terminate_child("a")
    assert whereis("worker") is None
    assert whereis("worker") is kit.ref(sup, "a")
    assert sup.restart_child("a") is whereis("worker")
    for name in ("", "   ", 7, b"x", ("a",)):
        with pytest.raises(BadSpec, match="name"):
            kit.spec("b", name=name)
        if name != 7:
            with pytest.raises(BadSpec, match="name"):
                kit.sup([], name=name or " ")


@row("SUP-09")
def test_SUP_09_two_children_of_one_class_have_two_ids(kit: Kit) -> None:
    sup = kit.sup([kit.spec("one"), kit.spec("two")])
    assert [info.id for info in sup.which_children()] == ["two", "one"]
    assert kit.ref(sup, "one") is not kit.ref(sup, "two")


@row("SUP-10")
def test_SUP_10_a_supervisor_is_started_from_its_class(kit: Kit) -> None:
    sup = Team.start(kit.rt, kit, "a", "b")
    assert sup.count_children() == Counts(2, 2, 0, 2)
    assert sup.stop()
    assert kit.happened("stop") == ["b", "a"]


@row("SUP-12")
def test_SUP_12_a_child_is_started_from_a_full_spec(kit: Kit) -> None:
    sup = kit.sup()
    spec = ChildSpec(
        "a", kit.probe(), args=("a", kit), restart=Restart.TRANSIENT, shutdown=2.0, name="n", start_timeout=3.0
    )
    assert sup.start_child(spec).is_alive()
    assert sup.get_childspec("a") is spec


@row("SUP-15")
@row("TSK-10")
def test_SUP_15_and_TSK_10_short_budgets_and_every_restart_type_are_accepted(kit: Kit) -> None:
    for sup in (kit.sup(), kit.dyn()):
        for number, (budget, restart) in enumerate((b, r) for b in (0, 1) for r in Restart):
            ref: Any = sup.start_child(kit.spec(number, shutdown=budget, restart=restart))
            assert (sup.get_childspec(ref).shutdown, sup.get_childspec(ref).restart) == (budget, restart)
