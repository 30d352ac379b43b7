"""What is derived and by whom it is seen: observers, switches, visibility by session, summaries; honest labels."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from honcho_actors.local.process import Handle
from tests.local.conftest import Space

PEERS = {"alice": {"observe_me": True}, "bot": {"observe_me": False, "observe_others": True}}


def test_what_a_person_said_is_in_their_own_view_and_in_their_observers(space: Space) -> None:
    space.post("/sessions", {"id": "s", "peers": PEERS}, 201)
    space.say("s", ("alice", "I moved to Porto."), ("bot", "I am a program."))
    space.settle()
    assert "alice said: I moved to Porto." in space.known("alice")
    assert "alice said: I moved to Porto." in space.known("bot", "alice")
    assert space.known("bot") == ""
    assert space.known("alice", "bot") == ""


def test_a_bare_message_is_seen_by_its_speaker_only(space: Space) -> None:
    space.say("s", ("alice", "I moved to Porto."), ("bot", "I am a program."))
    space.settle()
    assert "Porto" in space.known("alice")
    assert "program" in space.known("bot")
    assert space.known("bot", "alice") == ""


def test_a_preset_after_the_first_message_is_ignored_until_it_is_put_as_config(space: Space) -> None:
    space.say("s", ("alice", "I moved to Porto."), ("bot", "Noted, thank you."))
    space.post("/sessions", {"id": "s", "peers": PEERS}, 200)
    space.say("s", ("alice", "I work as a nurse."))
    space.settle()
    assert space.known("bot", "alice") == ""
    space.put("/sessions/s/peers/bot/config", {"observe_others": True}, 204)
    space.say("s", ("alice", "I play the cello."))
    space.settle()
    assert space.known("bot", "alice").count("said:") == 1


def test_who_has_left_is_no_member_and_observes_nothing_but_keeps_the_flags_until_joining_anew(space: Space) -> None:
    space.post("/sessions", {"id": "s", "peers": PEERS}, 201)
    space.client.request("DELETE", f"{space.base}/sessions/s/peers", json=["bot"])
    assert [peer["id"] for peer in space.get("/sessions/s/peers")["items"]] == ["alice"]
    assert space.get("/sessions/s/peers/bot/config", 200) == {"observe_me": False, "observe_others": True}
    space.put("/sessions/s/peers/bot/config", {"observe_me": True}, 204)
    assert space.get("/sessions/s/peers")["total"] == 1
    assert [one["id"] for one in space.post("/peers/bot/sessions", {})["items"]] == ["s"]
    space.say("s", ("alice", "I moved to Porto."))
    space.settle()
    assert space.known("bot", "alice") == ""
    space.post("/sessions/s/peers", {"bot": {"observe_others": False}}, 200)
    assert space.get("/sessions/s/peers/bot/config") == {"observe_me": None, "observe_others": False}


def test_members_that_are_put_have_the_flags_that_are_put(space: Space) -> None:
    space.post("/sessions", {"id": "s", "peers": PEERS}, 201)
    space.put("/sessions/s/peers", {"bot": {"observe_me": True}}, 200)
    assert [peer["id"] for peer in space.get("/sessions/s/peers")["items"]] == ["bot"]
    assert space.get("/sessions/s/peers/bot/config") == {"observe_me": True, "observe_others": None}


@pytest.mark.parametrize("where", ["message", "session", "workspace", "peer"])
def test_derivation_can_be_switched_off(space: Space, where: str) -> None:
    off = {"reasoning": {"enabled": False}}
    if where == "session":
        space.post("/sessions", {"id": "s", "configuration": off}, 201)
    if where == "workspace":
        space.put("", {"configuration": off}, 200)
    if where == "peer":
        space.post("/peers", {"id": "alice", "configuration": {"observe_me": False}}, 201)
    space.say("s", ("alice", "I moved to Porto."), **({"configuration": off} if where == "message" else {}))
    space.settle()
    assert space.known("alice") == ""
    assert space.get("/queue/status")["total_work_units"] == 0


def test_questions_greetings_and_bare_agreement_are_not_said_of_anybody(space: Space) -> None:
    space.say("s", ("alice", "Hello there!"), ("alice", "Where were we?"), ("alice", "ok, thanks"), ("alice", "好"))
    space.settle()
    assert space.known("alice") == ""


def test_the_same_said_twice_in_a_session_is_one_conclusion_that_counts_more(space: Space) -> None:
    space.say("s", ("alice", "I like tea."), ("alice", "I like trains."), ("alice", "I like tea."))
    space.settle()
    assert space.known("alice").count("I like tea.") == 1
    frequent = space.post("/peers/alice/representation", {"include_most_frequent": True, "max_conclusions": 2})
    assert "I like tea." in frequent["representation"]


READS = {
    "session context": ("GET", "/sessions/here/context?peer_target=alice", (True, True, True)),
    "session context, limited": (
        "GET",
        "/sessions/here/context?peer_target=alice&limit_to_session=true",
        (False, True, False),
    ),
    "unknown session": ("GET", "/sessions/never/context?peer_target=alice", (True, True, True)),
    "peer context": ("GET", "/peers/alice/context", (True, True, True)),
    "representation": ("POST", "/peers/alice/representation", (True, True, True)),
    "representation of a session": ("POST session_id", "/peers/alice/representation", (False, True, False)),
    "representation by filter": ("POST filters", "/peers/alice/representation", (False, True, False)),
}


@pytest.mark.parametrize("read", READS)
def test_a_conclusion_is_seen_where_the_contract_says(space: Space, read: str) -> None:
    kind, path, expected = READS[read]
    for session in ("here", "there"):
        space.post("/sessions", {"id": session, "peers": {"alice": {}}}, 201)
    batch = [
        {"content": f"of {name}", "observer_id": "alice", "observed_id": "alice"} for name in ("none", "here", "there")
    ]
    batch[1]["session_id"], batch[2]["session_id"] = "here", "there"
    space.post("/conclusions", {"conclusions": batch}, 201)
    if kind == "GET":
        answer = space.get(path, 200)
    else:
        body = {
            "POST": {},
            "POST session_id": {"session_id": "here"},
            "POST filters": {"filters": {"session_id": ["here"]}},
        }
        answer = space.post(path, body[kind], 200)
    text = answer.get("peer_representation", answer.get("representation"))
    assert tuple(f"of {name}" in text for name in ("none", "here", "there")) == expected


def test_a_card_is_withheld_from_a_context_that_is_limited_to_its_session(space: Space) -> None:
    space.put("/peers/alice/card", {"peer_card": ["Name: Alice"]}, 200)
    path = "/sessions/s/context?peer_target=alice"
    assert space.get(path)["peer_card"] == ["Name: Alice"]
    assert space.get(path + "&limit_to_session=true")["peer_card"] is None


def test_summaries_come_at_their_cadence_and_say_what_they_are(space: Space) -> None:
    summary = {"messages_per_short_summary": 10, "messages_per_long_summary": 20}
    space.post("/sessions", {"id": "s", "configuration": {"summary": summary}}, 201)
    space.say("s", *[("alice", f"Today I planted {number} tulips in the garden.") for number in range(9)])
    space.settle()
    assert space.get("/sessions/s/summaries")["short_summary"] is None
    made = space.say("s", ("alice", "The tulips came up in the garden."))
    space.settle()
    both = space.get("/sessions/s/summaries")
    assert both["short_summary"]["message_id"] == made[0]["id"]
    assert "no model made this summary" in both["short_summary"]["content"]
    assert both["long_summary"] is None
    space.say("s", *[("alice", f"Line {number} of the second half.") for number in range(10)])
    space.settle()
    assert space.get("/sessions/s/summaries")["long_summary"]["summary_type"] == "honcho_chat_summary_long"


def test_a_context_starts_at_the_message_that_its_summary_ends_with(space: Space) -> None:
    space.post("/sessions", {"id": "s", "configuration": {"summary": {"messages_per_short_summary": 10}}}, 201)
    made = space.say("s", *[("alice", f"Line {number} tells of the harbour.") for number in range(15)])
    space.settle()
    context = space.get("/sessions/s/context?tokens=5000")
    assert context["messages"][0]["id"] == context["summary"]["message_id"] == made[9]["id"]


def test_a_chat_without_a_model_quotes_and_says_so_or_answers_null(space: Space) -> None:
    space.say("s", ("alice", "I keep bees on the roof of my house."))
    space.settle()
    answer = space.post("/peers/alice/chat", {"query": "What does alice keep on the roof?"}, 200)["content"]
    assert "no model" in answer.splitlines()[0]
    assert "I keep bees on the roof of my house." in answer
    assert space.post("/peers/alice/chat", {"query": "zzzqqq"}, 200) == {"content": None}


def test_a_chat_is_held_to_its_session(space: Space) -> None:
    space.say("open", ("alice", "I keep bees on the roof."))
    space.say("other", ("alice", "I keep a secret on the roof."))
    space.settle()
    asked = {"query": "What is on the roof?", "session_id": "open"}
    assert "secret" not in space.post("/peers/alice/chat", asked, 200)["content"]


def test_a_stream_about_somebody_unknown_ends_without_done(space: Space) -> None:
    asked = {"query": "x", "stream": True, "target": "ghost"}
    reply = space.client.post(f"{space.base}/peers/alice/chat", json=asked)
    assert (reply.status_code, reply.text) == (200, "")
    asked.pop("target")
    reply = space.client.post(f"{space.base}/peers/alice/chat", json=asked)
    assert reply.text.endswith('data: {"done": true}\n\n')


def test_of_sixteen_that_create_one_session_at_once_one_is_told_created(space: Space, server: Handle) -> None:
    barrier = threading.Barrier(16)

    def create(_: int) -> int:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
            client.get("/health")
            barrier.wait(20)
            return client.post(f"{space.base}/sessions", json={"id": "one"}).status_code

    with ThreadPoolExecutor(16) as pool:
        assert sorted(pool.map(create, range(16))) == [200] * 15 + [201]


def test_batches_of_several_writers_never_mix(space: Space, server: Handle) -> None:
    def write(writer: int) -> list[int]:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
            return [
                client.post(
                    f"{space.base}/sessions/s/messages",
                    json={"messages": [{"peer_id": "p", "content": f"{writer}.{batch}.{item}"} for item in range(20)]},
                ).status_code
                for batch in range(3)
            ]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, range(8))) == [[201] * 3] * 8
    said = [
        item["content"]
        for page in range(1, 6)
        for item in space.post(f"/sessions/s/messages/list?size=100&page={page}", {})["items"]
    ]
    assert len(said) == 8 * 3 * 20
    for start in range(0, len(said), 20):
        head = said[start].rsplit(".", 1)[0]
        assert said[start : start + 20] == [f"{head}.{item}" for item in range(20)]


def test_a_batch_with_one_bad_message_stores_none(space: Space) -> None:
    good = {"peer_id": "alice", "content": "fine"}
    space.post("/sessions/s/messages", {"messages": [good, {"peer_id": "alice", "content": "x" * 25_001}]}, 422)
    space.post("/sessions/s/messages", {"messages": [good, {"peer_id": "bad id", "content": "x"}]}, 422)
    assert space.post("/sessions/s/messages/list", {})["total"] == 0
