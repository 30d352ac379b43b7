"""Identity: who a turn is of, which conversation it belongs to, and what keeps people apart (SN1 to SN6, B9, cases
F)."""

from __future__ import annotations

import builtins
import io
import os
import timeit
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.model import Reason, SkipReason, Turn, TurnRequest
from honcho_actors.privacy import identity, names
from honcho_actors.privacy.identity import Claimed, Identity, NoIdentity
from honcho_actors.settings import Settings


def settings(**fields: Any) -> Settings:
    made = Settings(base_url="http://127.0.0.1:9", **fields)
    assert not made.problems, made.problems
    return made


def known(request: TurnRequest | Turn, configured: Settings | None = None) -> Identity:
    found = identity.resolve(request, configured or settings())
    assert isinstance(found, Identity), found
    return found


# -- the person --------------------------------------------------------------------------------------------------------


def test_no_user_is_the_configured_peer_while_no_user_is_required() -> None:
    assert known(TurnRequest(session_key="s")).user_peer == "user"
    assert known(TurnRequest(session_key="s"), settings(user_peer="ana")).user_peer == "ana"


def test_no_user_is_no_memory_once_a_user_is_required() -> None:
    found = identity.resolve(TurnRequest(session_key="s"), settings(require_user=True))
    assert found == NoIdentity(Reason.NO_IDENTITY, SkipReason.NO_IDENTITY)
    assert identity.resolve(Turn("s"), settings(require_user=True)) == found


@pytest.mark.parametrize("user", ["", "   ", 7, b"ana", ["ana"], True, Claimed("ana")])
def test_a_user_that_is_no_name_is_nobody_never_the_configured_peer(user: Any) -> None:
    assert isinstance(identity.resolve(TurnRequest(session_key="s", user=user), settings()), NoIdentity)
    assert isinstance(identity.resolve(Turn("s", user=user), settings()), NoIdentity)


def test_the_ladder_is_pin_then_alias_then_prefix_and_id() -> None:
    aliases = {"7654321": "ana", "U0ANA": "ana"}
    plain = settings(user_peer_aliases=aliases)
    assert {known(TurnRequest("s", user=user), plain).user_peer for user in aliases} == {"ana"}
    assert known(TurnRequest("s", user="99"), plain).user_peer == "99"
    prefixed = settings(user_peer_aliases=aliases, user_peer_prefix="tg_")
    assert known(TurnRequest("s", user="99"), prefixed).user_peer == "tg_99"
    assert known(TurnRequest("s", user="7654321"), prefixed).user_peer == "ana"
    pinned = settings(user_peer_aliases=aliases, pin_user_peer=True, user_peer="me")
    assert {known(TurnRequest("s", user=user), pinned).user_peer for user in ("99", "7654321")} == {"me"}


def test_a_pin_makes_somebody_of_nobody_only_where_no_user_is_required() -> None:
    assert isinstance(identity.resolve(TurnRequest("s"), settings(pin_user_peer=True, require_user=True)), NoIdentity)


def test_a_person_never_gets_the_assistants_own_name() -> None:
    for configured, user in ((settings(), "assistant"), (settings(user_peer="bot", ai_peer="bot"), None)):
        found = known(TurnRequest("s", user=user), configured)
        assert found.user_peer != found.ai_peer
        assert found.user_peer != names.peer_id(found.ai_peer)


def test_people_whose_ids_differ_by_punctuation_stay_apart() -> None:
    peers = {
        known(TurnRequest("s", user=user)).user_peer for user in ("jo.ann", "jo-ann", "jo ann", "JO-ANN", "a@b", "a.b")
    }
    assert len(peers) == 6


def test_a_claim_is_an_identity_only_once_the_operators_table_vouches_for_it() -> None:
    claim = Claimed("ana")
    assert claim.vouched({}) is None
    assert claim.vouched({"ana": "7654321"}) == "7654321"
    assert claim.vouched({"ana": "  "}) is None
    assert "ana" not in repr(claim)


# -- the conversation --------------------------------------------------------------------------------------------------


def test_the_entry_key_is_the_first_that_is_not_blank() -> None:
    assert identity.entry_key(TurnRequest("k", "i", "/c")) == "k"
    assert identity.entry_key(TurnRequest(" ", "i", "/c")) == "i"
    assert identity.entry_key(TurnRequest(None, "", "/c")) == "/c"
    assert identity.entry_key(TurnRequest()) == "default"
    odd: Any = 7
    assert identity.entry_key(TurnRequest(odd, odd, odd)) == "default"


def test_SN1_the_session_strategy_uses_the_conversations_own_key() -> None:
    """New value: the key comes before the id, as for the entry; the source took the id first."""
    assert known(TurnRequest("key", "id")).remote_session == "key"
    assert known(Turn("key")).remote_session == "key"


def test_SN2_the_session_strategy_falls_back_to_the_session_id() -> None:
    assert known(TurnRequest(None, "id", "/srv/app")).remote_session == "id"


def test_SN3_the_directory_strategy_uses_the_whole_directory_and_ignores_the_key() -> None:
    """New value: the whole path; the source's last component joined `/x/app` and `/y/app`."""
    configured = settings(session_strategy="directory")
    app, again, other = (known(TurnRequest(key, cwd=cwd), configured) for key, cwd in
                         (("a", "/x/app"), ("b", "/x/app/"), ("c", "/y/app")))  # fmt: skip
    assert app.remote_session == again.remote_session == names.session_id("/x/app")
    assert app.remote_session != other.remote_session
    assert app.session != again.session


def test_a_capture_follows_its_conversations_reads_into_the_same_directory() -> None:
    configured = settings(session_strategy="directory")
    read = known(TurnRequest("a", cwd="/x/app"), configured)
    assert known(Turn("a"), configured).remote_session == read.remote_session
    assert known(Turn("/x/app"), configured).remote_session == read.remote_session
    moved = known(TurnRequest("a", cwd="/somewhere/else"), configured)
    assert moved.remote_session == read.remote_session


def test_a_capture_seen_before_its_first_read_is_resolved_anew_after_it() -> None:
    configured = settings(session_strategy="directory")
    before = known(Turn("late"), configured)
    read = known(TurnRequest("late", cwd="/x/app"), configured)
    assert known(Turn("late"), configured).remote_session == read.remote_session != before.remote_session


def test_SN4_the_global_strategy_uses_the_workspace() -> None:
    found = known(TurnRequest("a"), settings(session_strategy="global", workspace="home"))
    assert found.remote_session == "home"


def test_SN5_the_repo_strategy_outside_a_repository_uses_the_directory(tmp_path: Path) -> None:
    configured = settings(session_strategy="repo")
    found = known(TurnRequest("a", cwd=str(tmp_path)), configured)
    assert found.remote_session == ""
    assert identity.locate(found).remote_session == names.session_id(str(tmp_path))


def test_SN6_the_repo_strategy_in_a_subdirectory_uses_the_repositorys_root(tmp_path: Path) -> None:
    (tmp_path / "app" / ".git").mkdir(parents=True)
    (tmp_path / "app" / "src" / "deep").mkdir(parents=True)
    configured = settings(session_strategy="repo")
    found = known(TurnRequest("a", cwd=str(tmp_path / "app" / "src" / "deep")), configured)
    assert identity.locate(found).remote_session == names.session_id(str(tmp_path / "app"))
    assert identity.locate(identity.locate(found)) == identity.locate(found)


def test_a_worktree_whose_git_is_a_file_is_a_repository_too(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    assert identity.repository_root(str(tmp_path / "a" / "b")) == str(tmp_path)


def test_resolving_looks_at_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    configured = settings(session_strategy="repo")
    known(TurnRequest("warm", cwd="/x"), configured)
    touched: list[str] = []
    for owner, name in ((os, "stat"), (os, "lstat"), (os, "getcwd"), (os, "scandir"), (io, "open"), (builtins, "open")):
        monkeypatch.setattr(owner, name, lambda *args, name=name, **fields: touched.append(name))
    for number in range(50):
        known(TurnRequest(f"k{number}", cwd=f"/x/{number}"), configured)
    monkeypatch.undo()
    assert touched == []


@pytest.mark.parametrize("strategy", ["directory", "repo", "global"])
def test_two_people_in_one_directory_repository_or_workspace_share_no_session(strategy: Any) -> None:
    configured = settings(session_strategy=strategy, require_user=True)
    sessions = {
        identity.locate(known(TurnRequest("k", cwd="/x/app", user=user), configured)).remote_session
        for user in ("ana", "bob", "ana.", "bob.")
    }
    assert len(sessions) == 4


def test_case_61_two_people_without_a_key_share_no_default_session() -> None:
    """The entry's key is `default` by the public names; the remote session is each person's own."""
    ana, bob, owner = (known(TurnRequest(user=user)) for user in ("ana", "bob", None))
    assert len({ana.remote_session, bob.remote_session, owner.remote_session}) == 3
    assert ana.session.key == "default"


@pytest.mark.parametrize("key", ["", "   ", None, 7])
def test_case_61_a_turn_without_a_session_key_is_not_captured(key: Any) -> None:
    assert identity.resolve(Turn(key), settings()) == NoIdentity(skip=SkipReason.NO_SESSION)


def test_a_shared_audience_is_another_conversation_than_the_private_one_of_the_same_key() -> None:
    private, shared = (known(TurnRequest("room", user="ana", audience=audience)) for audience in ("private", "shared"))
    assert private.remote_session != shared.remote_session
    assert private.session != shared.session
    assert shared.session.audience == "shared"
    together = known(TurnRequest("room", user="bob", audience="shared"))
    assert together.remote_session == shared.remote_session
    assert together.session != shared.session


def test_an_unknown_audience_counts_as_shared() -> None:
    odd: Any = "everyone"
    assert known(TurnRequest("room", audience=odd)).session.audience == "shared"


def test_a_partition_is_in_every_key_and_in_every_remote_name() -> None:
    plain, work = (known(TurnRequest("s", user="ana", partition=partition)) for partition in ("", "work"))
    assert work.realm.partition == "work"
    assert work.session.realm == work.realm
    assert len({plain.user_peer, work.user_peer, plain.ai_peer, work.ai_peer}) == 4
    assert plain.remote_session != work.remote_session
    odd: Any = None
    assert isinstance(identity.resolve(TurnRequest("s", partition=odd), settings()), NoIdentity)


def test_another_server_or_workspace_shares_no_key() -> None:
    realms = {
        known(TurnRequest("s"), settings(workspace=workspace)).realm for workspace in ("one", "two", "o ne", "o-ne")
    }
    realms.add(known(TurnRequest("s"), Settings(base_url="http://127.0.0.1:10", workspace="one")).realm)
    assert len(realms) == 5


# -- what a repeat costs -----------------------------------------------------------------------------------------------


def test_a_repeat_is_the_same_object_whatever_the_query() -> None:
    configured = settings()
    first = identity.resolve(TurnRequest("s", user="ana", query="one"), configured)
    assert identity.resolve(TurnRequest("s", user="ana", query="two"), configured) is first


def test_new_settings_are_resolved_anew_and_old_ones_stay_right() -> None:
    generations = [settings(workspace=f"w{number}") for number in range(40)]
    for _ in range(2):
        for number, configured in enumerate(generations):
            assert known(TurnRequest("s"), configured).realm.workspace == f"w{number}"


def test_what_is_remembered_is_bounded() -> None:
    configured = settings()
    for number in range(identity.REMEMBERED + 100):
        identity.resolve(TurnRequest(f"s{number}"), configured)
    assert len(identity._resolvers[id(configured)].memo) <= identity.REMEMBERED


def test_a_repeat_costs_little() -> None:
    """A few hundred nanoseconds on a quiet machine (470 measured); the limit leaves room for a busy one."""
    configured, request = settings(), TurnRequest("telegram:42", user="7654321", query="where were we?")
    identity.resolve(request, configured)
    took = min(timeit.repeat(lambda: identity.resolve(request, configured), number=5_000, repeat=5)) / 5_000
    assert took < 10e-6
