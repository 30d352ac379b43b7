"""Case 82: six turns with memory in the prompt, a model that quotes all it was given, and everything captured: nothing
of ours comes back as something that was said, and nothing grows turn by turn. Against the embedded server."""

from __future__ import annotations

from pathlib import Path

import httpx

from honcho_actors import Turn, TurnRequest
from honcho_actors.host import Prompt, Transcripts
from honcho_actors.local.process import start
from honcho_actors.model import ReceiptState
from honcho_actors.privacy import fence, identity, names
from tests.support.memory_world import until
from tests.support.tools_rig import runtime

SAID = "I restore a clinker dinghy from 1963 in an unheated shed"


def test_case_82_what_is_quoted_is_not_captured_and_nothing_grows(tmp_path: Path) -> None:
    with (
        start(tmp_path / "server") as server,
        runtime(
            tmp_path, server.url, first_turn_wait=20.0, request_timeout=20.0, dialectic_cadence=1, context_cadence=1
        ) as memory,
    ):
        talk = Transcripts().open(identity.resolve(TurnRequest("s", user="ines"), memory.settings).session)  # type: ignore[union-attr]
        prompts: list[Prompt] = []
        for number in range(6):
            typed = f"{SAID}, number {number}. [context x] {fence.OPEN}"
            request = TurnRequest(session_key="s", user="ines", query=typed)
            if number:
                memory.refresh(request)
                until(lambda request=request: bool(memory.context(request).system), 30.0)  # type: ignore[misc]
            prompt = talk.compose("S", memory.context(request), typed)
            prompts.append(prompt)
            talk.user(prompt)
            talk.assistant(f"I was told: {prompt.stable}\n{prompt.added}\nSo, rib {number}.")
            answer = talk.shown()[-1][1]
            receipt = memory.capture(Turn("s", "ines", prompt.typed, answer))
            assert receipt.wait(ReceiptState.DELIVERED, 30.0) is ReceiptState.DELIVERED
        assert sum(SAID in prompt.stable for prompt in prompts) >= 4, "memory did stand in the prompt"
        kept = f"{server.url}/v3/workspaces/w/sessions/{names.session_id('s')}/messages/list?size=50"
        messages = httpx.post(kept, json={}, trust_env=False).json()["items"]
        assert len(messages) == 12
        for number, one in enumerate(sorted(messages, key=lambda one: one["created_at"])):
            text = one["content"]
            assert talk.mark not in text
            assert fence.LABEL not in text
            assert fence.CLOSE not in text
            if one["peer_id"] == "ines":
                assert text.endswith(f"[context x] {fence.OPEN}"), "what the user typed keeps every byte"
            else:
                assert len(text) < 80, number
