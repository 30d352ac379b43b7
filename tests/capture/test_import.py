"""Importing: three formats, found by themselves; once, resumable; bad lines named by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.capture.importer import NotReadable, Problems, import_files, look_over, read_file, turns_of
from tests.support.capture_rig import Rig, stored, texts
from tests.support.shared_faults import faults

CHAT = [
    ("user", "hello"),
    ("assistant", "hi"),
    ("user", "where were we?"),
    ("user", "in the garden"),
    ("assistant", "yes"),
]


def jsonl(path: Path, extra: str = "") -> Path:
    lines = [
        json.dumps({"role": role, "content": text, "time": f"2026-03-0{number + 1}T10:00:00Z"})
        for number, (role, text) in enumerate(CHAT)
    ]
    path.write_text("\n".join(lines) + "\n" + extra, "utf-8")
    return path


def openai(path: Path) -> Path:
    messages: list[Any] = [{"role": "system", "content": "be kind"}]
    messages += [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in CHAT]
    path.write_text(json.dumps({"messages": messages}), "utf-8")
    return path


def chatgpt(path: Path) -> Path:
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0", "other"]}}
    parent = "root"
    for number, (role, text) in enumerate(CHAT):
        mapping[f"n{number}"] = {
            "parent": parent,
            "message": {
                "author": {"role": role},
                "create_time": 1_770_000_000.5 + number,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        parent = f"n{number}"
    mapping["other"] = {
        "parent": "root",
        "message": {"author": {"role": "user"}, "content": {"parts": ["an abandoned branch"]}},
    }
    path.write_text(json.dumps([{"title": "t", "id": "conv-1", "mapping": mapping, "current_node": parent}]), "utf-8")
    return path


@pytest.mark.parametrize("write", [jsonl, openai, chatgpt])
def test_each_format_is_found_by_itself_imported_in_order_and_never_twice(
    honcho: str, workspace: str, state: Path, tmp_path: Path, write: Any
) -> None:
    path = write(tmp_path / f"chat-{write.__name__}.json")
    with Rig(state, honcho, workspace=workspace) as rig:
        first = import_files(rig.capture, [path])
        assert (first.conversations, first.messages, first.accepted, first.known) == (1, 5, 5, 0)
        assert rig.capture.flush(30.0)
    with faults(honcho) as proxy, Rig(state, honcho, workspace=workspace) as rig:
        again = import_files(rig.capture, [path])
        assert (again.accepted, again.known) == (0, 5)
        assert rig.capture.flush(30.0)
        assert not proxy.requests()
    key = next(iter(read_file(path, Problems()))).key
    assert texts(honcho, key, workspace) == [text for _, text in CHAT]
    assert [message["peer_id"] for message in stored(honcho, key, workspace)] == [role for role, _ in CHAT]


def test_an_import_outlives_the_delivered_window_and_an_interruption(
    honcho: str, workspace: str, state: Path, tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    lines = [json.dumps({"role": role, "content": f"{role} {n}"}) for n in range(40) for role in ("user", "assistant")]
    path.write_text("\n".join(lines[:31]) + "\n", "utf-8")
    more: dict[str, Any] = {"delivered_window": 1, "anchor_window": 1, "ports": {"sweep_every": 0.1}}
    more["workspace"] = workspace
    with Rig(state, honcho, **more) as rig:
        assert import_files(rig.capture, [path]).accepted == 31
        assert rig.capture.flush(30.0)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    with Rig(state, honcho, **more) as rig:
        result = import_files(rig.capture, [path])
        assert (result.known, result.accepted) == (31, 49)
        assert rig.capture.flush(30.0)
        assert import_files(rig.capture, [path]).accepted == 0
    assert texts(honcho, "long", workspace) == [json.loads(line)["content"] for line in lines]


def test_bad_lines_are_named_by_number_and_skipped(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "chat.jsonl", extra='not json\n{"role": 7}\n{"role": "user", "content": "last"}\n')
    problems = Problems()
    conversation = next(iter(read_file(path, problems)))
    assert conversation.messages[-1].text == "last"
    assert problems.found == [f"chat.jsonl: line {number} is no message and was skipped" for number in (6, 7)]


@pytest.mark.parametrize("content", ["", "   \n", "just prose\nand more", '{"a": 1}', "[1, 2]", "[]"])
def test_a_file_that_is_nothing_of_the_kind_is_refused_with_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "thing.txt"
    path.write_text(content)
    with pytest.raises(NotReadable) as refused:
        list(read_file(path, Problems()))
    assert "\n" not in str(refused.value)
    with pytest.raises(NotReadable):
        list(read_file(tmp_path / "absent", Problems()))
    with pytest.raises(NotReadable):
        list(read_file(tmp_path, Problems()))


def test_lines_may_name_their_conversations_and_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    lines = [
        {"role": role, "content": "the same", "conversation": name} for name in "abab" for role in ("user", "assistant")
    ]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    found = list(read_file(path, Problems()))
    assert [conversation.key for conversation in found] == ["a", "b"]
    ids = [turn.turn_id for conversation in found for turn in turns_of(conversation, None, "")]
    assert len(ids) == len(set(ids)) == 8


def test_two_files_of_one_name_are_refused_unless_they_name_their_conversation(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "chat.jsonl" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        jsonl(path)
    assert look_over([paths[0], paths[0]]) == 2 * len(CHAT)
    with pytest.raises(NotReadable, match="another file name"):
        look_over(paths)
    for day, path in enumerate(paths, 1):
        line = {"role": "user", "content": "hi", "conversation": "ada", "time": f"2026-03-0{day}T10:00:00Z"}
        path.write_text(json.dumps(line), "utf-8")
    assert look_over(paths) == 2
    said = [turn for path in paths for one in read_file(path, Problems()) for turn in turns_of(one, None, "")]
    assert len({turn.turn_id for turn in said}) == 2


def test_a_file_to_which_a_second_conversation_is_added_keeps_the_name_of_its_first(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    keys = []
    for lines in (1, 2):
        path.write_text("\n".join([line] * lines), "utf-8")
        keys.append([one.key for one in read_file(path, Problems())])
    assert keys == [["talks"], ["talks", "talks-2"]]
