"""The egress rules: how much they catch, what they leave alone, and that no text makes them slow (field case 69)."""

from __future__ import annotations

import base64
import gzip
import json
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import egress as benchmark
from benchmarks._egress_corpus import Half, hostile, make
from honcho_actors.privacy import egress, rules, screeners
from honcho_actors.privacy.egress import Gate, Withheld
from honcho_actors.privacy.rules import disguises
from honcho_actors.privacy.text import inspected
from tests.privacy.canaries import alnum, hexdigits


def withheld(text: str) -> bool:
    return isinstance(egress.verdict(text, 1 << 20), Withheld)


@pytest.mark.parametrize("half", ["seen", "blind"])
def test_the_gate_meets_its_bars_on_both_halves_of_the_corpus(half: Half) -> None:
    scores = benchmark.scores(make(half, innocents_each=10), benchmark.own)
    assert scores["recall"] >= 0.97
    assert scores["hard_recall"] >= 0.8
    assert scores["false_alarm_rate"] <= 0.02


@pytest.mark.shared
def test_the_gate_meets_its_bars_on_the_shared_corpus(shared: Path) -> None:
    file = shared / "data" / "egress-corpus.jsonl.gz"
    if not file.is_file():
        pytest.skip("the shared egress corpus is absent")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        assert json.loads(next(lines))["text"]
    scores = benchmark.scores(benchmark.shared_corpus() or [], benchmark.own)
    assert scores["recall"] >= 0.97
    assert scores["hard_recall"] >= 0.8
    assert scores["false_alarm_rate"] <= 0.02


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "the admin password for the printer is {}"),
        ("es", "la contraseña de la casa es {}"),
        ("de", "das Passwort fürs Büro lautet {}"),
        ("fr", "mon mot de passe c'est {}"),
        ("pt", "minha senha do banco: {}"),
        ("it", "la mia password è {}"),
        ("nl", "mijn wachtwoord is {}"),
        ("pl", "hasło to {}"),
        ("ru", "пароль от почты {}"),
        ("tr", "şifre: {}"),
        ("sv", "lösenordet är {}"),
        ("zh", "我的密码是{},谢谢"),
        ("ja", "パスワードは{}です"),
        ("ko", "비밀번호는 {} 입니다"),
        ("vi", "mật khẩu là {}"),
        ("ar", "كلمة المرور هي {}"),
    ],
)
def test_a_password_said_in_a_sentence_is_withheld_in_many_languages(language: str, sentence: str) -> None:
    assert withheld(sentence.format("Mango!" + "4711"))
    assert not withheld(sentence.format("..."))


@pytest.mark.parametrize(
    "text",
    [
        "password: str | None = None",
        "password = getpass.getpass('Password: ')",
        "db_password: ${DB_PASSWORD}",
        "token: {{ vault.token }}",
        'api_key = os.environ["API_KEY"]',
        "export API_KEY=<your key here>",
        "SELECT password_hash FROM users WHERE id = 7",
        "secretKeyRef:\n  name: app-secrets\n  key: password",
        "password: ********",
        "postgres://user:password@localhost:5432/app",
        "max_tokens=4096, temperature=0.7",
        "the PIN must be 4 digits",
        "zip code 90210",
        "Caroline passes the adoption agency interviews.",
        "| field | password | hashed with |\n|---|---|---|\n| users | yes | argon2id |",
        "postgres://user:password@localhost/app?note=a@b",
        "kind: Secret\nmetadata:\n  name: mysecret\ndata:\n  password: <base64>",
        "the password is case-sensitive and up-to-date",
        "\u0418\u0306\u043e\u0434, cafe\u0301, 2019\u20132020, H\u2082O",
    ],
)
def test_code_and_schemas_that_speak_of_credentials_pass(text: str) -> None:
    assert not withheld(text)


PASSWORD = "Mango!" + "4711x"
KEY = "gh" + "p_" + alnum(36)
_BODY = "\n".join(alnum(64, seed) for seed in range(3))


@pytest.mark.parametrize(
    "text",
    [
        *(
            unicodedata.normalize("NFD", said) + PASSWORD
            for said in (
                "mi contrase\u00f1a es ",
                "\u015fifre ",
                "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f",
                "\ube44\ubc00\ubc88\ud638\ub294 ",
                "m\u1eadt kh\u1ea9u l\u00e0 ",
            )
        ),
        *(f"hch{dash}v3{dash}{alnum(40)}" for dash in "\u2010\u2011\u2012\u2013\u2212"),
        KEY.replace("h", "\u04bb"),
        f"\u2014\u2013BEGIN RSA {'PRIVATE'} KEY\u2014\u2013\n{_BODY}",
        f"---- BEGIN SSH2 ENCRYPTED {'PRIVATE'} KEY ----\n{_BODY}",
        f"SECRET_KEY_BASE={hexdigits(128)}",
        f"DB_PASS_1={PASSWORD}",
        f"password: |\n  {PASSWORD}",
        f"| user | password |\n|---|---|\n| ines | {PASSWORD} |",
        f"new NetworkCredential('ines', '{PASSWORD}')",
        f"requirepass {alnum(16)}",
        f"get(url, auth=('ines', '{PASSWORD}'))",
        f"user.setPassword('{PASSWORD}')",
        "Password\nmango" + "47",
        f"my pasword is {PASSWORD}",
        f"the passwrod: {PASSWORD}",
        "my password is maple-otter-lantern",
        f"https://{alnum(40)}@github.com/x/y",
        "postgres://u:" + "ab/cD1@eF2@db/x",
        f"kind: Secret\ndata:\n  db: {base64.b64encode(PASSWORD.encode()).decode()}",
        f'"{KEY[:14]}" + "{KEY[14:]}"',
        f"'{KEY[:14]}'\n    '{KEY[14:]}'",
        f"{KEY[:14]}=\n{KEY[14:]}",
        " ".join(KEY),
        KEY.encode().hex(),
        base64.b64encode(base64.b64encode(KEY.encode())).decode(),
        "".join(f"\\{ord(char):03o}" for char in KEY),
        "".join(f"\\u{{{ord(char):x}}}" for char in KEY),
    ],
    ids=lambda text: ascii(text[:10]),
)
def test_a_credential_is_seen_as_people_paste_it(text: str) -> None:
    assert withheld(f"look: {text}\nthanks")


def test_a_signed_token_is_withheld_however_short_its_halves_are() -> None:
    halves = ({"alg": "HS256"}, {"sub": "1234"})
    parts = [base64.urlsafe_b64encode(json.dumps(one, separators=(",", ":")).encode()).decode() for one in halves]
    token = ".".join((*(part.rstrip("=") for part in parts), "Xy9_" * 9))
    for text in (f"here: {token}", f"please use {token} for it", f"https://example.org/in/{token}", token):
        assert isinstance(egress.verdict(text, 2000), egress.Withheld), text[:20]
    assert isinstance(egress.verdict("read eyJhb.eyJzd.abc in that page", 2000), egress.Screened)


def test_a_rule_that_fails_withholds(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> str | None:
        raise ZeroDivisionError(text)

    monkeypatch.setattr(rules, "find", broken)
    assert egress.verdict("hello", 10) == Withheld("rule_failed")


pieces = st.sampled_from(
    [
        *"aZ9-_=:/.@ \n\"'\u5bc6\u0430\u0301\u200b\U0001f600%\\&",
        "password",
        "key",
        "sk-",
        "eyJ",
        "://",
        " is ",
        "\u5bc6\u7801",
        "%41",
        "&#65;",
        "\\u0041",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(pieces, max_size=60).map("".join)))
def test_no_text_breaks_a_rule(text: str) -> None:
    """The gate would withhold such a text; here the rule itself is asked, so that the break shows."""
    found = rules.find(inspected(text))
    assert found is None or found in rules.KINDS
    assert rules.find(inspected(text)) == found


def test_every_kind_that_a_rule_gives_is_a_known_kind() -> None:
    kinds = {
        rules.find(inspected(sample.text)) for half in ("seen", "blind") for sample in make(half, innocents_each=0)
    }
    assert kinds - {None} <= set(rules.KINDS)


@pytest.mark.parametrize("name", sorted(hostile()))
def test_case_69_no_rule_takes_long_on_a_hostile_text(name: str) -> None:
    """Own time of this thread, the best of three: 20 KB under 30 ms for every rule by the benchmark, twice that
    allowed here."""
    text = hostile()[name]
    seen = rules.prepared(inspected(text))
    for rule in rules.RULES.values():
        assert benchmark.best_seconds(lambda rule=rule: rule(seen), 2) < 0.06  # type: ignore[misc]
    assert benchmark.best_seconds(lambda: list(disguises.plain_forms(seen.text, seen.long_words)), 2) < 0.06


@pytest.mark.parametrize(
    "name", ["tables", "stores", "dotted", "password", "odd_words", "named", "cookie", "mysql", "escapes", "lines"]
)
def test_four_times_the_text_takes_about_four_times_as_long(name: str) -> None:
    short, long = (hostile(size)[name] for size in (15_000, 60_000))
    took = [benchmark.best_seconds(lambda text=text: withheld(text), 3) for text in (short, long)]  # type: ignore[misc]
    assert took[1] < 8 * took[0] + 0.01


@pytest.mark.parametrize(
    "text",
    [("sk-" + "a" * 20 + "\x01") * 50_000, "a" * 5_000_000, "=" * 1_000_000, "eyJ." * 100_000],
    ids=["half_keys", "letters", "equals", "half_tokens"],
)
def test_case_69_megabytes_are_judged_within_a_bounded_time(text: str) -> None:
    """The case allows 0.2 s on a quiet machine; own time of this thread, with room for a busy one."""
    start = time.thread_time()
    egress.verdict(text, 1500)
    assert time.thread_time() - start < 1.0


def test_redact_secret_as_a_further_screener_and_an_unknown_one_closes_the_gate() -> None:
    pytest.importorskip("redact_secret")
    gate = Gate(screener=screeners.load("redact-secret"))
    assert gate.screen("a quiet sentence about the garden", 100) is not None
    assert isinstance(gate.verdict("gh" + "p_" + alnum(36), 100), Withheld)
    closed = Gate(screener=screeners.load("no-such-screener"))
    assert closed.verdict("a quiet sentence", 100) == Withheld("screener_failed")


def test_a_screener_that_is_not_installed_closes_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "redact_secret", None)
    assert Gate(screener=screeners.load("redact-secret")).verdict("hello", 9) == Withheld("screener_failed")
