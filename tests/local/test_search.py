"""What the search finds without a model, over HTTP; its analysis of a query by itself; its recall where the data is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import recall
from honcho_actors.local.query import SMALL_WORDS, analyse, named_time
from tests.local.conftest import Space


def found(space: Space, query: str, path: str = "", **more: object) -> list[str]:
    return [item["content"] for item in space.post(f"{path}/search", {"query": query, **more}, 200)]


def test_words_are_found_by_their_stem(space: Space) -> None:
    space.say("s", ("alice", "I am painting a sunrise."), ("alice", "The bus was late."))
    assert found(space, "paintings")[0] == "I am painting a sunrise."


@pytest.mark.parametrize("query", ["绿茶", "喝绿茶", "每天早上喝绿茶"])
def test_chinese_is_found_inside_a_sentence_by_two_characters_or_more(space: Space, query: str) -> None:
    space.say("s", ("alice", "我每天早上喝绿茶然后去上班"), ("alice", "我住在里斯本"))
    assert found(space, query)[0] == "我每天早上喝绿茶然后去上班"


def test_part_of_a_word_is_found(space: Space) -> None:
    space.say("s", ("alice", "The Donaudampfschifffahrt was a joy."), ("alice", "The bus was late again today."))
    assert found(space, "dampfschiff")[0] == "The Donaudampfschifffahrt was a joy."


def test_an_answer_that_repeats_no_word_of_the_question_is_found_beside_it(space: Space) -> None:
    space.say(
        "s",
        ("bot", "What is your favourite composer these days?"),
        ("alice", "It has to be Shostakovich, without any doubt."),
        *[("alice", f"Line {number} about the weather in the harbour.") for number in range(30)],
    )
    assert "It has to be Shostakovich, without any doubt." in found(space, "favourite composer", limit=3)


def test_neighbours_are_held_to_the_filter_and_the_scope(space: Space) -> None:
    space.say(
        "s", ("bot", "What is your favourite composer these days?"), ("alice", "It has to be Shostakovich, surely.")
    )
    assert found(space, "favourite composer", filters={"peer_id": "bot"}) == [
        "What is your favourite composer these days?"
    ]


def test_a_named_peer_favours_what_that_peer_said(space: Space) -> None:
    space.say("s", ("bob", "My garden is full of roses."), ("alice", "My garden is full of weeds."))
    assert found(space, "What grows in Alice's garden?")[0] == "My garden is full of weeds."
    assert found(space, "What grows in Bob's garden?")[0] == "My garden is full of roses."


def test_a_named_month_favours_what_was_said_then(space: Space) -> None:
    for month in ("2023-03-04T10:00:00Z", "2023-05-04T10:00:00Z", "2023-07-04T10:00:00Z"):
        space.say(f"s{month[:7]}", ("alice", f"We went to the harbour, {len(month)} of us."), created_at=month)
    best = space.post("/search", {"query": "Who went to the harbour in May 2023?"}, 200)[0]
    assert best["created_at"].startswith("2023-05")


def test_nothing_that_matches_nothing_is_returned(space: Space) -> None:
    space.say("s", ("alice", "I live in Lisbon."))
    assert found(space, "zzzqqq") == []


def test_an_empty_query_gives_the_newest(space: Space) -> None:
    space.say("s", ("alice", "first"), ("alice", "second"))
    assert found(space, "", limit=1) == ["second"]


@pytest.mark.parametrize(
    "query", ['"', "a AND OR NOT", "NEAR(x y)", "col:val", "((", "*", "'; --", "\u0000", "-", "^x"]
)
def test_no_query_is_taken_for_the_index_language(space: Space, query: str) -> None:
    space.say("s", ("alice", "I live in Lisbon."))
    assert isinstance(space.post("/search", {"query": query}, 200), list)


def test_one_workspace_is_never_searched_from_another(space: Space) -> None:
    space.say("s", ("alice", "the passphrase is tangerine"))
    other = Space(space.client, space.name + "-other")
    other.say("s", ("alice", "I know no passphrase."))
    assert found(other, "tangerine") == []
    assert found(other, "passphrase") == ["I know no passphrase."]


def test_conclusions_are_ranked_without_the_names_that_every_line_has(space: Space) -> None:
    space.say("s", ("alice", "I like tea."), ("alice", "I like trains."), ("alice", "I like tall trees."))
    space.settle()
    body = {"query": "does alice like trains", "filters": {"observer": "alice", "observed": "alice"}, "top_k": 1}
    assert space.post("/conclusions/query", body, 200)[0]["content"] == "alice said: I like trains."


def test_small_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert analyse("Where did the cat go?").words == ("cat", "go")
    assert set(analyse("who is it").words) <= SMALL_WORDS
    assert analyse("who is it").words != ()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on 7 May 2023", (2023, 5, 7), (2023, 5, 8)),
        ("on May 7th, 2023?", (2023, 5, 7), (2023, 5, 8)),
        ("in December 2022", (2022, 12, 1), (2023, 1, 1)),
        ("2024-02", (2024, 2, 1), (2024, 3, 1)),
        ("2024-02-29", (2024, 2, 29), (2024, 3, 1)),
    ],
)
def test_a_day_or_month_with_its_year_is_a_time(
    text: str, first: tuple[int, int, int], last: tuple[int, int, int]
) -> None:
    def us(day: tuple[int, int, int]) -> int:
        return int(datetime(*day, tzinfo=UTC).timestamp()) * 1_000_000

    assert named_time(text) == (us(first), us(last))


@pytest.mark.parametrize("text", ["in May", "may I ask", "31 February 2023", "2023", "the 12th", "1234567890123456789"])
def test_anything_less_is_no_time(text: str) -> None:
    assert named_time(text) is None


@pytest.mark.shared
def test_evidence_is_found_at_least_a_twentieth_more_often_than_by_plain_full_text(shared: Path) -> None:
    result = recall.measure(shared / "data" / "locomo10.zip", conversations_wanted=1)
    assert result["evidence_recall_at_10"] >= result["fts_recall_at_10"] + 0.05
