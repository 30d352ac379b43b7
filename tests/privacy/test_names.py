"""Names: injective, valid, bounded, stable (scenarios SN, field cases 57 to 63)."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from honcho_actors.privacy import names

VALID = re.compile(r"[A-Za-z0-9_-]{1,100}")
MADE = re.compile(r".{1,66}--[0-9a-f]{32}")

Name = Callable[[str], str]
REMOTE: tuple[Name, ...] = (names.session_id, names.peer_id, names.workspace_id)


def check_distinct(keys: list[str], name: Name = names.session_id) -> list[str]:
    made = [name(key) for key in keys]
    assert len(set(made)) == len(keys), made
    assert all(VALID.fullmatch(one) for one in made), made
    return made


@pytest.mark.parametrize("name", REMOTE)
def test_SN13_a_short_clean_key_is_its_own_name(name: Name) -> None:
    for key in ("conv-1", "a", "Team_7", "7654321", "x" * 100, "-", "_", "a-b"):
        assert name(key) == key


def test_SN7_a_disallowed_run_becomes_one_dash_trimmed_at_the_ends_and_a_digest_of_the_key_follows() -> None:
    """New value: the source stopped at `a-b`, where it met the names of `a/b` and of `a-b` itself (seed 000)."""
    assert re.fullmatch(r"a-b--[0-9a-f]{32}", names.session_id("//a::b!!"))


def test_SN8_a_key_of_punctuation_has_a_name_of_its_own() -> None:
    """New value: the source gave it the workspace's name, which every such key then shared."""
    check_distinct(["!!!", "...", "?", "::", "workspace"])


def test_SN9_nothing_usable_anywhere_still_gives_a_valid_name() -> None:
    assert all(VALID.fullmatch(name) for name in (names.workspace_id(""), names.session_id("\u2603")))


def test_SN10_an_over_long_key_is_cut_to_at_most_100_with_a_digest() -> None:
    """New value: 32 hex digits where the source had 8, which meet by chance among some ten thousand keys."""
    assert MADE.fullmatch(names.session_id("x" * 101))


def test_SN11_two_long_keys_with_a_common_prefix_differ_and_are_both_100_long() -> None:
    first, second = check_distinct(["y" * 300 + "1", "y" * 300 + "2"])
    assert len(first) == len(second) == 100


def test_SN12_a_name_is_the_same_in_every_process_whatever_the_hash_seed() -> None:
    keys = ["telegram:42", "我的專案", "Café", "a/b"]
    code = f"from honcho_actors.privacy import names; print([names.session_id(k) for k in {keys!r}])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[names.session_id(key) for key in keys]}\n".encode()}


def test_case_57_a_long_matrix_key_gives_a_short_valid_name() -> None:
    key = "agent:main:matrix:group:!" + "q" * 60 + ":server.example:$" + "e" * 40
    assert MADE.fullmatch(names.session_id(key))
    assert len(names.session_id(key)) <= 100


def test_case_58_long_keys_that_differ_in_their_last_character_only_stay_apart() -> None:
    check_distinct(["k" * 199 + tail for tail in "abc"])


def test_case_59_keys_that_differ_by_punctuation_only_stay_apart() -> None:
    check_distinct(["a:b/c", "a/b:c", "a-b-c", "a_b_c", "a b c", "a..b..c"])


def test_case_61_keys_with_nothing_to_keep_stay_apart() -> None:
    """What a missing key means is decided by `identity`."""
    check_distinct(["我的專案", "プロジェクト", "!!!", "...", "-"])


def test_case_62_case_and_normal_form_are_never_folded_and_a_surrogate_has_a_name() -> None:
    check_distinct(["Team", "team", "Caf\u00e9", "Cafe\u0301", "a\ud83d", "a\ud83e", "a"])


def test_case_63_peers_and_workspaces_follow_the_same_rule() -> None:
    check_distinct(["jo.ann", "jo-ann", "Jo Ann", "jo ann"], names.peer_id)
    assert VALID.fullmatch(names.workspace_id("hermes workspace"))


def test_a_key_that_looks_like_a_made_name_gets_a_digest_of_its_own() -> None:
    once = names.session_id("a/b")
    assert names.session_id(once) != once
    check_distinct(["a/b", once, names.session_id(once)])


def test_a_name_shows_nothing_of_a_credential_in_its_key() -> None:
    secret = "ghp" + "_" + "aB3" * 12
    for key in (secret, f"chat:{secret}", f"https://ana:{'pw' * 4}@host/room", "room?token=" + "s3cr" * 4):
        for name in (*REMOTE, names.file_name):
            assert re.fullmatch(r"[a-z]--[0-9a-f]{32}", name(key)), key


def test_bounds_make_another_name_than_any_plain_key_and_no_two_combinations_meet() -> None:
    combinations = [
        ("k",),
        ("k", "a"),
        ("k", "a", "b"),
        ("k", "ab"),
        ("k", "", "ab"),
        ("k", "ab", ""),
        ("kab",),
        ("k", "a:b"),
    ]
    made = [names.apart(*parts) for parts in combinations]
    assert len({*made, *(names.session_id(one) for one in made)}) == 2 * len(combinations)
    assert all(VALID.fullmatch(one) for one in made)


def test_file_names_stay_apart_on_a_file_system_that_folds_case_and_reserves_devices() -> None:
    keys = ["telegram:123", "CON", "con", "nul", "a/../../b", "x.", "X.", "x" * 300, "Team", "team", "", "..", "LPT1"]
    made = [names.file_name(key) for key in keys]
    assert len({one.casefold() for one in made}) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,99}", one) for one in made)
    assert not {"con", "nul", "lpt1"} & set(made)


def adversarial(dice: random.Random, count: int) -> Iterator[str]:
    """Keys that are near each other: same letters, other punctuation, long tails, made names and their neighbours."""
    alphabet = "ab-_:/. \u00e9"
    kept: list[str] = ["seed"]
    for number in range(count):
        kind = number % 5
        if kind == 0:
            key = "".join(dice.choices(alphabet, k=dice.randint(1, 12))) + str(number)
        elif kind == 1:
            key = "x" * dice.randint(60, 120) + str(number)
        elif kind == 2:
            key = names.session_id(dice.choice(kept)) + dice.choice(("", "-", "0", ":"))
        elif kind == 3:
            key = f"{dice.choice('abc')}--{dice.getrandbits(128):032x}"
        else:
            key = f"user{number}"
        if len(kept) < 512:
            kept.append(key)
        yield key


@pytest.mark.timeout(900)
def test_no_two_keys_meet_and_all_names_are_valid(request: pytest.FixtureRequest) -> None:
    count: int = request.config.getoption("--names", default=100_000)
    dice = random.Random(20261130)
    keys = set(adversarial(dice, count))
    keys |= {names.session_id(key) for key in keys}
    made: dict[str, str] = {}
    fullmatch = VALID.fullmatch
    for key in keys:
        name = names.session_id(key)
        assert fullmatch(name), key
        assert made.setdefault(name, key) == key
    assert len(made) == len(keys) >= count
