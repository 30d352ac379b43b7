"""What importing costs, by what it loads: time is measured in `benchmarks.integrations`, where nobody else works."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FRAMEWORKS = (
    "openai",
    "anthropic",
    "agents",
    "langchain",
    "langgraph",
    "pydantic_ai",
    "agent_framework",
    "mcp",
    "httpx2",
)
HEAVY = (
    "httpx",
    "httpcore",
    "prometheus_client",
    "sqlite3",
    "asyncio",
    "ssl",
    "regex",
    "pykka",
    "logging",
    "supervision",
)
SERVERS = ("starlette", "uvicorn", "typer", "rich")


pytestmark = pytest.mark.timeout(120)


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`, by their first name and in full."""
    command = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True, timeout=110)
    names = json.loads(said.stdout)
    return {*names, *(name.split(".")[0] for name in names)}


def test_the_package_alone_loads_nothing_of_what_it_stands_on() -> None:
    bare = loaded("pass")
    found = loaded("import honcho_actors") - bare
    assert found.isdisjoint({*FRAMEWORKS, *HEAVY, *SERVERS})
    assert "dataclasses" not in found
    assert {one for one in found if one.startswith("honcho_actors")} == {"honcho_actors"}


def test_the_name_of_memory_loads_none_of_its_rooms_and_no_library() -> None:
    found = loaded("from honcho_actors import Memory, Turn, TurnRequest") - loaded("pass")
    assert found.isdisjoint({*FRAMEWORKS, *HEAVY, *SERVERS})
    assert "honcho_actors.sessions" not in found
    assert "honcho_actors.capture" not in found


def test_a_runtime_without_adapters_loads_no_framework() -> None:
    code = "from honcho_actors import Memory, Settings\nMemory.start(Settings(), tree=False)\n"
    code += "import honcho_actors.integrations"
    found = loaded(code)
    assert "honcho_actors.sessions" in found
    assert found.isdisjoint({*FRAMEWORKS, "starlette", "uvicorn", "typer"})


def test_what_the_models_own_clients_look_for_is_whole_as_soon_as_a_runtime_has_started() -> None:
    code = (
        "from honcho_actors import Memory, Settings\n"
        "with Memory.start(Settings(base_url='http://127.0.0.1:9', admin_port=None)):\n"
        "    import sys\n    assert sys.modules['httpx'].URL"
    )
    assert "httpx" in loaded(code)


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    code = "import honcho_actors\n"
    code += "for name in honcho_actors.__all__: assert getattr(honcho_actors, name).__name__ == name, name"
    assert "honcho_actors.runtime" in loaded(code)


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("openai",) * 3,
        ("anthropic",) * 3,
        ("agents",) * 3,
        ("langchain",) * 3,
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
def test_a_missing_extra_names_the_command_that_installs_it(module: str, package: str, extra: str) -> None:
    code = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        f"try:\n    import honcho_actors.integrations.{module}\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=110)
    assert said.stdout.strip() == f"this needs `{package}`: pip install 'honcho-actors[{extra}]'"
