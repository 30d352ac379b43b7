"""Where the server is and with what key it is asked (CL17 to CL24, field cases 7 and 8)."""

from __future__ import annotations

import pytest

from honcho_actors.honcho.client import HonchoClient
from honcho_actors.honcho.endpoint import (
    BadEndpoint,
    Endpoint,
    all_private,
    encode_segment,
    is_private,
    keyless_note,
    parse_endpoint,
    usable_key,
)
from honcho_actors.honcho.outcomes import FailureKind, Ok
from tests.support.calls import client, endpoint, failure, read_context
from tests.support.stub_honcho import Said, StubHoncho

KEY = "hk-" + "abc" * 4


@pytest.mark.parametrize(
    "suffix", ["", "/", "/v3", "/v3/", " "], ids=["CL18", "A8 slash", "CL17", "A8 v3 slash", "A8 blank"]
)
async def test_the_spellings_of_one_address_lead_to_the_same_path(suffix: str) -> None:
    async with StubHoncho() as stub, client(stub.url + suffix) as honcho:
        assert isinstance(await read_context(honcho), Ok)
        assert stub.seen[0].path == "/v3/workspaces/w/sessions/s/context"
        assert "//" not in stub.seen[0].target


async def test_A8_a_path_before_the_version_is_kept() -> None:
    async with StubHoncho() as stub, client(stub.url + "/gate//honcho/v3/") as honcho:
        assert isinstance(await read_context(honcho), Ok)
        assert stub.seen[0].path == "/gate/honcho/v3/workspaces/w/sessions/s/context"


@pytest.mark.parametrize(
    "spelling",
    [
        "h:8000",
        "ftp://h",
        "http://u:pa55" + "w0rd@h:8000",
        "http://",
        "http://h:port",
        "http://h/?a=1",
        "http://h\u00e9",
    ],
)
async def test_A8_an_unusable_address_is_a_problem_without_its_secret_and_memory_is_off(spelling: str) -> None:
    parsed = parse_endpoint(spelling, None)
    assert isinstance(parsed, BadEndpoint)
    assert "pa55" not in parsed.problem
    async with HonchoClient(parsed) as honcho:
        refused = failure(await read_context(honcho))
    assert (refused.kind, refused.bytes_sent) == (FailureKind.NOT_CONFIGURED, False)


def test_A8_an_ipv6_address_keeps_its_brackets_in_the_origin_only() -> None:
    parsed = endpoint("http://[::1]:8000")
    assert (parsed.host, parsed.port, parsed.url("v3", "a b")) == ("::1", 8000, "http://[::1]:8000/v3/a%20b")


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        ("production", "api.honcho.dev"),
        ("demo", "demo.honcho.dev"),
        ("LOCAL ", "localhost"),
        ("unheard-of", "api.honcho.dev"),
        (None, "api.honcho.dev"),
    ],
)
def test_CL19_three_environments_map_and_an_unknown_one_means_production(environment: str | None, host: str) -> None:
    parsed = parse_endpoint(None, KEY, environment=environment)
    assert isinstance(parsed, Endpoint)
    assert parsed.host == host


async def test_CL21_a_key_travels_as_a_bearer_header_and_never_in_a_representation() -> None:
    async with StubHoncho() as stub, client(stub.url, f"  {KEY}\n") as honcho:
        await read_context(honcho)
        assert stub.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(endpoint(stub.url, KEY))


@pytest.mark.parametrize("blank", [None, "", "   ", "\n"])
async def test_CL22_no_key_no_header(blank: str | None) -> None:
    async with StubHoncho() as stub, client(stub.url, blank) as honcho:
        await read_context(honcho)
        assert "authorization" not in stub.seen[0].headers


@pytest.mark.parametrize(
    ("host", "noted"),
    [
        ("api.honcho.dev", True),
        ("8.8.8.8", True),
        ("localhost", False),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.20.0.1", False),
        ("192.168.1.1", False),
        ("169.254.1.1", False),
        ("100.64.0.9", False),
        ("[fd00::1]", False),
        ("[fe80::1]", False),
        ("[2001:4860:4860::8888]", True),
        ("172.32.0.1", True),
        ("100.128.0.1", True),
    ],
)
def test_CL23_a_missing_key_is_noted_for_public_hosts_only(host: str, noted: bool) -> None:
    assert bool(keyless_note(endpoint(f"https://{host}"))) is noted
    assert keyless_note(endpoint(f"https://{host}", KEY)) is None


async def test_CL24_an_empty_configuration_is_not_configured_and_asks_nobody() -> None:
    async with HonchoClient(parse_endpoint(None, None)) as honcho:
        refused = failure(await read_context(honcho))
    assert (refused.kind, refused.detail) == (FailureKind.NOT_CONFIGURED, "neither an address nor a key is set")


@pytest.mark.parametrize("key", ["hk-é", "hk-a\x00b", "hk a", "hk-a\nb", "k" * 9000, "hk-a\x7f"])
async def test_A7_an_unusable_key_is_said_once_without_its_text_and_nothing_is_sent(key: str) -> None:
    async with StubHoncho() as stub:
        parsed = parse_endpoint(stub.url, key)
        assert isinstance(parsed, BadEndpoint)
        assert parsed.problem.startswith("the key is present but unusable")
        assert key not in parsed.problem
        async with HonchoClient(parsed) as honcho:
            assert failure(await read_context(honcho)).kind is FailureKind.NOT_CONFIGURED
        assert stub.seen == []


def test_A7_a_harmless_edge_is_trimmed() -> None:
    assert usable_key(" hk-abc \n") == ("hk-abc", "")


async def test_the_key_goes_to_the_configured_origin_alone() -> None:
    async with StubHoncho() as other:
        moved = Said({}, 307, {"location": f"{other.url}/v3/workspaces/w/sessions/s/context"})
        async with StubHoncho(lambda seen: moved) as stub, client(stub.url, KEY) as honcho:
            await read_context(honcho)
            assert len(stub.seen) == 1
        assert other.seen == []


@pytest.mark.parametrize("host", ["8.8.8.8", "[2001:4860:4860::8888]", "[::ffff:8.8.8.8]"])
def test_plain_http_to_a_public_address_is_refused_unless_allowed(host: str) -> None:
    assert parse_endpoint(f"http://{host}") == BadEndpoint("https is demanded off private networks")
    assert isinstance(parse_endpoint(f"http://{host}", allow_public_http=True), Endpoint)
    assert isinstance(parse_endpoint(f"https://{host}"), Endpoint)


def test_every_address_of_a_name_must_be_private() -> None:
    assert all_private(["10.0.0.1", "fe80::1%eth0"])
    assert not all_private(["10.0.0.1", "8.8.8.8"])
    assert not all_private([])
    assert not is_private("not an address")
    assert all_private(["0.0.0.0", "::"]), (
        "as a server prints where it listens; to connect there is to ask this machine"
    )


def test_a_lone_surrogate_in_a_path_becomes_a_replacement_character() -> None:
    assert encode_segment("a\ud800") == "a%EF%BF%BD"
