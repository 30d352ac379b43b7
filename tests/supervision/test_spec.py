"""Every wrong field of a spec or of a supervisor is refused where it is written, by an error of its own name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from supervision import spec_errors as errors
from supervision.spec import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Flags,
    Restart,
    Strategy,
    TreeSpec,
    check_child,
    child_spec,
    dynamic_tree,
    tree,
)
from tests.supervision.support.puretree import Idle

NAN = float("nan")

WRONG_FIELDS: list[tuple[str, Any, type[errors.BadSpec]]] = [
    ("id", None, errors.BadId),
    ("id", [], errors.BadId),
    ("actor_class", None, errors.BadClass),
    ("actor_class", int, errors.BadClass),
    ("actor_class", Idle(), errors.BadClass),
    ("actor_class", lambda: Idle(), errors.BadClass),
    ("args", "text", errors.BadArgs),
    ("args", {1: 2}, errors.BadArgs),
    ("kwargs", [("a", 1)], errors.BadKwargs),
    ("kwargs", {1: 2}, errors.BadKwargs),
    ("restart", None, errors.BadRestart),
    ("restart", "always", errors.BadRestart),
    ("restart", True, errors.BadRestart),
    ("shutdown", -1, errors.BadShutdown),
    ("shutdown", -0.001, errors.BadShutdown),
    ("shutdown", NAN, errors.BadShutdown),
    ("shutdown", True, errors.BadShutdown),
    ("shutdown", "5", errors.BadShutdown),
    ("shutdown", None, errors.BadShutdown),
    ("significant", 1, errors.BadSignificant),
    ("significant", None, errors.BadSignificant),
    ("name", "", errors.BadName),
    ("name", "  ", errors.BadName),
    ("name", 7, errors.BadName),
    ("name", b"x", errors.BadName),
    ("start_timeout", 0, errors.BadStartTimeout),
    ("start_timeout", -1, errors.BadStartTimeout),
    ("start_timeout", None, errors.BadStartTimeout),
    ("start_timeout", NAN, errors.BadStartTimeout),
    ("start_timeout", True, errors.BadStartTimeout),
    ("watchdog", 0, errors.BadWatchdog),
    ("watchdog", INFINITY, errors.BadWatchdog),
    ("watchdog", "1", errors.BadWatchdog),
    ("tree", {}, errors.BadChildren),
]

WRONG_FLAGS: list[tuple[str, Any, type[errors.BadSpec]]] = [
    ("strategy", "one_for_none", errors.BadStrategy),
    ("strategy", None, errors.BadStrategy),
    ("strategy", [], errors.BadStrategy),
    ("intensity", -1, errors.BadIntensity),
    ("intensity", 1.5, errors.BadIntensity),
    ("intensity", True, errors.BadIntensity),
    ("intensity", INFINITY, errors.BadIntensity),
    ("intensity", None, errors.BadIntensity),
    ("period", 0, errors.BadPeriod),
    ("period", -1, errors.BadPeriod),
    ("period", INFINITY, errors.BadPeriod),
    ("period", NAN, errors.BadPeriod),
    ("period", True, errors.BadPeriod),
    ("period", "5", errors.BadPeriod),
    ("auto_shutdown", "always", errors.BadAutoShutdown),
    ("auto_shutdown", True, errors.BadAutoShutdown),
]

WRONG_DYNAMIC: list[tuple[str, Any, type[errors.BadSpec]]] = [
    ("max_children", -1, errors.BadMaxChildren),
    ("max_children", 1.5, errors.BadMaxChildren),
    ("max_children", True, errors.BadMaxChildren),
    ("max_children", "7", errors.BadMaxChildren),
    ("max_children", None, errors.BadMaxChildren),
    ("max_children", NAN, errors.BadMaxChildren),
    ("extra_args", "text", errors.BadExtraArgs),
    ("extra_args", 7, errors.BadExtraArgs),
    ("intensity", -1, errors.BadIntensity),
    ("period", 0, errors.BadPeriod),
    ("strategy", Strategy.ONE_FOR_ALL, errors.BadCombination),
    ("strategy", "simple_one_for_one", errors.BadStrategy),
    ("auto_shutdown", AutoShutdown.ANY_SIGNIFICANT, errors.BadCombination),
]


def _named(row: tuple[str, Any, type[Exception]]) -> str:
    shown = "nan" if isinstance(row[1], float) and math.isnan(row[1]) else type(row[1]).__name__
    return f"{row[0]}-{shown}"


@pytest.mark.parametrize(("field", "value", "error"), WRONG_FIELDS, ids=map(_named, WRONG_FIELDS))
def test_a_wrong_field_of_a_child_has_its_named_error(field: str, value: Any, error: type[errors.BadSpec]) -> None:
    fields: dict[str, Any] = {"id": "a", "actor_class": Idle, field: value}
    with pytest.raises(error) as caught:
        ChildSpec(**fields)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, errors.SupervisionError)
    assert caught.value.field in {field, "children"}
    assert caught.value.field in str(caught.value)


@pytest.mark.parametrize(("field", "value", "error"), WRONG_FLAGS, ids=map(_named, WRONG_FLAGS))
def test_a_wrong_flag_of_a_supervisor_has_its_named_error(field: str, value: Any, error: type[errors.BadSpec]) -> None:
    flags: dict[str, Any] = {"strategy": Strategy.ONE_FOR_ONE, field: value}
    with pytest.raises(error):
        tree([], **flags)
    with pytest.raises(error):
        ChildSpec.supervisor("sup", [], **flags)


@pytest.mark.parametrize(("field", "value", "error"), WRONG_DYNAMIC, ids=map(_named, WRONG_DYNAMIC))
def test_a_wrong_flag_of_a_dynamic_supervisor_has_its_named_error(
    field: str, value: Any, error: type[errors.BadSpec]
) -> None:
    with pytest.raises(error):
        dynamic_tree(**{field: value})


def test_children_must_be_specs_in_a_sequence() -> None:
    for children in (7, "abc", {"a": 1}, [Idle], [None]):
        with pytest.raises(errors.BadChildren):
            tree(children, strategy=Strategy.ONE_FOR_ONE)  # type: ignore[arg-type]


def test_two_children_with_one_id_are_refused() -> None:
    twice = [ChildSpec("a", Idle), ChildSpec("b", Idle), ChildSpec("a", Idle)]
    with pytest.raises(errors.DuplicateId) as caught:
        tree(twice, strategy=Strategy.ONE_FOR_ONE)
    assert caught.value.child_id == "a"


def test_the_strategy_has_no_default() -> None:
    with pytest.raises(TypeError):
        tree([])  # type: ignore[call-arg]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        ChildSpec("a", Idle, modules=[])  # type: ignore[call-arg]


def test_a_dynamic_supervisor_has_no_initial_children() -> None:
    with pytest.raises(errors.BadCombination):
        TreeSpec(Flags(dynamic=True), (ChildSpec("a", Idle),))


def test_a_significant_child_of_a_dynamic_supervisor_is_refused() -> None:
    spec = ChildSpec("a", Idle, restart=Restart.TRANSIENT, significant=True)
    with pytest.raises(errors.BadCombination):
        check_child(dynamic_tree().flags, spec)


def test_a_spec_does_not_show_its_arguments() -> None:
    spec = ChildSpec("a", Idle, args=("hush",), kwargs={"token": "hush"})
    assert "hush" not in repr(spec)
    assert "hush" not in str(errors.BadId(["hush"], "hashable"))


def test_a_spec_keeps_its_own_copy_of_what_it_was_given() -> None:
    given: dict[str, Any] = {"a": 1}
    spec = ChildSpec("a", Idle, kwargs=given)
    given["a"] = 2
    assert spec.kwargs["a"] == 1
    with pytest.raises(TypeError):
        spec.kwargs["a"] = 3  # type: ignore[index]


def test_a_class_or_a_class_with_arguments_becomes_a_spec() -> None:
    assert child_spec(Idle).id == "Idle"
    assert child_spec(Idle, name="worker").id == "worker"
    assert child_spec((Idle, (1, 2))).args == (1, 2)
    assert child_spec((Idle, 1)).args == (1,)
    spec = child_spec(ChildSpec("a", Idle), shutdown=BRUTAL_KILL)
    assert (spec.id, spec.shutdown) == ("a", BRUTAL_KILL)


@pytest.mark.parametrize("what", [7, "Idle", int, None, Idle(), [Idle]], ids=lambda what: type(what).__name__)
def test_what_is_no_child_is_refused_by_name(what: Any) -> None:
    with pytest.raises(TypeError, match="is not a child"):
        child_spec(what)
