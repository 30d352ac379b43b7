"""A corpus of credentials and innocents, made at run time from a seed: nothing here was ever issued, nothing is stored.

It has two halves that share no format, no sentence and no kind of innocent. The rules of the egress gate were written
while looking at results on the *seen* half alone; the *blind* half was written before them and only ever counted. One
author wrote both, so the figures flatter; they are read beside two foreign scanners on the same texts.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Half = Literal["seen", "blind"]
Maker = Callable[["Dice"], str]

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = UPPER + LOWER + DIGITS
HEX = "0123456789abcdef"
B64 = ALNUM + "+/"
B64URL = ALNUM + "-_"


@dataclass(frozen=True, slots=True)
class Sample:
    """One text. `secret` is "" for an innocent; `hard` marks a credential in a disguise."""

    text: str
    kind: str
    half: Half
    secret: str = ""
    hard: bool = False
    language: str = "en"
    placement: str = "prose"


class Dice(random.Random):
    """Random strings of a shape."""

    def of(self, alphabet: str, count: int) -> str:
        """`count` characters of `alphabet`; with letters and digits in it, always some of each kind."""
        while True:
            text = "".join(self.choices(alphabet, k=count))
            kinds = [kind for kind in (UPPER, LOWER, DIGITS) if set(kind) <= set(alphabet)]
            if count < 8 or all(set(kind) & set(text) for kind in kinds):
                return text

    def password(self) -> str:
        """A password as people make them: a word bent a little, or random."""
        word = self.choice(("Blau", "Sonne", "Tiger", "Cafe", "Winter", "Rosa", "Mango", "Nube", "Lluvia", "Falke"))
        tail = self.of(DIGITS, self.randint(2, 4))
        mark = self.choice("!#$%&*+-_?")
        other = self.choice(("Berg", "Luna", "Stern", "Verde", "Pato", "Kiwi"))
        return self.choice(
            (f"{word}{mark}{tail}", f"{word}{tail}{other}", self.of(ALNUM, 10) + mark, f"{word}-{other}{tail}{mark}")
        )

    def jwt(self) -> str:
        """Three base64url parts."""
        head = _b64url(json.dumps({"alg": self.choice(("HS256", "RS256")), "typ": "JWT"}).encode())
        body = _b64url(json.dumps({"sub": self.of(DIGITS, 10), "iat": 1764500000}).encode())
        return f"{head}.{body}.{self.of(B64URL, 43)}"

    def pem(self, label: str) -> str:
        """A private key block."""
        lines = "\n".join(self.of(B64, 64) for _ in range(6))
        return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----"


def _b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TOKENS: dict[Half, dict[str, Maker]] = {
    "seen": {
        "aws_id": lambda d: "AKIA" + d.of(UPPER + "234567", 16),
        "github": lambda d: d.choice(("ghp_", "gho_", "ghs_")) + d.of(ALNUM, 36),
        "openai": lambda d: "sk-proj-" + d.of(B64URL, 74) + "T3Blbk" + "FJ" + d.of(B64URL, 40),
        "anthropic": lambda d: "sk-ant-api03-" + d.of(B64URL, 93) + "AA",
        "stripe": lambda d: d.choice(("sk_live_", "rk_live_", "sk_test_")) + d.of(ALNUM, 24),
        "slack": lambda d: f"xoxb-{d.of(DIGITS, 12)}-{d.of(DIGITS, 13)}-{d.of(ALNUM, 24)}",
        "jwt": lambda d: d.jwt(),
        "pem": lambda d: d.pem("RSA PRIVATE KEY"),
        "google": lambda d: "AIza" + d.of(B64URL, 35),
        "honcho": lambda d: "hch-v3-" + d.of(LOWER + DIGITS, 40),
        "gitlab": lambda d: "glpat-" + d.of(B64URL, 20),
        "sendgrid": lambda d: f"SG.{d.of(B64URL, 22)}.{d.of(B64URL, 43)}",
        "huggingface": lambda d: "hf_" + d.of(UPPER + LOWER, 34),
        "telegram": lambda d: f"{d.of(DIGITS, 10)}:AA{d.of(B64URL, 33)}",
        "npm": lambda d: "npm_" + d.of(ALNUM, 36),
        "azure_storage": lambda d: f"AccountKey={d.of(B64, 86)}==;EndpointSuffix=core.windows.net",
    },
    "blind": {
        "github_fine": lambda d: f"github_pat_{d.of(ALNUM, 22)}_{d.of(ALNUM, 59)}",
        "openrouter": lambda d: "sk-or-v1-" + d.of(HEX, 64),
        "groq": lambda d: "gsk_" + d.of(ALNUM, 52),
        "perplexity": lambda d: "pplx-" + d.of(ALNUM, 48),
        "replicate": lambda d: "r8_" + d.of(ALNUM, 37),
        "xai": lambda d: "xai-" + d.of(ALNUM, 80),
        "tavily": lambda d: "tvly-" + d.of(ALNUM, 32),
        "stripe_hook": lambda d: "whsec_" + d.of(ALNUM, 32),
        "slack_hook": lambda d: (
            "https://hooks.slack.com/services/"
            f"T{d.of(UPPER + DIGITS, 10)}/B{d.of(UPPER + DIGITS, 10)}/{d.of(ALNUM, 24)}"
        ),
        "discord_bot": lambda d: f"M{d.of(ALNUM, 25)}.G{d.of(B64URL, 5)}.{d.of(B64URL, 38)}",
        "shopify": lambda d: "shpat_" + d.of(HEX, 32),
        "linear": lambda d: "lin_api_" + d.of(ALNUM, 40),
        "notion": lambda d: "ntn_" + d.of(ALNUM, 46),
        "vault": lambda d: "hvs." + d.of(B64URL, 90),
        "digitalocean": lambda d: "dop_v1_" + d.of(HEX, 64),
        "databricks": lambda d: "dapi" + d.of(HEX, 32),
        "grafana": lambda d: f"glsa_{d.of(ALNUM, 32)}_{d.of(HEX, 8)}",
        "docker": lambda d: "dckr_pat_" + d.of(B64URL, 27),
        "pypi": lambda d: "pypi-AgEIcHlwaS5vcmc" + d.of(B64URL, 130),
        "age": lambda d: "AGE-SECRET-KEY-1" + d.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "openssh": lambda d: d.pem("OPENSSH PRIVATE KEY"),
        "mailgun": lambda d: "key-" + d.of(HEX, 32),
        "airtable": lambda d: f"pat{d.of(ALNUM, 14)}.{d.of(HEX, 64)}",
        "cloudinary": lambda d: f"cloudinary://{d.of(DIGITS, 15)}:{d.of(B64URL, 27)}@acme",
    },
}
"""Tokens that are credentials wherever they stand."""

AROUND: dict[Half, tuple[tuple[str, str, str], ...]] = {
    "seen": (
        ("en", "prose", "Can you check why {S} stopped working yesterday?"),
        ("en", "prose", "I use {S} for the staging box, it expires in May."),
        ("es", "prose", "Te dejo la clave de la API: {S} y mañana la cambio."),
        ("de", "prose", "Der Schlüssel lautet {S}, damit kommst du rein."),
        ("fr", "prose", "Voici le jeton pour le serveur : {S}"),
        ("zh", "prose", "这是测试环境的密钥:{S},别外传。"),
        ("en", "env", "export SERVICE_TOKEN={S}"),
        ("en", "config", 'auth:\n  token: "{S}"\n  retries: 3'),
        ("en", "code", "client = Client(api_key='{S}', timeout=10)"),
        ("en", "command", 'curl -H "Authorization: Bearer {S}" https://api.example.org/v1/me'),
        ("en", "chat", "**keys**\n- prod: `{S}`\n- dev: ask Jo"),
    ),
    "blind": (
        ("en", "prose", "Jo gave me {S} before the holidays; is it still fine to use?"),
        ("en", "prose", "My notes from Tuesday say {S}. Put that into the deployment, please."),
        ("es", "prose", "Guarda esto para luego, es el acceso del cliente {S}, gracias."),
        ("de", "prose", "Bitte nimm {S} für den neuen Mandanten und sag mir, ob es klappt."),
        ("fr", "prose", "Le prestataire m'a envoyé {S}; tu peux tester ce soir ?"),
        ("zh", "prose", "同事发来的是{S},请帮我配置一下。"),
        ("en", "env", "LOG_LEVEL=debug\nUPSTREAM={S}\nPORT=8080"),
        ("en", "config", '{"upstream": {"credential": "{S}", "region": "eu"}}'),
        ("en", "code", 'const api = new Sdk("{S}"); // move to the vault later'),
        ("en", "command", "deploy --auth {S} --env prod --yes"),
        ("en", "chat", "1. open the console\n2. paste {S}\n3. press save"),
    ),
}
"""Language, placement, sentence: where a token stands."""

PHRASES: dict[Half, tuple[tuple[str, str, str, str], ...]] = {
    "seen": (
        ("password", "en", "prose", "the password for the router is {P} in case you need it"),
        ("password", "en", "prose", "my login: admin, password: {P}"),
        ("password", "es", "prose", "La contraseña del correo es {P}, no la pierdas."),
        ("password", "de", "prose", "Das Passwort für den Rechner ist {P}."),
        ("password", "fr", "prose", "Le mot de passe du wifi est {P}."),
        ("password", "zh", "prose", "路由器的密码是{P},记一下。"),
        ("password", "en", "env", "DB_PASSWORD={P}\nDB_HOST=db.internal"),
        ("password", "en", "config", "spring:\n  datasource:\n    password: {P}"),
        ("password", "en", "code", 'conn = connect(user="root", password="{P}")'),
        ("url", "en", "command", "psql postgres://svc:{P}@db.example.org:5432/app"),
        ("url", "en", "command", "git clone https://bot:{P}@git.example.org/acme/app.git"),
        ("hex", "en", "prose", "the signing key is {H}"),
        ("hex", "en", "config", '"api_key": "{H}"'),
        ("aws_secret", "en", "env", "AWS_SECRET_ACCESS_KEY={A}"),
        ("cookie", "en", "command", "curl -b 'sessionid={R}' https://example.org/account"),
        ("bearer", "en", "command", "Authorization: Bearer {R}"),
    ),
    "blind": (
        ("password", "en", "prose", "you can get into the NAS with {P} as the password"),
        ("password", "en", "prose", "btw the wifi pass at the cabin is {P}, guests keep asking"),
        ("password", "en", "prose", "log in as deploy / {P} and restart it"),
        ("password", "es", "prose", "Entra con el usuario ana y la clave {P}."),
        ("password", "de", "prose", "Das Kennwort lautet {P}, bitte nicht weitergeben."),
        ("password", "fr", "prose", "mon mdp c'est {P} pour le compte de la banque"),
        ("password", "pt", "prose", "A senha do servidor é {P}, ok?"),
        ("password", "zh", "prose", "登录口令是{P},用户名是admin。"),
        ("password", "ru", "prose", "Пароль от сервера: {P}, логин root."),
        ("password", "it", "prose", "la password del portale è {P}"),
        ("password", "en", "env", "export PGPASSWORD='{P}' && pg_dump app"),
        ("password", "en", "config", "[smtp]\nuser = mailer\npasswd = {P}"),
        ("password", "en", "code", 'options.put("keystorePassword", "{P}");'),
        ("password", "en", "command", "mysql -u root -p{P} shop < dump.sql"),
        ("password", "en", "command", "sshpass -p '{P}' ssh ops@host.example.org"),
        ("url", "en", "config", "redis://:{P}@cache.example.org:6379/0"),
        ("url", "en", "config", "amqp://worker:{P}@mq.example.org/vhost"),
        ("dsn", "en", "config", "Server=tcp:sql.example.org;Database=shop;User Id=sa;Password={P};Encrypt=true"),
        ("dsn", "en", "code", 'jdbc = "jdbc:mysql://db/app?user=app&password={P}"'),
        ("hex", "en", "prose", "use {H} as the webhook secret on our side"),
        ("hex", "en", "prose", "the HMAC key we agreed on: {H}"),
        ("hex", "de", "prose", "Der API-Schlüssel ist {H}"),
        ("totp", "en", "prose", "the 2FA seed for the shared account is {T}"),
        ("basic", "en", "command", "Authorization: Basic {B}"),
        ("cookie", "en", "command", "Set-Cookie: session={R}; HttpOnly; Path=/"),
        ("pin", "en", "prose", "my card PIN is {N}, please remember it"),
        ("netrc", "en", "config", "machine git.example.org login bot password {P}"),
        ("curl_user", "en", "command", "curl -u admin:{P} https://nexus.example.org/repo"),
        ("client_secret", "en", "config", "AZURE_CLIENT_SECRET={Z}"),
        ("aws_secret", "en", "config", "aws_secret_access_key = {A}"),
        ("x_api_key", "en", "command", "curl -H 'X-API-Key: {R}' https://api.example.org/jobs"),
        ("kube", "en", "config", "users:\n- name: dev\n  user:\n    token: {R}"),
    ),
}
"""Kind, language, placement, sentence: credentials that only their surroundings give away."""

HARD: dict[Half, dict[str, Callable[[str, Dice], str]]] = {
    "seen": {
        "wrapped": lambda s, d: f"my mail client broke it: {s[: len(s) // 2]}\n{s[len(s) // 2 :]} sorry",
        "zero_width": lambda s, d: "use " + s[:7] + "\u200b" + s[7:13] + "\u200d" + s[13:] + " today",
        "full_width": lambda s, d: "key " + "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in s),
        "glued": lambda s, d: "token" + s + "ok",
        "quoted": lambda s, d: f"«{s}»,",
        "base64": lambda s, d: "password: " + _b64(s),
    },
    "blind": {
        "soft_hyphen": lambda s, d: "copy " + "\u00ad".join((s[:9], s[9:17], s[17:])) + " exactly",
        "math": lambda s, d: "here: " + "".join(_bold(c) for c in s),
        "url_encoded": lambda s, d: "callback?next=%2Fhome&api_key=" + s.replace("-", "%2D").replace("_", "%5F"),
        "sentence_end": lambda s, d: f"It is ({s}).",
        "cjk_glued": lambda s, d: f"请用{s}登录",
        "json_escaped": lambda s, d: '"{\\"token\\": \\"' + s + '\\"}"',
        "comma_list": lambda s, d: f"old={s},new=none",
        "underscored": lambda s, d: f"__{s}__ is the one",
    },
}
"""Disguises, put over the tokens of the same half."""


def _bold(char: str) -> str:
    for first, base in (("A", 0x1D400), ("a", 0x1D41A), ("0", 0x1D7CE)):
        span = 10 if first == "0" else 26
        if 0 <= ord(char) - ord(first) < span:
            return chr(base + ord(char) - ord(first))
    return char


def _filled(sentence: str, dice: Dice) -> tuple[str, str]:
    makers: dict[str, Maker] = {
        "{P}": lambda d: d.password(),
        "{H}": lambda d: d.of(HEX, d.choice((32, 40, 64))),
        "{A}": lambda d: d.of(B64, 40),
        "{R}": lambda d: d.of(ALNUM, d.randint(32, 48)),
        "{T}": lambda d: d.of(UPPER + "234567", 32),
        "{B}": lambda d: _b64("ops:" + d.password()),
        "{N}": lambda d: d.of(DIGITS, 4),
        "{Z}": lambda d: f"{d.of(ALNUM, 3)}8Q~{d.of(B64URL, 34)}",
    }
    for mark, make in makers.items():
        if mark in sentence:
            secret = make(dice)
            return sentence.replace(mark, secret), secret
    raise AssertionError(sentence)


INNOCENTS: dict[Half, dict[str, Maker]] = {
    "seen": {
        "git_sha": lambda d: f"Fixed in commit {d.of(HEX, 40)} on main",
        "uuid": lambda d: f"trace_id={_uuid(d)} span {d.randint(1, 9)} failed",
        "sha256": lambda d: f"docker pull ghcr.io/acme/api@sha256:{d.of(HEX, 64)}",
        "forgot_en": lambda d: f"I forgot my password for the {_thing(d)} again, where do I reset it?",
        "forgot_es": lambda d: f"He olvidado la contraseña de {_thing(d)}, ¿cómo la cambio?",
        "forgot_de": lambda d: f"Ich habe mein Passwort für {_thing(d)} vergessen.",
        "forgot_fr": lambda d: f"J'ai perdu le mot de passe de {_thing(d)}, que faire ?",
        "forgot_zh": lambda d: f"我忘了{_thing(d)}的密码,怎么重置?",
        "code_annotation": lambda d: (
            f"def login(user: str, password: str, retries: int = {d.randint(1, 9)}) -> bool: ..."
        ),
        "code_env": lambda d: f'api_key = os.environ["{_thing(d).upper()}_API_KEY"]',
        "placeholder": lambda d: f"export {_thing(d).upper()}_API_KEY=<your key here>",
        "sql": lambda d: f"SELECT id, password_hash FROM users WHERE id = {d.randint(1, 999)};",
        "url_id": lambda d: f"https://docs.google.com/document/d/1{d.of(B64URL, 43)}/edit",
        "video": lambda d: f"https://www.youtube.com/watch?v={d.of(B64URL, 11)}&list=PL{d.of(B64URL, 32)}",
        "pubkey": lambda d: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{d.of(B64, 43)} ana@laptop",
        "sri": lambda d: f'<script src="a.js" integrity="sha384-{d.of(B64, 64)}"></script>',
        "phone": lambda d: f"call me on +44 20 {d.of(DIGITS, 4)} {d.of(DIGITS, 4)} after six",
        "smalltalk": lambda d: f"My sister visits on {d.randint(1, 28)} May; she loves {_thing(d)} and long walks.",
        "key_music": lambda d: f"The song is in the key of {d.choice('ABCDEFG')} minor, tempo {d.randint(60, 180)}.",
        "sk_words": lambda d: (
            f"pip install sk-learn=={d.randint(0, 2)}.{d.randint(0, 9)} and task-{d.of(DIGITS, 10)}-done"
        ),
    },
    "blind": {
        "release": lambda d: (
            f"Release v{d.randint(1, 9)}.{d.randint(0, 20)}.0 ({d.of(HEX, 7)}) is out, see the changelog"
        ),
        "etag": lambda d: f'ETag: W/"{d.of(HEX, 32)}" and Content-Length: {d.randint(100, 9999)}',
        "secret_of": lambda d: f"The secret to good {_thing(d)} is patience and a hot pan.",
        "secreto": lambda d: f"El secreto de {_thing(d)} es dejarlo reposar {d.randint(2, 9)} horas.",
        "schluessel": lambda d: f"Der Schlüssel zum Erfolg bei {_thing(d)} ist Übung, sagt Oma.",
        "cle": lambda d: f"La clé de la réussite avec {_thing(d)} est la patience.",
        "senha": lambda d: f"Esqueci a senha do {_thing(d)} outra vez, como recupero?",
        "parol": lambda d: f"Я забыл пароль от {_thing(d)}, как его сбросить?",
        "pw_policy": lambda d: f"Passwords must be at least {d.randint(8, 16)} characters and hold a digit.",
        "pw_manager": lambda d: f"Which password manager do you like for {_thing(d)}? Mine is too slow.",
        "token_count": lambda d: f"max_tokens: {d.randint(100, 9000)}, total tokens = {d.randint(100, 9000)}",
        "token_talk": lambda d: f"The tokenizer splits {_thing(d)} into {d.randint(2, 9)} tokens, which is odd.",
        "secret_ref": lambda d: f"secretKeyRef:\n  name: {_thing(d)}-secrets\n  key: password",
        "terraform": lambda d: f"password = var.{_thing(d)}_password\nport = {d.randint(1000, 9999)}",
        "getpass": lambda d: f'password = getpass.getpass("Password for {_thing(d)}: ")',
        "ts_type": lambda d: "interface Login { user: string; password: string; token?: string | null }",
        "template": lambda d: "password: ${DB_PASSWORD}\ntoken: {{ vault.token }}\nkey: $KEY",
        "masked": lambda d: f"password: ******** (set {d.randint(2, 30)} days ago)",
        "ulid": lambda d: f"order 01J{d.of('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 23)} shipped to {_thing(d)}",
        "isbn": lambda d: f"ISBN 978-3-16-{d.of(DIGITS, 6)}-{d.randint(0, 9)}, page {d.randint(2, 400)}",
        "s3": lambda d: f"s3://acme-{_thing(d)}/2026/11/part-{d.of(DIGITS, 5)}-{_uuid(d)}.parquet",
        "chat_id": lambda d: f"run chatcmpl-{d.of(ALNUM, 29)} used {d.randint(9, 999)} tokens",
        "data_uri": lambda d: f"![pic](data:image/png;base64,iVBORw0KGgo{d.of(B64, 180)})",
        "public_key": lambda d: f"-----BEGIN PUBLIC KEY-----\n{d.of(B64, 64)}\n-----END PUBLIC KEY-----",
        "bearer_talk": lambda d: f"The bearer of bad news about {_thing(d)} was my neighbour.",
        "pin_board": lambda d: f"Pin the note about {_thing(d)} to the board, please, row {d.randint(1, 9)}.",
        "address": lambda d: (
            f"We live at {d.randint(1, 200)} Elm Road, flat {d.randint(1, 40)}B, near the {_thing(d)} shop."
        ),
        "css": lambda d: f".{_thing(d)} {{ color: #{d.of(HEX, 6)}; margin: {d.randint(1, 40)}px }}",
        "traceback": lambda d: f'File "/srv/{_thing(d)}/auth/token.py", line {d.randint(1, 900)}, in refresh_token',
        "url_query": lambda d: f"https://shop.example.org/search?q={_thing(d)}&page={d.randint(1, 40)}&session=new",
        "json_schema": lambda d: '{"password": {"type": "string", "minLength": 12}, "required": ["password"]}',
        "wallet_talk": lambda d: f"Never write the recovery phrase of your wallet on the {_thing(d)}.",
    },
}
"""Kinds of text that look a little like a credential and are none."""


def _uuid(dice: Dice) -> str:
    return "-".join(dice.of(HEX, count) for count in (8, 4, 4, 4, 12))


def _thing(dice: Dice) -> str:
    return dice.choice(
        ("mango", "guitar", "router", "bakery", "tortilla", "garden", "printer", "museum", "kettle", "chess")
    )


def make(half: Half, seed: int = 20261130, *, innocents_each: int = 20) -> list[Sample]:
    """One half of the corpus: every token in every placement, every phrase, every disguise, every kind of innocent."""
    dice = Dice(f"{seed} {half}")
    return [*_tokens(half, dice), *_phrases(half, dice), *_hard(half, dice), *_innocents(half, dice, innocents_each)]


def _tokens(half: Half, dice: Dice) -> Iterator[Sample]:
    for kind, token in TOKENS[half].items():
        for language, placement, sentence in AROUND[half]:
            secret = token(dice)
            yield Sample(sentence.replace("{S}", secret), kind, half, secret, False, language, placement)


def _phrases(half: Half, dice: Dice) -> Iterator[Sample]:
    for kind, language, placement, sentence in PHRASES[half]:
        for _ in range(4):
            text, secret = _filled(sentence, dice)
            yield Sample(text, kind, half, secret, False, language, placement)


def _hard(half: Half, dice: Dice) -> Iterator[Sample]:
    short = {
        kind: token for kind, token in TOKENS[half].items() if "\n" not in token(Dice(1)) and kind != "azure_storage"
    }
    for disguise, dress in HARD[half].items():
        for kind, token in short.items():
            secret = token(dice)
            yield Sample(dress(secret, dice), f"{disguise}:{kind}", half, secret, True)


def _innocents(half: Half, dice: Dice, each: int) -> Iterator[Sample]:
    for kind, text in INNOCENTS[half].items():
        for _ in range(each):
            yield Sample(text(dice), kind, half)


def hostile(size: int = 20_000) -> dict[str, str]:
    """Texts of `size` characters that are built to be slow: prefixes without end, repeated anchors, deep nesting."""
    dice = Dice(7)
    pieces = {
        "dotted": "pass.",
        "joined": "x_",
        "letter": "a",
        "equals": "=",
        "half_jwt": "eyJ.",
        "half_key": "sk-" + "a" * 20 + "\x01",
        "password": "password ",
        "key_is": "key is x1 ",
        "odd_words": "password qq aB3$ ",
        "urls": "://a:bcdefg",
        "percent": "%41",
        "escapes": "\\n",
        "base64": "QUJD" * 8 + " ",
        "curl": "curl ",
        "mysql": "mysql -",
        "pairs": "admin / b ",
        "pem": "-----BEGIN ",
        "dots": ".",
        "discord": "M" + "a" * 23 + ".",
        "bearer": "bearer ",
        "basic": "basic QUJDREVG ",
        "cookie": "session=",
        "wallet": "wallet abcde abcde abcde abcde abcde ",
        "lines": "aB3456789\n",
        "github": "ghp_",
        "spread": "ghp_ a1 ",
        "accents": "e\u0301\u0316",
        "invisible": "a\u200b",
        "full_width": "\uff50",
        "mixed_scripts": "a\u0430",
        "chinese": "\u5bc6\u7801\u662f",
        "russian": "\u043f\u0430\u0440\u043e\u043b\u044c ",
        "pin": "pin 12 ",
        "door": "door code ",
        "quotes": 'password="',
        "named": "api_key=\n",
        "entities": "&quot;",
        "aws": "AKIA ",
        "spaces": " ",
        "ligature": "\ufdfa",
        "expanding": "\u2474",
        "tables": "password |a\n---\n",
        "stores": "redis://a:b@ ",
        "syllables": "\u1112\u1161\u11ab",
        "letters": "a " * 14 + "bb ",
        "literals": 'a"' + " " * 40,
    }
    texts = {name: (piece * (size // len(piece) + 1))[:size] for name, piece in pieces.items()}
    texts["one_accent"] = "e" + "\u0301" * (size - 1)
    texts["random"] = dice.of(B64 + " =:.", size)
    texts["odd_sentences"] = " ".join(
        f"password {dice.of(LOWER, 3)} {dice.of(ALNUM, 5)} is" for _ in range(size // 20)
    )[:size]
    return texts
