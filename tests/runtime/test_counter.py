"""The tokens of a block may be counted by the host's own counter."""

from __future__ import annotations

from honcho_actors import Memory, Settings, TurnRequest
from honcho_actors.model import Reason, ReceiptState
from tests.runtime.conftest import MakeMemory
from tests.runtime.test_memory import ask, say
from tests.support.memory_world import until


def test_a_counter_of_the_hosts_own_decides_what_fits(make: MakeMemory, server: str) -> None:
    """Ten times as dear: what fits by the default estimate has no room any more."""
    said = make(server, workspace="counted", context_tokens=300)
    assert said.capture(say("one")).wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED
    until(lambda: said.context(ask("two")).reason is Reason.HIT)
    settings = Settings(base_url=server, workspace="counted", context_tokens=300)
    dear = Memory.start(settings, counter=lambda text: 10 * len(text))
    try:
        context = dear.context(TurnRequest(session_key="three", user="ines", query="where were we with the boat?"))
        assert (context.reason, context.system) == (Reason.BUDGET, "")
    finally:
        dear.close(5.0)
