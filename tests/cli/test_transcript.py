"""Reading a conversation: what is taken, what is named and skipped, how it is cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from honcho_actors.cli.story import story
from honcho_actors.cli.transcript import Transcript, Unusable, bundled, read


def lines(tmp_path: Path, *entries: object) -> Transcript:
    path = tmp_path / "talk.jsonl"
    path.write_text("\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in entries))
    return read(path)


def said(role: str, content: str, time: str | None = None, **more: str) -> dict[str, str]:
    return {"role": role, "content": content, **({"time": time} if time else {}), **more}


def test_the_bundled_conversation_is_two_people_in_three_conversations_over_a_fortnight() -> None:
    told = read(bundled())
    assert [(one.key, one.user) for one in told.conversations] == [
        ("boat-shed", "ines"),
        ("cello", "tomasz"),
        ("boat-sunday", "ines"),
    ]
    assert told.skipped == ()
    times = [turn.at for one in told.conversations for turn in one.turns if turn.at]
    assert times == sorted(times)
    assert 12 <= (times[-1] - times[0]).days <= 14


def test_a_bad_line_is_named_by_its_number_and_the_others_are_taken(tmp_path: Path) -> None:
    told = lines(
        tmp_path,
        said("user", "one"),
        "{not json",
        [],
        said("system", "x"),
        said("user", "  "),
        {"role": "user", "content": 5},
        said("assistant", "two"),
    )
    assert told.conversations[0].utterances == (("user", "one"), ("assistant", "two"))
    assert list(told.skipped) == [
        "line 2: not JSON",
        "line 3: not a JSON object",
        "line 4: role is neither user nor assistant",
        "line 5: content is blank",
        "line 6: content is not text",
    ]


def test_a_line_with_an_unreadable_time_is_taken_without_one(tmp_path: Path) -> None:
    told = lines(tmp_path, said("user", "one", "yesterday"), said("assistant", "two", "2026-03-02T10:00:00"))
    assert told.count == 2
    assert told.skipped == ("line 1: its time is not ISO 8601; taken without one",)


def test_several_user_lines_in_a_row_are_one_turn_and_an_answer_without_a_question_is_one(tmp_path: Path) -> None:
    told = lines(
        tmp_path,
        said("assistant", "hello"),
        said("user", "a"),
        said("user", "b"),
        said("assistant", "c"),
        said("user", "d"),
    )
    assert [(turn.prompt, turn.answer) for turn in told.conversations[0].turns] == [
        ((), "hello"),
        (("a", "b"), "c"),
        (("d",), None),
    ]


def test_a_pause_of_more_than_six_hours_begins_a_new_conversation(tmp_path: Path) -> None:
    told = lines(
        tmp_path,
        said("user", "a", "2026-03-02T10:00:00Z"),
        said("assistant", "b", "2026-03-02T15:59:00Z"),
        said("user", "c", "2026-03-02T22:30:00Z"),
    )
    assert [one.utterances for one in told.conversations] == [(("user", "a"), ("assistant", "b")), (("user", "c"),)]


def test_conversations_that_come_back_under_one_name_are_kept_apart(tmp_path: Path) -> None:
    told = lines(
        tmp_path, said("user", "a", session="x"), said("user", "b", session="y"), said("user", "c", session="x")
    )
    assert len({one.key for one in told.conversations}) == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"\n\n", "is empty"), (b"hello\n", "holds no usable line"), (b"\xff\xfe\x00", "not UTF-8")],
)
def test_a_file_without_a_usable_line_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(content)
    with pytest.raises(Unusable, match=words):
        read(path)


@pytest.mark.parametrize("where", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, where: str) -> None:
    with pytest.raises(Unusable, match="cannot be read"):
        read(tmp_path / where)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("conversations", [1, 3])
def test_a_story_of_any_length_tells_every_turn_once_and_shows_every_phase(
    tmp_path: Path, turns: int, conversations: int
) -> None:
    entries = [
        said(role, f"{role} {talk} {turn}", session=f"s{talk}")
        for talk in range(conversations)
        for turn in range(turns)
        for role in ("user", "assistant")
    ]
    told = lines(tmp_path, *entries)
    parts = story(told)
    phases = (parts.known, parts.new_conversation, parts.outage, parts.recovered, parts.restarted)
    real = [step.exchange.prompt[0] for phase in phases for step in phase if step.exchange is not None]
    assert sorted(real) == sorted(one["content"] for one in entries if one["role"] == "user")
    for talk in range(conversations):
        mine = [text for text in real if text.startswith(f"user {talk} ")]
        assert mine == [f"user {talk} {turn}" for turn in range(turns)]
    assert parts.new_conversation
    assert parts.outage
    assert parts.restarted
