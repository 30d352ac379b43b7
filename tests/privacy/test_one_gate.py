"""A lint over the tree: nothing but the gate makes `Screened`, and the rooms that send take nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GATE = ROOT / "honcho_actors" / "privacy" / "egress.py"


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("honcho_actors", "supervision", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_only_the_gate_calls_screened_or_names_its_maker() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in sources()
        if path != GATE
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and name_of(node.func) == "Screened")
        or (isinstance(node, ast.Name | ast.Attribute) and name_of(node) == "_MAKER")
        or (isinstance(node, ast.Constant) and node.value == "_MAKER")
    ]
    assert found == []


def test_nobody_goes_round_the_constructor() -> None:
    forbidden = {"__new__", "__setattr__", "__class__", "__reduce__"}
    found = []
    for path, tree in sources():
        if path == GATE:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_of(node.func) in forbidden:
                mentioned = {name_of(argument) for argument in node.args}
                if "Screened" in mentioned:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            if (
                isinstance(node, ast.Call)
                and name_of(node.func) == "cast"
                and node.args
                and "Screened" in ast.dump(node.args[0])
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_the_gate_makes_screened_in_the_places_that_look_first() -> None:
    """Every construction stands in a method that asks the rules: a new one must be added here with its reason."""
    tree = ast.parse(GATE.read_text(encoding="utf-8"))
    makers = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and name_of(node.func) == "Screened"
    }
    assert makers == {"_judge", "_divide", "again"}


def test_every_text_parameter_of_the_client_is_screened() -> None:
    """Names of the client's parameters that carry prose: each is annotated with `Screened` and nothing wider."""
    path = ROOT / "honcho_actors" / "honcho" / "client.py"
    prose = {"query", "text", "content", "contents", "line", "lines", "card", "title", "message"}
    wrong = []
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.AsyncFunctionDef) or function.name.startswith("_"):
            continue
        for argument in (*function.args.args, *function.args.kwonlyargs):
            if argument.arg in prose and (
                argument.annotation is None or "Screened" not in ast.unparse(argument.annotation)
            ):
                wrong.append(f"{function.name}({argument.arg})")
    assert wrong == []
