"""Where a setting comes from, what it falls to, and what is said about it (CF1 to CF23, field cases 94 to 98)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from honcho_actors.cli import mcp, proxy
from honcho_actors.settings import DEFINITIONS, HOSTED_URL, Settings, SettingsCell, Sources

Make = Callable[..., Sources]
NUMBERS = [
    name
    for name, one in DEFINITIONS.items()
    if type(one.kind).__name__ in ("Whole", "Number") and not one.kind.optional  # type: ignore[attr-defined]
]
FLAGS = [name for name, one in DEFINITIONS.items() if type(one.kind).__name__ == "Flag"]
KEY = "key-" + "x" * 20


@pytest.fixture
def places(tmp_path: Path) -> Make:
    """Sources of a process with these variables, and files where a test puts them."""

    def make(environ: Mapping[str, str] | None = None, **files: str | bytes) -> Sources:
        for folder in ("here", "config", "home/.honcho"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        where = {
            "here": tmp_path / "here" / "honcho-actors.toml",
            "user": tmp_path / "config" / "honcho-actors.toml",
            "stored_key": tmp_path / "config" / "api-key",
            "honcho": tmp_path / "home" / ".honcho" / "config.json",
        }
        for name, content in files.items():
            where[name].write_bytes(content.encode() if isinstance(content, str) else content)
        return Sources({} if environ is None else environ, tmp_path / "here", tmp_path / "config", tmp_path / "home")

    return make


def load(sources: Sources, **explicit: Any) -> Settings:
    return Settings.load(sources, **explicit)


def built(name: str, raw: Any) -> Settings:
    given: dict[str, Any] = {name: raw}
    return Settings(**given)


def told(settings: Settings, field: str) -> str:
    """The one problem of this field, as people read it."""
    found = [str(problem) for problem in settings.problems if problem.field == field]
    assert len(found) == 1, settings.problems
    return found[0]


class TestResolution:
    def test_CF1_a_clean_environment_gives_every_documented_default(self, places: Make) -> None:
        settings = load(places())
        assert settings == Settings()
        assert settings.problems == ()
        assert set(settings.sources.values()) == {"default"}
        documented = {
            "enabled": True, "api_key": None, "base_url": None, "workspace": "honcho-actors", "ai_peer": "assistant",
            "require_user": False, "recall_mode": "hybrid", "session_strategy": "session", "context_cadence": 1,
            "dialectic_cadence": 2, "context_tokens": 1200, "dialectic_max_chars": 600, "dialectic_depth": 1,
            "reasoning_level": "low", "reasoning_level_cap": "high", "observation_mode": "directional",
            "save_messages": True, "session_summary": True, "session_dream": True, "inject_in_subagents": False,
            "allow_public_http": False,
            "first_turn_wait": 3.0, "headroom": 0.05, "request_timeout": 10.0, "delivery_timeout": 60.0,
            "dialectic_timeout": 60.0, "settle_time": 15.0, "max_concurrent_requests": 32, "requests_per_second": None,
            "dialectic_per_hour": None, "max_sessions": 10_000, "max_cache_bytes": 67_108_864, "idle_ttl": 7_200.0,
            "representation_ttl": 600.0, "volatile_max_age": 600.0, "snapshot_ttl": 604_800.0,
            "outbox_retention": 2_592_000.0, "outbox_max_bytes": 1_073_741_824, "delivered_window": 200,
            "anchor_window": 1000, "message_max_chars": 25_000, "search_limit": 8, "tool_preview_chars": 500,
            "metrics_port": None, "metrics_host": "127.0.0.1", "admin_port": 0, "user_peer_prefix": "",
            "pin_user_peer": False,
        }  # fmt: skip
        assert {name: getattr(settings, name) for name in documented} == documented

    def test_CF2_the_default_human_peer_is_the_word_user_not_the_login_name(self, places: Make) -> None:
        """The original took $USER; here a login name never becomes a person unasked."""
        assert load(places({"USER": "ada"})).user_peer == "user"

    def test_CF3_a_peer_is_kept_as_it_was_typed_and_made_a_remote_name_elsewhere(self, places: Make) -> None:
        """The original replaced by underscores, which merges people; the injective name belongs to privacy."""
        assert load(places({"HONCHO_ACTORS_USER_PEER": " ada@example.org "})).user_peer == "ada@example.org"

    def test_CF4_the_environment_beats_both_files(self, places: Make) -> None:
        sources = places({"HONCHO_ACTORS_AI_PEER": "a"}, here='ai_peer = "b"', user='ai_peer = "c"')
        settings = load(sources)
        assert (settings.ai_peer, settings.sources["ai_peer"]) == ("a", "HONCHO_ACTORS_AI_PEER")
        assert settings.shadowed["ai_peer"] == ("./honcho-actors.toml", str(sources.config_dir / "honcho-actors.toml"))

    def test_CF5_the_working_directory_s_file_beats_the_user_s_file(self, places: Make) -> None:
        settings = load(places(here='ai_peer = "b"', user='ai_peer = "c"\nuser_peer = "d"'))
        assert (settings.ai_peer, settings.user_peer) == ("b", "d")

    def test_an_explicit_argument_beats_everything(self, places: Make) -> None:
        settings = load(places({"HONCHO_ACTORS_CONTEXT_CADENCE": "4"}), context_cadence=7)
        assert (settings.context_cadence, settings.sources["context_cadence"]) == (7, "explicit")

    def test_CF6_and_98_a_blank_value_is_as_good_as_not_set(self, places: Make) -> None:
        sources = places(
            {"HONCHO_API_KEY": "", "HONCHO_BASE_URL": "  ", "HONCHO_ACTORS_AI_PEER": "\t"},
            user=f'api_key = "{KEY}"\nai_peer = "b"',
        )
        settings = load(sources)
        assert (settings.api_key, settings.base_url, settings.ai_peer) == (KEY, None, "b")
        assert settings.problems == ()
        assert settings.shown()["api_key"] == "present"
        assert KEY not in repr(settings)

    @pytest.mark.parametrize(
        ("field", "typed", "value"),
        [
            *((f"recall_mode-CF7-{word}", word, word.lower()) for word in ("Hybrid", "CONTEXT", "tools")),
            *(
                (f"session_strategy-CF8-{word}", word, word.lower())
                for word in ("Session", "directory", "REPO", "Global")
            ),
            *((f"reasoning_level-CF9-{word}", word, word) for word in ("minimal", "low", "medium", "high", "max")),
            *((f"observation_mode-CF10-{word}", word, word.lower()) for word in ("Directional", "unified")),
        ],
        ids=lambda part: part if isinstance(part, str) else None,
    )
    def test_every_word_of_a_closed_list_is_taken_in_any_case(
        self, places: Make, field: str, typed: str, value: str
    ) -> None:
        name = field.split("-")[0]
        settings = load(places({f"HONCHO_ACTORS_{name.upper()}": f" {typed} "}))
        assert (getattr(settings, name), settings.problems) == (value, ())

    def test_CF11_an_unknown_word_falls_to_the_next_source_and_is_told(self, places: Make) -> None:
        settings = load(places({"HONCHO_ACTORS_RECALL_MODE": "sometimes"}, user='recall_mode = "tools"'))
        assert settings.recall_mode == "tools"
        assert "none of hybrid, context, tools" in told(settings, "recall_mode")

    def test_CF12_a_number_that_cannot_be_read_falls_to_the_next_source_and_is_told(self, places: Make) -> None:
        settings = load(places({"HONCHO_ACTORS_CONTEXT_CADENCE": "soon"}, here="context_cadence = 3"))
        assert settings.context_cadence == 3
        assert "'soon' is not a whole number" in told(settings, "context_cadence")

    def test_CF13_a_first_turn_wait_of_zero_is_honoured_and_a_negative_one_is_not(self, places: Make) -> None:
        assert load(places({"HONCHO_ACTORS_FIRST_TURN_WAIT": "0"})).first_turn_wait == 0.0
        refused = load(places({"HONCHO_ACTORS_FIRST_TURN_WAIT": "-1"}))
        assert (refused.first_turn_wait, len(refused.problems)) == (3.0, 1)

    def test_CF14_on_is_taken_and_an_unknown_truth_value_of_a_gate_closes_it(self, places: Make) -> None:
        """The original fell to the default; a gate of privacy falls to its closed side, whatever weaker sources say."""
        assert load(places({"HONCHO_ACTORS_SAVE_MESSAGES": "on"})).save_messages is True
        closed = load(places({"HONCHO_ACTORS_SAVE_MESSAGES": "maybe"}, user="save_messages = true"))
        assert (closed.save_messages, closed.read_only) == (False, True)
        assert "guards privacy" in told(closed, "save_messages")
        assert load(places({"HONCHO_ACTORS_SESSION_SUMMARY": "maybe"})).session_summary is True

    def test_CF15_an_address_alone_is_a_self_hosted_server(self, places: Make) -> None:
        settings = load(places({"HONCHO_URL": "http://127.0.0.1:8000/v3/"}))
        assert (settings.configured, settings.server_url) == (True, "http://127.0.0.1:8000")

    def test_CF16_a_key_alone_means_the_hosted_service(self, places: Make) -> None:
        settings = load(places({"HONCHO_API_KEY": KEY}))
        assert (settings.configured, settings.server_url) == (True, HOSTED_URL)

    @pytest.mark.parametrize("environ", [{}, {"HONCHO_API_KEY": " ", "HONCHO_URL": ""}], ids=["neither", "blanks"])
    def test_CF17_neither_is_not_configured(self, places: Make, environ: dict[str, str]) -> None:
        assert not load(places(environ)).configured

    def test_CF18_the_master_switch_beats_credentials(self, places: Make) -> None:
        assert not load(places({"HONCHO_API_KEY": KEY, "HONCHO_ACTORS_ENABLED": "no"})).configured

    def test_CF19_credentials_of_the_environment_alone_suffice(self, places: Make) -> None:
        assert load(places({"HONCHO_API_KEY": KEY, "HONCHO_URL": "https://honcho.example"})).configured

    def test_CF20_a_static_switch_off_wins_over_a_key_of_another_tool_in_the_shell(self, places: Make) -> None:
        assert not load(places({"HONCHO_API_KEY": KEY}, here="enabled = false")).configured

    def test_CF21_the_package_s_own_command_starts_the_whole_runtime(self) -> None:
        """There are no two releases here; what ships is one console command, and it is the one that is declared."""
        (command,) = entry_points(group="console_scripts", name="honcho-actors")
        assert callable(command.load())

    def test_an_unreadable_address_never_sends_a_key_s_owner_to_the_hosted_service(self, places: Make) -> None:
        settings = load(places({"HONCHO_API_KEY": KEY, "HONCHO_URL": "localhost:8000"}))
        assert (settings.configured, settings.server_url) == (False, None)
        assert "http://" in told(settings, "base_url")

    @pytest.mark.parametrize(
        "address",
        [
            "ftp://a",
            "http://",
            "http://u:p@host",
            "http://a b",
            "http://a:99999",
            "http://a?x=1",
            "http://a#b",
            "//a",
            "a",
        ],
    )
    def test_a_wrong_address_is_refused_without_being_repeated(self, address: str) -> None:
        settings = Settings(base_url=address)
        assert not settings.configured
        assert "u:p" not in told(settings, "base_url")

    def test_one_server_has_one_id_however_it_is_spelled(self) -> None:
        spelled = [
            "http://Honcho.example",
            "HTTP://honcho.example:80/",
            "http://honcho.example/v3",
            "http://honcho.example//",
        ]
        ids = {Settings(base_url=address).server_id for address in spelled}
        assert len(ids) == 1
        assert len(ids.pop()) == 16
        assert Settings(base_url="https://honcho.example").server_id != Settings(base_url=spelled[0]).server_id

    def test_shared_names_have_an_order_and_the_winner_is_named(self, places: Make) -> None:
        both = load(places({"HONCHO_URL": "http://a:1", "HONCHO_BASE_URL": "http://b:2", "HONCHO_WORKSPACE_ID": "w"}))
        assert (both.base_url, both.sources["base_url"], both.workspace) == ("http://a:1", "HONCHO_URL", "w")
        own = load(places({"HONCHO_URL": "http://a:1", "HONCHO_ACTORS_BASE_URL": "http://c:3"}))
        assert own.base_url == "http://c:3"
        fallen = load(places({"HONCHO_URL": "nonsense", "HONCHO_BASE_URL": "http://b:2"}))
        assert (fallen.base_url, len(fallen.problems)) == ("http://b:2", 1)

    def test_a_stored_key_comes_before_the_environment(self, places: Make) -> None:
        settings = load(places({"HONCHO_API_KEY": "from-the-environment"}, stored_key=KEY + "\n"))
        assert settings.api_key == KEY

    def test_a_key_file_is_named_by_a_variable_and_its_absence_is_told(self, places: Make, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(KEY)
        assert load(places({"HONCHO_API_KEY_FILE": str(tmp_path / "key")})).api_key == KEY
        absent = load(places({"HONCHO_API_KEY_FILE": str(tmp_path / "gone"), "HONCHO_API_KEY": KEY}))
        assert absent.api_key == KEY
        assert "no such file" in told(absent, "api_key")

    def test_a_file_of_the_working_directory_cannot_say_where_memory_goes(self, places: Make) -> None:
        settings = load(places(here=f'base_url = "http://elsewhere:1"\napi_key = "{KEY}"\nai_peer = "b"'))
        assert (settings.base_url, settings.api_key, settings.ai_peer) == (None, None, "b")
        assert {problem.field for problem in settings.problems} == {"base_url", "api_key"}
        assert KEY not in " ".join(map(str, settings.problems))

    def test_a_file_of_the_working_directory_cannot_switch_memory_off_by_naming_an_address(self, places: Make) -> None:
        assert load(places({"HONCHO_API_KEY": KEY}, here='base_url = "http://elsewhere:1"')).server_url == HOSTED_URL

    def test_what_honcho_s_own_tools_stored_is_the_last_source(self, places: Make) -> None:
        stored = f'{{"apiKey": "{KEY}", "environmentUrl": "http://a:1", "peerId": "x"}}'
        settings = load(places(honcho=stored))
        assert (settings.api_key, settings.base_url, settings.problems) == (KEY, "http://a:1", ())
        assert settings.sources["base_url"] == "~/.honcho/config.json"


class TestPresets:
    @pytest.mark.parametrize("mode", ["directional", "unified"], ids=["CF22", "CF23"])
    def test_the_observation_mode_is_one_word_that_names_who_observes_whom(self, mode: str) -> None:
        """The four flags of each mode are asserted where sessions are established, in the tests of the client."""
        assert Settings(observation_mode=mode).observation_mode == mode  # type: ignore[arg-type]


class TestFieldCases:
    @pytest.mark.parametrize(
        ("typo", "meant"),
        [
            ("save_mesages", "save_messages"),
            ("Save_Messages", "save_messages"),
            ("recallMode", "recall_mode"),
            ("redact", None),
        ],
    )
    def test_94_a_mistyped_name_boots_and_names_the_nearest_known_one(
        self, places: Make, typo: str, meant: str | None
    ) -> None:
        settings = load(places(user=f"{typo} = false"))
        text = told(settings, typo)
        assert "no setting has this name" in text
        assert (f"did you mean {meant}?" in text) if meant else ("did you mean" not in text)

    def test_94_a_mistyped_variable_is_told_with_the_whole_name_that_was_meant(self, places: Make) -> None:
        settings = load(places({"HONCHO_ACTORS_SAVE_MESAGES": "false"}))
        assert "did you mean HONCHO_ACTORS_SAVE_MESSAGES?" in told(settings, "HONCHO_ACTORS_SAVE_MESAGES")

    def test_the_tokens_that_commands_read_by_themselves_are_no_mistyped_settings(self, places: Make) -> None:
        variables = {proxy.TOKEN_VARIABLE: "t", mcp.TOKEN_VARIABLE: "t"}
        assert load(places(variables)).problems == ()

    @pytest.mark.parametrize("name", FLAGS)
    def test_95_text_for_a_truth_value_is_read_and_never_true_by_being_non_empty(self, places: Make, name: str) -> None:
        for word in ("false", "False", "no", "off", "0"):
            settings = load(places(user=f'{name} = "{word}"'))
            assert (getattr(settings, name), settings.problems) == (False, ())
        one = DEFINITIONS[name]
        unknown: tuple[Any, ...] = ("maybe", 0, 1, [], {}, 0.0)
        for raw in unknown:
            settings = built(name, raw)
            assert getattr(settings, name) is (one.closed if one.is_gate else one.default)
            assert told(settings, name)
        assert load(places(user=f'{name} = ""')).problems == ()

    def test_95_a_word_that_looks_like_a_truth_value_stays_a_word(self, places: Make) -> None:
        assert load(places(user='user_peer = "off"')).user_peer == "off"

    @pytest.mark.parametrize("name", NUMBERS)
    def test_96_a_number_is_read_strictly(self, name: str) -> None:
        default = DEFINITIONS[name].default
        refused: tuple[Any, ...] = (
            "30m",
            float("nan"),
            float("inf"),
            "1e309",
            True,
            False,
            10**30,
            None,
            "1_000",
            "٣",
            [],
            10**400,
        )
        for raw in refused:
            settings = built(name, raw)
            assert getattr(settings, name) == default
            assert told(settings, name)
        if type(DEFINITIONS[name].kind).__name__ == "Whole":
            broken: tuple[Any, ...] = (2.5, "2.5", 5.0)
            for raw in broken:
                assert told(built(name, raw), name)
        if name != "context_tokens":  # where zero and less mean: no block
            assert told(built(name, -1), name)

    @pytest.mark.parametrize("raw", [0, -1, -500])
    def test_96_no_room_for_a_block_can_be_said(self, raw: int) -> None:
        assert Settings(context_tokens=raw).context_tokens == raw

    @pytest.mark.parametrize("raw", ['["a"]', "null", "{", '{"a": 1}', "a"])
    def test_97_a_table_given_as_other_text_is_told(self, places: Make, raw: str) -> None:
        settings = load(places({"HONCHO_ACTORS_USER_PEER_ALIASES": raw}))
        assert dict(settings.user_peer_aliases) == {}
        assert told(settings, "user_peer_aliases")

    def test_97_a_table_is_taken_from_a_file_and_from_the_environment(self, places: Make) -> None:
        assert dict(load(places(user='[user_peer_aliases]\n"telegram:7" = "ada"')).user_peer_aliases) == {
            "telegram:7": "ada"
        }
        given = load(places({"HONCHO_ACTORS_USER_PEER_ALIASES": '{"telegram:7": "ada"}'}))
        assert dict(given.user_peer_aliases) == {"telegram:7": "ada"}

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"ai_peer = [", "not TOML"),
            (b"\xff\xfe\x00", "not UTF-8"),
            (b"# " + b"x" * 10_000_000, "larger than"),
            (b"a = 1,\n", "not TOML"),
        ],
        ids=["broken", "other encoding", "10 MB", "trailing comma"],
    )
    def test_97_a_broken_file_is_told_without_its_contents(self, places: Make, content: bytes, reason: str) -> None:
        settings = load(places(user=content))
        assert settings == Settings()
        assert reason in told(settings, "file")

    @pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbfai_peer = 'b'"], ids=["empty", "byte order mark"])
    def test_97_an_empty_file_and_a_byte_order_mark_are_no_problem(self, places: Make, content: bytes) -> None:
        settings = load(places(user=content))
        assert settings.problems == ()
        assert settings.ai_peer == ("b" if content else "assistant")

    @pytest.mark.parametrize("content", ["[]", "null", "{,}", "[" * 100_000], ids=["list", "null", "comma", "deep"])
    def test_97_a_broken_file_of_honcho_s_tools_is_told(self, places: Make, content: str) -> None:
        assert told(load(places(honcho=content)), "file")

    def test_97_a_directory_and_a_pipe_in_a_file_s_place_are_told(self, places: Make) -> None:
        sources = places()
        (sources.directory / "honcho-actors.toml").mkdir()
        os.mkfifo(sources.config_dir / "honcho-actors.toml")
        settings = load(sources)
        assert [problem.text.count("not a regular file") for problem in settings.problems] == [1, 1]

    def test_97_an_unreadable_file_is_told(self, places: Make) -> None:
        sources = places(user="ai_peer = 'b'")
        os.chmod(sources.config_dir / "honcho-actors.toml", 0)
        settings = load(sources)
        if os.geteuid() == 0:  # the superuser reads it all the same
            assert settings.ai_peer == "b"
        else:
            assert "permission denied" in told(settings, "file")


class TestEpochs:
    def test_99_a_key_that_comes_late_is_seen_by_the_next_poll(self, places: Make) -> None:
        environ: dict[str, str] = {}
        cell = SettingsCell(sources=places(environ))
        first = cell.current
        assert (first.configured, cell.poll()) == (False, False)
        environ["HONCHO_API_KEY"] = KEY
        assert cell.poll()
        assert (cell.current.configured, cell.current.epoch) == (True, first.epoch + 1)
        assert not cell.poll()

    def test_100_a_changed_file_is_a_new_epoch_and_an_explicit_value_stays(self, places: Make) -> None:
        sources = places(user='ai_peer = "a"')
        cell = SettingsCell(sources=sources, user_peer="ada")
        seen: list[Settings] = []
        cell.subscribe(seen.append)
        (sources.config_dir / "honcho-actors.toml").write_text('ai_peer = "other"\nuser_peer = "eve"')
        assert cell.poll()
        assert (cell.current.ai_peer, cell.current.user_peer, cell.current.epoch) == ("other", "ada", 2)
        assert seen == [cell.current]

    def test_a_touched_file_with_the_same_values_is_no_new_epoch(self, places: Make) -> None:
        sources = places(user='ai_peer = "a"')
        cell = SettingsCell(sources=sources)
        (sources.config_dir / "honcho-actors.toml").write_text('ai_peer = "a"\n# a remark')
        assert not cell.poll()
        assert cell.current.epoch == 1

    def test_94_a_name_mistyped_while_it_runs_is_told_at_once_though_no_value_changed(self, places: Make) -> None:
        sources = places(user='ai_peer = "a"')
        cell = SettingsCell(sources=sources)
        told: list[int] = []
        cell.subscribe(lambda settings: told.append(len(settings.problems)))
        path = sources.config_dir / "honcho-actors.toml"
        path.write_text('ai_peer = "a"\ncontext_cadense = 3')
        assert not cell.poll(), "no value has changed"
        path.write_text('ai_peer = "a"\n')
        assert not cell.poll()
        assert (told, cell.current.epoch) == ([1, 0], 1)

    def test_settings_that_were_loaded_by_the_caller_are_read_again_too(self, places: Make) -> None:
        environ = {"HONCHO_ACTORS_AI_PEER": "a"}
        cell = SettingsCell(load(places(environ), user_peer="ada"))
        environ["HONCHO_ACTORS_AI_PEER"] = "b"
        assert cell.poll()
        assert (cell.current.ai_peer, cell.current.user_peer, cell.current.epoch) == ("b", "ada", 2)

    def test_a_change_between_the_loading_and_the_cell_is_not_missed(self, places: Make) -> None:
        environ = {"HONCHO_ACTORS_AI_PEER": "a"}
        loaded = load(places(environ))
        environ["HONCHO_ACTORS_AI_PEER"] = "b"
        cell = SettingsCell(loaded)
        assert cell.poll()
        assert cell.current.ai_peer == "b"

    def test_of_two_readings_at_once_the_older_one_does_not_stay_in_force(self, places: Make) -> None:
        environ = {"HONCHO_ACTORS_SAVE_MESSAGES": "true"}
        cell = SettingsCell(sources=places(environ))
        lock = cell._lock

        class ReadsMeanwhile:
            """Another thread reads, between the reading here and its publication."""

            def __enter__(self) -> None:
                cell._lock = lock
                environ["HONCHO_ACTORS_SAVE_MESSAGES"] = "false"
                assert cell.poll()
                lock.acquire()

            def __exit__(self, *_: object) -> None:
                lock.release()

        environ["HONCHO_ACTORS_AI_PEER"] = "b"
        cell._lock = ReadsMeanwhile()  # type: ignore[assignment]
        cell.reload()
        cell.poll()
        assert cell.current.read_only

    def test_loaded_settings_that_were_changed_by_hand_stay_as_they_were_made(self, places: Make) -> None:
        environ = {"HONCHO_ACTORS_AI_PEER": "a"}
        cell = SettingsCell(replace(load(places(environ)), user_peer="ada"))
        environ["HONCHO_ACTORS_AI_PEER"] = "b"
        assert not cell.poll()
        assert (cell.current.ai_peer, cell.current.user_peer) == ("a", "ada")

    def test_settings_that_were_built_by_hand_change_only_by_publication(self) -> None:
        cell = SettingsCell(Settings(ai_peer="a"))
        assert not cell.reload()
        assert not cell.publish(Settings(ai_peer="a"))
        assert cell.publish(Settings(ai_peer="b"))
        assert (cell.current.ai_peer, cell.current.epoch) == ("b", 2)

    def test_settings_are_immutable_and_have_a_hash(self) -> None:
        settings = Settings(user_peer_aliases={"a": "b"})
        with pytest.raises(AttributeError):
            settings.ai_peer = "other"  # type: ignore[misc]
        with pytest.raises(TypeError):
            settings.user_peer_aliases["a"] = "c"  # type: ignore[index]
        assert hash(settings) == hash(Settings(user_peer_aliases={"a": "b"}))
