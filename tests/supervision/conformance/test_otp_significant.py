"""OTP-57 to OTP-63: significant children and auto-shutdown."""

from __future__ import annotations

from typing import Any

import pytest

from supervision import (
    AutoShutdown,
    BadCombination,
    ChildSpec,
    DynamicSupervisor,
    Normal,
    Restart,
    Shutdown,
    Strategy,
)
from supervision.core import AUTO_SHUTDOWN
from supervision.events import Happening
from tests.supervision.conformance.kit import Kit

row = pytest.mark.row

ENDED = Shutdown(AUTO_SHUTDOWN)
WAYS: list[Any] = [Normal(), Shutdown(), "crash", "kill"]
MODES = [AutoShutdown.ANY_SIGNIFICANT, AutoShutdown.ALL_SIGNIFICANT]


@row("OTP-57")
@pytest.mark.parametrize("mode", list(AutoShutdown))
def test_OTP_57_a_temporary_child_that_is_not_significant_never_ends_the_supervisor(
    kit: Kit, mode: AutoShutdown
) -> None:
    for way in WAYS:
        sup = kit.sup([kit.spec("a", restart=Restart.TEMPORARY), kit.spec("b")], auto_shutdown=mode)
        kit.end(kit.ref(sup, "a"), way)
        kit.until(lambda: [info.id for info in sup.which_children()] == ["b"])  # noqa: B023
        assert sup.is_alive()


@row("OTP-58")
@pytest.mark.parametrize("mode", list(AutoShutdown))
def test_OTP_58_nor_does_a_transient_one(kit: Kit, mode: AutoShutdown) -> None:
    for way in WAYS:
        sup = kit.sup([kit.spec("a", restart=Restart.TRANSIENT), kit.spec("b")], auto_shutdown=mode)
        old = kit.ref(sup, "a")
        if kit.end(old, way).quiet:
            kit.until(lambda: kit.state(sup, "a") == "down")  # noqa: B023
        else:
            kit.fresh(sup, "a", old)
        assert sup.is_alive()


@row("OTP-59")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_OTP_59_a_significant_temporary_child_ends_the_supervisor_by_any_own_end(kit: Kit, way: Any) -> None:
    fields: dict[str, Any] = {"restart": Restart.TEMPORARY, "significant": True}
    sup = kit.sup([kit.spec("a", **fields), kit.spec("b")], auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    sibling = kit.ref(sup, "b")
    kit.end(kit.ref(sup, "a"), way)
    assert kit.reason(sup) == ENDED
    assert sibling.exit_reason == Shutdown()
    assert len(kit.witness.reports(Happening.AUTO_SHUTDOWN)) == 1

    sup = kit.sup([kit.spec("a", **fields), kit.spec("c", **fields)], auto_shutdown=AutoShutdown.ALL_SIGNIFICANT)
    last = kit.ref(sup, "c")
    kit.end(kit.ref(sup, "a"), way)
    kit.until(lambda: len(sup.which_children()) == 1)
    assert sup.is_alive()
    kit.end(last, way)
    assert kit.reason(sup) == ENDED


@row("OTP-59")
@pytest.mark.parametrize("mode", MODES)
def test_OTP_59_terminating_a_significant_child_by_request_does_not(kit: Kit, mode: AutoShutdown) -> None:
    for restart in (Restart.TEMPORARY, Restart.TRANSIENT):
        sup = kit.sup([kit.spec("a", restart=restart, significant=True), kit.spec("b")], auto_shutdown=mode)
        sup.terminate_child("a")
        kit.quiet()
        assert sup.is_alive()
        assert kit.ref(sup, "b").is_alive()


@row("OTP-60")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_OTP_60_of_a_significant_transient_child_only_quiet_ends_count(kit: Kit, way: Any) -> None:
    fields: dict[str, Any] = {"restart": Restart.TRANSIENT, "significant": True}
    for mode in MODES:
        sup = kit.sup([kit.spec("a", **fields), kit.spec("b", **fields)], auto_shutdown=mode)
        old = kit.ref(sup, "a")
        quiet = kit.end(old, way).quiet
        if not quiet:
            kit.fresh(sup, "a", old)
            assert sup.is_alive()
        elif mode is AutoShutdown.ANY_SIGNIFICANT:
            assert kit.reason(sup) == ENDED
        else:
            kit.until(lambda: kit.state(sup, "a") == "down")  # noqa: B023
            assert sup.is_alive()
            kit.end(kit.ref(sup, "b"), way)
            assert kit.reason(sup) == ENDED


@row("OTP-61")
def test_OTP_61_a_dynamic_supervisor_knows_no_auto_shutdown(kit: Kit) -> None:
    with pytest.raises(BadCombination):
        DynamicSupervisor.tree(auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    sup = kit.dyn()
    with pytest.raises(BadCombination):
        sup.start_child(kit.spec("a", restart=Restart.TEMPORARY, significant=True))
    assert sup.which_children() == ()


@row("OTP-62")
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("mode", MODES)
def test_OTP_62_significant_siblings_stopped_with_the_group_are_bystanders(
    kit: Kit, strategy: Strategy, mode: AutoShutdown
) -> None:
    significant: dict[str, Any] = {"significant": True}
    specs = [
        kit.spec("a"),
        kit.spec("tr", restart=Restart.TRANSIENT, **significant),
        kit.spec("te", restart=Restart.TEMPORARY, **significant),
    ]
    sup = kit.sup(specs, strategy, auto_shutdown=mode)
    old = kit.ref(sup, "a")
    kit.crash(old)
    kit.fresh(sup, "a", old)
    alone = strategy is Strategy.ONE_FOR_ONE
    kit.until(lambda: sup.count_children().active == (3 if alone else 2))
    assert [info.id for info in sup.which_children()] == (["te", "tr", "a"] if alone else ["tr", "a"])
    assert sup.is_alive()


@row("OTP-63")
def test_OTP_63_auto_shutdown_cascades_through_significant_supervisors_only(kit: Kit) -> None:
    def nested(*, significant: bool) -> ChildSpec:
        child = kit.spec("leaf", restart=Restart.TRANSIENT, significant=True)
        return ChildSpec.supervisor(
            "nest",
            [child],
            strategy=Strategy.ONE_FOR_ONE,
            auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
            restart=Restart.TRANSIENT,
            significant=significant,
        )

    for significant in (True, False):
        sup = kit.sup([nested(significant=significant), kit.spec("b")], auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
        nest = kit.ref(sup, "nest")
        kit.end(kit.ref(nest, "leaf"), Normal())
        assert kit.reason(nest) == ENDED
        if significant:
            assert kit.reason(sup) == ENDED
        else:
            kit.until(lambda: kit.state(sup, "nest") == "down")  # noqa: B023
            assert sup.is_alive()
