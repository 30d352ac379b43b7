"""What a turn becomes: which texts, in which order, under which id, with which metadata; nothing that is withheld."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from honcho_actors.capture import content
from honcho_actors.model import SkipReason, Turn
from honcho_actors.privacy import egress, identity
from honcho_actors.privacy.identity import Identity
from honcho_actors.settings import Settings

SECRET = "sk-" + "ant-api03-" + "k7Qx" * 22 + "-AA"


def who(session: str = "s", user: str | None = None, **settings: Any) -> Identity:
    found = identity.resolve(Turn(session_key=session, user=user), Settings(base_url="http://localhost:1", **settings))
    assert isinstance(found, Identity)
    return found


def drafted(turn: Turn) -> content.Drafted:
    return content.draft(
        turn,
        who(),
        gate=egress.DEFAULT,
        max_chars=25_000,
        at_us=1_000,
        batch_id=content.batch_id_of(who(), turn.turn_id),
    )


def pieces(turn: Turn) -> list[tuple[str, str]]:
    found = drafted(turn)
    return [] if found.draft is None else [(piece.peer, piece.text) for piece in found.draft.pieces]


def metadata(turn: Turn) -> dict[str, Any]:
    found = drafted(turn).draft
    assert found is not None
    first: dict[str, Any] = json.loads(found.pieces[0].metadata)
    return first


def test_user_texts_come_in_admission_order_and_then_the_answer() -> None:
    turn = Turn(session_key="s", prompt=("one", "two", "three"), answer="four")
    assert pieces(turn) == [("user", "one"), ("user", "two"), ("user", "three"), ("assistant", "four")]


def test_an_unanswered_run_is_marked_and_has_no_answer() -> None:
    turn = Turn(session_key="s", prompt="hello", answer=None)
    assert pieces(turn) == [("user", "hello")]
    assert metadata(turn)["unanswered"] is True
    assert "unanswered" not in metadata(Turn(session_key="s", prompt="hello", answer="hi"))


@pytest.mark.parametrize("blank", ["", " \n", "\u200b", None, 7])
def test_case_135_a_blank_half_is_left_out_and_a_blank_turn_is_skipped(blank: Any) -> None:
    assert pieces(Turn(session_key="s", prompt=blank if blank is not None else "", answer="yes")) == [
        ("assistant", "yes")
    ]
    whole = drafted(Turn(session_key="s", prompt=blank if isinstance(blank, str) else "", answer=blank))
    assert whole.draft is None
    assert whole.skipped is SkipReason.BLANK


def test_a_withheld_half_is_left_out_counted_and_never_takes_its_neighbour_along() -> None:
    found = drafted(Turn(session_key="s", prompt=f"my key is {SECRET}", answer="do not share that"))
    assert found.draft is not None
    assert [piece.text for piece in found.draft.pieces] == ["do not share that"]
    assert found.withheld == ("prompt",)
    nothing = drafted(Turn(session_key="s", prompt=f"my key is {SECRET}", answer=None))
    assert nothing.skipped is SkipReason.WITHHELD


def test_a_credential_that_stands_in_two_messages_leaves_in_neither() -> None:
    for prompts in (("The wifi password:", "Mango!" + "4711"), (f"it is {SECRET[:14]}", f"{SECRET[14:]} I think")):
        found = drafted(Turn(session_key="s", prompt=prompts, answer="noted"))
        assert found.draft is not None
        assert [piece.text for piece in found.draft.pieces] == ["noted"]
        assert found.withheld == ("prompt", "prompt")


def test_withheld_metadata_stays_here_and_the_text_goes() -> None:
    found = drafted(Turn(session_key="s", prompt="hello", answer="hi", metadata={"token": SECRET, "surface": "chat"}))
    assert found.draft is not None
    assert json.loads(found.draft.pieces[0].metadata) == {"surface": "chat"}
    assert found.withheld == ("metadata",)


def test_what_only_its_key_calls_a_password_stays_here() -> None:
    given = {
        "db": {"password": "Mango!" + "4711", "user": "ines"},
        "pin": 4711,
        "passwords": ["Mango!" + "4711"],
        "n": 7,
    }
    found = drafted(Turn(session_key="s", prompt="hello", answer="hi", metadata=given))
    assert found.draft is not None
    assert json.loads(found.draft.pieces[0].metadata) == {"db": {"user": "ines"}, "passwords": [], "n": 7}
    assert found.withheld == ("metadata",)


def test_case_133_metadata_is_cleaned_before_the_outbox() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    given: dict[Any, Any] = {
        "score": float("nan"),
        "far": float("inf"),
        "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}},
        7: "not a name",
        "bytes": b"x",
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "cycle": cycle,
        "list": [1, float("nan"), "two"],
        "surrogate": "\ud83d",
        **{f"key{number}": number for number in range(101)},
    }
    found = metadata(Turn(session_key="s", prompt="hello", answer="hi", metadata=given))
    json.dumps(found, allow_nan=False).encode()
    assert "score" not in found
    assert "far" not in found
    assert "bytes" not in found
    assert found["list"] == [1, "two"]
    assert found["when"].startswith("2026-01-02")
    assert len(found) <= content.METADATA_KEYS


def test_a_host_can_not_set_the_names_that_once_only_stands_on() -> None:
    forged = dict.fromkeys(content.OURS, "forged")
    turn = Turn(session_key="s", prompt="hello", answer="hi", turn_id="m-1", metadata=forged)
    assert metadata(turn) == {"turn_id": "m-1"}


def test_case_131_a_lone_surrogate_is_delivered_as_a_replacement_character() -> None:
    assert pieces(Turn(session_key="s", prompt="hi \ud83d there", answer=None)) == [("user", "hi \ufffd there")]


def test_a_batch_id_is_hexadecimal_and_depends_on_the_turn_its_person_and_its_conversation_not_on_the_words() -> None:
    same = content.batch_id_of(who(), "t")
    assert same == content.batch_id_of(who(), "t")
    others = [
        content.batch_id_of(who(), "u"),
        content.batch_id_of(who("s2"), "t"),
        content.batch_id_of(who("s", "ann"), "t"),
        content.batch_id_of(who(workspace="elsewhere"), "t"),
        content.batch_id_of(who(), None),
        content.batch_id_of(who(), ""),
        content.batch_id_of(who(), "\ud83d"),
    ]
    assert len({same, *others}) == 8


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"enabled": False}, SkipReason.DISABLED), ({"save_messages": False}, SkipReason.READ_ONLY), ({}, None)],
)
def test_the_master_switch_and_read_only_come_first(settings: dict[str, Any], reason: SkipReason | None) -> None:
    assert content.skip_reason(Turn(session_key="s", prompt="x"), Settings(**settings)) is reason
