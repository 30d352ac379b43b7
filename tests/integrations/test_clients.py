"""What the clients of openai and anthropic keep when they remember: their class, their copies, their odd ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from honcho_actors import TurnRequest
from honcho_actors.integrations import talking
from honcho_actors.integrations.anthropic import remember as remember_anthropic
from honcho_actors.integrations.openai import remember
from tests.integrations.keeper import ANN, Held, House, settled
from tests.support.stub_model import Say, StubModel

ANN_TALKS = TurnRequest(session_key="garden", user="ann")
ASKED = "what shall I do with the tomatoes?"
SAID: list[Any] = [{"role": "user", "content": ASKED}]
KEY = "sk-" + "stub" * 5


@pytest.fixture
def plain(model: StubModel) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=model.url, api_key=KEY, max_retries=0) as client:
        yield client


def answered(home: House, answer: str, session: str = "garden") -> bool:
    return home.holds(session, [Held("ann", ASKED, False), Held("assistant", answer, False)])


def test_the_class_stays_and_the_client_that_was_given_knows_nothing(
    home: House, model: StubModel, plain: openai.OpenAI
) -> None:
    client = remember(plain, home.memory, ANN_TALKS)
    assert type(client) is openai.OpenAI
    plain.chat.completions.create(model="stub", messages=SAID)
    assert ANN not in model.calls[-1].system
    client.chat.completions.create(model="stub", messages=SAID)
    assert ANN in model.calls[-1].system


def test_a_copy_of_a_client_that_remembers_remembers_and_twice_is_once(
    home: House, model: StubModel, plain: openai.OpenAI
) -> None:
    client = remember(remember(plain, home.memory, ANN_TALKS), home.memory, ANN_TALKS)
    client.with_options(timeout=20).copy(max_retries=0).chat.completions.create(model="stub", messages=SAID)
    assert model.calls[-1].system.count(ANN) == 1
    assert answered(home, f"You said 1 things, at last: {ASKED}")


def test_who_is_talking_comes_before_whom_the_client_is_bound_to(
    home: House, model: StubModel, plain: openai.OpenAI
) -> None:
    client = remember(plain, home.memory, TurnRequest(session_key="hive", user="bob"))
    with talking(ANN_TALKS):
        client.chat.completions.create(model="stub", messages=SAID)
    assert ANN in model.calls[-1].system


def test_what_is_no_such_client_is_refused(home: House) -> None:
    with pytest.raises(TypeError, match="client of openai, not a str"):
        remember("client", home.memory)
    with pytest.raises(TypeError, match="client of anthropic, not a int"):
        remember_anthropic(5, home.memory)


class Plan(pydantic.BaseModel):
    text: str


def test_a_parsed_answer_is_captured_as_the_model_wrote_it(home: House, model: StubModel, plain: openai.OpenAI) -> None:
    model.script = lambda asked: Say('{"text": "Water."}')
    client = remember(plain, home.memory, ANN_TALKS)
    found = client.chat.completions.parse(model="stub", messages=SAID, response_format=Plan)
    assert found.choices[0].message.parsed == Plan(text="Water.")
    assert answered(home, '{"text": "Water."}')


def test_raw_responses_are_captured_when_they_are_parsed(home: House, model: StubModel, plain: openai.OpenAI) -> None:
    client = remember(plain, home.memory, ANN_TALKS)
    raw = client.chat.completions.with_raw_response.create(model="stub", messages=SAID)
    assert ANN in model.calls[-1].system
    assert raw.parse().choices[0].message.content == f"You said 1 things, at last: {ASKED}"
    assert answered(home, f"You said 1 things, at last: {ASKED}")


def test_streamed_raw_responses_are_captured_when_they_are_read(
    home: House, model: StubModel, plain: openai.OpenAI
) -> None:
    client = remember(plain, home.memory, ANN_TALKS)
    with client.chat.completions.with_streaming_response.create(model="stub", messages=SAID, stream=True) as raw:
        text = "".join(one.choices[0].delta.content or "" for one in raw.parse() if one.choices)
    assert text == f"You said 1 things, at last: {ASKED}"
    assert answered(home, text)


@pytest.mark.parametrize("kind", ["chat", "responses", "messages"])
def test_the_clients_own_helper_for_streams_is_covered(home: House, model: StubModel, kind: str) -> None:
    if kind == "messages":
        with anthropic.Anthropic(base_url=model.root, api_key=KEY, max_retries=0) as own:
            client = remember_anthropic(own, home.memory, ANN_TALKS)
            with client.messages.stream(model="stub", max_tokens=9, messages=SAID) as stream:
                text = "".join(stream.text_stream)
    else:
        with openai.OpenAI(base_url=model.url, api_key=KEY, max_retries=0) as plain:
            asking: Any = remember(plain, home.memory, ANN_TALKS)
            if kind == "chat":
                with asking.chat.completions.stream(model="stub", messages=SAID) as stream:
                    text = "".join(one.delta for one in stream if one.type == "content.delta")
            else:
                with asking.responses.stream(model="stub", input=ASKED) as stream:
                    text = "".join(one.delta for one in stream if one.type == "response.output_text.delta")
    assert ANN in model.calls[-1].system
    assert text == f"You said 1 things, at last: {ASKED}"
    assert answered(home, text)


def test_a_helper_that_is_left_early_ends_the_turn_at_once(home: House, model: StubModel, plain: openai.OpenAI) -> None:
    model.script = lambda asked: Say("Water them in the morning.", hold=4)
    client = remember(plain, home.memory, ANN_TALKS)
    with client.chat.completions.stream(model="stub", messages=SAID) as stream:
        for event in stream:
            if event.type == "content.delta":
                break
    assert home.holds("garden", [Held("ann", ASKED, True)])


def test_where_the_models_server_keeps_the_messages_the_loop_is_one_turn(
    home: House, model: StubModel, plain: openai.OpenAI
) -> None:
    client = remember(plain, home.memory, ANN_TALKS)
    model.script = lambda asked: Say("Let me look.", call=("look_up", {}))
    first = client.responses.create(model="stub", input=ASKED)
    model.script = lambda asked: Say("In the shed.")
    result: Any = [{"type": "function_call_output", "call_id": "call_1", "output": "shed"}]
    client.responses.create(model="stub", previous_response_id=first.id, input=result)
    assert model.calls[0].system == model.calls[1].system
    assert answered(home, "In the shed.")


def test_the_models_own_objects_may_stand_in_the_history(home: House, model: StubModel, plain: openai.OpenAI) -> None:
    client = remember(plain, home.memory, ANN_TALKS)
    history: Any = [*SAID]
    model.script = lambda asked: Say("Let me look.", call=("look_up", {}))
    history += client.responses.create(model="stub", input=history).output
    history.append({"type": "function_call_output", "call_id": "call_1", "output": "shed"})
    model.script = lambda asked: Say("In the shed.")
    client.responses.create(model="stub", input=history)
    assert answered(home, "In the shed.")


def test_parts_of_a_message_get_the_block_as_one_more_part(home: House, model: StubModel, plain: openai.OpenAI) -> None:
    home.remote.about = {"ann": "It is about sowing."}
    client = remember(plain, home.memory, ANN_TALKS)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    history: Any = [{"role": "user", "content": [{"type": "text", "text": ASKED}, image]}]
    home.memory.context(TurnRequest(session_key="garden", user="ann", query=ASKED))
    settled(home)
    client.chat.completions.create(model="stub", messages=history)
    *given, block = model.calls[0].body["messages"][-1]["content"]
    assert given == [{"type": "text", "text": ASKED}, image]
    assert "It is about sowing." in block["text"]
    history += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "So?"}]
    client.chat.completions.create(model="stub", messages=history)
    assert model.calls[1].items[0] == model.calls[0].items[0]
    assert home.said("garden")[0] == Held("ann", ASKED, False)
