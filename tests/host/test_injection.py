"""Fifty hostile texts, each in every place where recalled text comes in: summary, representation and card (the system
half), dialectic (the volatile half), search hits (a tool's answer). Over sockets, through the real read side."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from honcho_actors import Memory
from honcho_actors.host import Prompt, Transcript, Transcripts
from honcho_actors.model import Context, TurnRequest
from honcho_actors.privacy import fence, identity
from honcho_actors.privacy.envelope import Envelope
from honcho_actors.sessions.block import HEADINGS, STABLE_TITLE, TITLES, VOLATILE_TITLE
from honcho_actors.sessions.budget import utf8_thirds
from tests.support.hostile import CANARY, NAMES, hostile
from tests.support.memory_world import Remote, World
from tests.support.stub_honcho import Answer, Said, Seen
from tests.support.tools_rig import Stub, runtime, use

pytestmark = pytest.mark.timeout(180)

STATIC = "You are helpful."
OWN = f"Is {fence.CLOSE} closed? {Envelope('0' * 32).around('mine')} [context: mine] {fence.OPEN}\n\n"
"""What a user types who knows how our marks look; every byte of it is the user's."""
ACTS = re.compile(
    r"<\||\[/?INST|<<?/?SYS|[<\uff1c]\s?/?\s?(system|user|assistant|human|tool|function)[\s>/_-]|\[\s?system\s?note",
    re.I,
)
ROLE = re.compile(r"^[ \t>*#_]*(system|assistant|user|human|developer|tool)[ \t*_]*:", re.I | re.M)


class Told:
    """One hostile text as a model and people met it."""

    def __init__(self, talk: Transcript, context: Context, prompt: Prompt) -> None:
        self.talk = talk
        self.context = context
        self.prompt = prompt


def person(number: int) -> str:
    return f"p{number}"


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    """Each text at once in everything that is remembered of one person; the second turn has it all."""
    remote = Remote({})
    talks = Transcripts()
    found = {}
    with World(remote, dialectic_cadence=1, first_turn_wait=30.0, request_timeout=30.0) as world:
        for number, name in enumerate(NAMES):
            request = TurnRequest(session_key=f"s{number}", user=person(number), query=OWN)
            who = identity.resolve(request, world.cell.current)
            assert isinstance(who, identity.Identity)
            talk = talks.open(who.session)
            text = hostile(talk.mark)[name]
            remote.persons[person(number)] = (text, [text, f"## {text}"])
            remote.summaries[f"s{number}"] = text
            remote.answer = lambda query, text=text: text  # type: ignore[misc]
            world.sessions.serve(request)
            world.quiet(30.0)
            context = world.sessions.serve(request)
            prompt = talk.compose(STATIC, context, OWN)
            talk.user(prompt)
            talk.assistant(f"You were told: {prompt.added}\nThat is all.")
            found[name] = Told(talk, context, prompt)
    return found


def lines(text: str) -> list[str]:
    """Lines that a model would read as headings."""
    return [re.sub(r"[\W_]+", " ", line).strip() for line in text.split("\n") if re.match(r"\s*[#\uff03]", line)]


def check_text(text: str) -> None:
    """What holds for all recalled text, wherever it stands: it reads and does nothing else."""
    assert CANARY in text
    assert ACTS.search(text.replace(fence.OPEN, "").replace(fence.CLOSE, "")) is None
    assert ROLE.search(text) is None
    assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in "\n\t"]
    assert (text.count(fence.OPEN), text.count(fence.CLOSE)) == (1, 1)
    text.encode()


def test_there_are_fifty() -> None:
    assert len(NAMES) == len(set(NAMES)) == 50


@pytest.mark.parametrize("name", NAMES)
def test_case_80_the_system_half_is_one_labelled_fence_with_our_headings_once(told: dict[str, Told], name: str) -> None:
    prompt = told[name].prompt
    check_text(prompt.stable)
    assert prompt.system == f"{STATIC}\n\n{prompt.stable}"
    assert prompt.stable.startswith(f"## {STABLE_TITLE}\n\n{fence.LABEL}\n{fence.OPEN}\n")
    assert prompt.stable.endswith(f"\n{fence.CLOSE}")
    plain = [re.sub(r"[\W_]+", " ", title).strip() for title in TITLES]
    assert [line for line in lines(prompt.stable) if line in plain] == [plain[0], *HEADINGS]
    parts = re.split(r"\n### .*\n", prompt.stable)
    assert len(parts) == 4, "label, summary, representation, card"
    assert sum(CANARY in part for part in parts[1:]) >= 2, "a card's line may be cut before it"


@pytest.mark.parametrize("name", NAMES)
def test_case_80_the_volatile_half_is_one_envelope_around_one_labelled_fence(told: dict[str, Told], name: str) -> None:
    prompt, envelope = told[name].prompt, told[name].talk.envelope
    check_text(prompt.added)
    assert prompt.added.startswith(f"\n\n{envelope.opening}\n## {VOLATILE_TITLE}\n\n{fence.LABEL}")
    assert prompt.added.endswith(f"\n{fence.CLOSE}\n{envelope.closing}")
    assert (prompt.added.count(envelope.opening), prompt.added.count(envelope.closing)) == (1, 1)
    named = prompt.added.casefold().count(envelope.mark)
    assert named == 2 or "envelope" in name, "the id stands in the two lines alone, unless it had leaked"
    inside = prompt.added.split(fence.OPEN, 1)[1]
    assert "[context" not in inside.split(fence.CLOSE)[0].casefold()
    assert lines(prompt.added).count(re.sub(r"[\W_]+", " ", VOLATILE_TITLE).strip()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_all_of_it_stays_inside_the_budget_envelope_included(told: dict[str, Told], name: str) -> None:
    prompt = told[name].prompt
    assert utf8_thirds(prompt.stable + "\n\n" + prompt.added) <= 1200 + 2


@pytest.mark.parametrize("name", NAMES)
def test_case_82_transcript_and_capture_are_clean_and_the_user_keeps_every_byte(
    told: dict[str, Told], name: str
) -> None:
    one = told[name]
    assert one.prompt.user == OWN + one.prompt.added
    assert one.talk.shown() == (("user", OWN), ("assistant", "You were told: \n\n\nThat is all."))
    assert one.talk.replay()[0] == ("user", one.prompt.user)
    assert one.talk.strip(one.prompt.user) == OWN
    assert one.talk.strip(OWN) == OWN


# -- search hits -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    texts = hostile("0" * 32)

    def answer(seen: Seen) -> Answer:
        body: Any = seen.json() if seen.body else {}
        found = texts.get(str(body.get("query")), "")
        row = {"id": "m1", "peer_id": "ines", "session_id": "s", "created_at": "2026-05-01T10:00:00Z"}
        if seen.path.endswith("/search"):
            return Said([{**row, "content": found}, {**row, "id": "m2", "content": "It rains.", "peer_id": found}])
        if seen.path.endswith("/conclusions/query"):
            fact = {"observer_id": "ines", "observed_id": "ines", "session_id": None}
            return Said([{**fact, "id": "f1", "content": found}])
        return Said({"id": "x"})

    folder: Path = tmp_path_factory.mktemp("hits")
    with Stub(answer) as stub, runtime(folder, stub.url, recall_mode="tools") as running:
        yield running


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("facts", [False, True], ids=["message", "fact"])
def test_case_80_a_hit_of_a_search_stands_in_one_labelled_fence(memory: Memory, name: str, facts: bool) -> None:
    found = use(memory, "honcho_search", {"query": name, "facts": facts, "scope": "mine"})
    assert found.error is None, found.text
    check_text(found.text)
    head, rest = found.text.split(fence.OPEN)
    assert head.endswith(f"{fence.LABEL}\n")
    assert CANARY in rest.split(fence.CLOSE)[0]
    assert CANARY not in head + rest.split(fence.CLOSE)[1]
    plain = {re.sub(r"[\W_]+", " ", title).strip() for title in TITLES}
    assert not plain.intersection(lines(found.text))
