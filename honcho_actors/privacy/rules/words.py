"""The words beside which people put credentials, in the languages that people chat in.

Each entry is a root, searched for at C speed, and a small pattern that begins with it and is tried only where it
stands. What kind of word it is says how much the value beside it must look like a secret: after a PASSWORD a person's
own will do; a KEY asks for a machine's; a HINT alone (key, token, seed) asks for something random; a PIN is digits.
Everything is lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from honcho_actors.privacy.rules import trie

PASSWORD, KEY, HINT, PIN, NEITHER = range(5)


class Word(NamedTuple):
    """The whole word from its root on, its kind, and whether a letter right before it makes it another word."""

    pattern: re.Pattern[str]
    kind: int
    bounded: bool
    root: str


_END: Final = r"(?![a-z\u00df-\u024f])"


def _words(kind: int, *entries: str, bounded: bool = False) -> tuple[Word, ...]:
    made = []
    for entry in entries:
        root, _, rest = entry.partition("|")
        made.append(Word(re.compile(re.escape(root) + rest), kind, bounded, root))
    return tuple(made)


_ALL: Final = (
    *_words(
        PASSWORD,
        rf"pass|(?:[ _-]?(?:words?|wd|phrases?|codes?)|wort\w{{0,2}}|wörter\w?|ord(?:et)?)(?:['’]s)?{_END}",
        r"passwd|",
        rf"pass|(?:owrd|wrd|wrod|wor|wod|word[sz]|sword|owrt){_END}",
        rf"pasw|(?:ord|rd|ort){_END}",
        r"kennw|(?:ort|örter)\w{0,2}",
        r"zugangs|(?:code|daten|wort)\w{0,2}",
        "logindaten|",
        rf"lösenord|(?:et)?{_END}",
        r"adgangskode|\w{0,2}",
        r"salasana|\w{0,4}(?: on)?",
        r"jelsz|[óa]\w{0,4}",
        rf"wachtwoord|(?:en)?{_END}",
        r"contrase|(?:ñ|n)(?:as?|ya)",
        rf"mot| de passe{_END}",
        "mots de passe|",
        r"palavra|[- ]passe",
        r"parola|(?: d'ordine)?\w{0,2}",
        r"parol|[ăeuy]\w{0,2}",
        r"hasł|[oae]\w{0,2}",
        r"hesl|[oaeu]\w{0,2}",
        r"şifre|\w{0,4}",
        "kata sandi|",
        r"mật khẩu|",
        r"парол|[ьяюеиа]\w{0,2}",
        r"лозинк|\w{1,2}",
        r"κωδικ|\w{1,4}",
        r"סיסמ|\w{1,3}",
        "كلمة المرور|",
        "كلمة السر|",
        "كلمة سر|",
        "رمز عبور|",
        "گذرواژه|",
        "पासवर्ड|",
        "รหัสผ่าน|",
        "密码|",
        "密碼|",
        "口令|",
        "暗号|",
        "パスワード|",
        "パスフレーズ|",
        "비밀번호|",
        "비번|",
        "암호|",
        r"credential|s?(?![a-z])",
        "credenciales|",
        "credenciais|",
        "credenziali|",
        "identifiants|",
        r"учетн|\w{1,3} данн\w{1,2}",
        r"учётн|\w{1,3} данн\w{1,2}",
    ),
    *_words(
        PASSWORD,
        r"pass|(?:w|phr)?(?=(?:_\d{1,2})?[\"'`*]{0,2}(?:\s{0,2}(?:[:=]|->|→|—)|\s{1,2}(?:is|are|was|for|at|to|of|on|es|est|ist)\s))",
        rf"pw|d?{_END}",
        rf"mdp|{_END}",
        rf"psw|{_END}",
        rf"pword|{_END}",
        rf"senha|s?{_END}",
        rf"creds|{_END}",
        rf"clave|{_END}",
        rf"hasl|[oae]{_END}",
        rf"sandi|{_END}",
        rf"sifre|\w{{0,4}}{_END}",
        bounded=True,
    ),
    *_words(
        KEY,
        r"api schl|(?:ü|ue)ssel",
        r"api-schl|(?:ü|ue)ssel",
        r"geheimschl|(?:ü|ue)ssel",
        "geheimnis|",
        r"zugriffs|(?:schl(?:ü|ue)ssel|token)",
        r"clave |(?:de (?:la )?|del? )?(?:api|acceso|secreta|privada)",
        r"llave |(?:de (?:la )?api|secreta|privada)",
        r"clé |(?:d'?\s?api|api|secr(?:è|e)te|priv(?:é|e)e|d'acc(?:è|e)s)",
        r"cle |(?:d'?\s?api|api|secrete|privee)",
        r"chave |(?:d[ae] api|api|secreta|privada|de acesso)",
        r"chiave |(?:api|segreta|privata)",
        r"api ключ|\w{0,3}",
        r"api-ключ|\w{0,3}",
        r"ключ api|",
        r"ключ доступа|",
        r"секретн|\w{2,3} ключ\w{0,2}",
        r"токен доступа|",
        "klucz api|",
        "密钥|",
        "密鑰|",
        "秘钥|",
        "金鑰|",
        "令牌|",
        "授权码|",
        "apiキー|",
        "api キー|",
        "シークレット|",
        "秘密鍵|",
        "api 키|",
        "api키|",
        "비밀 키|",
        "비밀키|",
    ),
    *_words(
        KEY,
        rf"totp|(?: (?:setup|shared|account))?(?:[ _-](?:seed|secret|key))?{_END}",
        rf"2fa|(?: (?:setup|shared|account))?[ _-](?:seed|secret|key){_END}",
        rf"mfa|(?: (?:setup|shared|account))?[ _-](?:seed|secret|key){_END}",
        bounded=True,
    ),
    *_words(HINT, rf"key|s?{_END}", rf"token|s?{_END}", rf"secret|s?{_END}"),
    *_words(
        HINT,
        rf"seed|{_END}",
        rf"cookie|{_END}",
        rf"auth|{_END}",
        rf"sessionid|{_END}",
        rf"jeton|{_END}",
        rf"llave|{_END}",
        rf"clé|{_END}",
        rf"clef|{_END}",
        rf"chave|{_END}",
        rf"chiave|{_END}",
        r"schlüssel|",
        r"schluessel|",
        rf"secreto|{_END}",
        rf"segreto|{_END}",
        rf"segredo|{_END}",
        rf"acceso|{_END}",
        rf"acesso|{_END}",
        r"zugang|",
        r"ключ|\w{0,2}",
        r"токен|\w{0,2}",
        r"секрет|\w{0,2}",
        "klucz|",
        "anahtar|",
        "キー|",
        "トークン|",
        "토큰|",
        "مفتاح|",
        bounded=True,
    ),
    *_words(
        PIN,
        rf"pin|(?:[ -]?(?:code|nummer|number))?{_END}",
        "código pin|",
        "code pin|",
        "geheimzahl|",
        rf"otp|(?: code)?{_END}",
        r"2fa| code|",
        r"código de |(?:verificación|seguridad|la alarma)",
        "bestätigungscode|",
        "türcode|",
        r"code de |(?:vérification|la porte|l'alarme)",
        "digicode|",
        r"пин|(?:[- ]?код)?\w{0,2}",
        "验证码|",
        "驗證碼|",
        "暗証番号|",
        "인증번호|",
        rf"code|s?{_END}",
        rf"combination|{_END}",
        bounded=True,
    ),
)


def _by_root(words: tuple[Word, ...]) -> dict[str, tuple[Word, ...]]:
    """Words by the shortest root that begins them, so that a text is searched once for all that share it."""
    roots: list[str] = []
    for root in sorted({word.root for word in words}, key=len):
        if not any(root.startswith(shorter) for shorter in roots):
            roots.append(root)
    return {root: tuple(word for word in words if word.root.startswith(root)) for root in roots}


ROOTS: Final = _by_root(_ALL)
_SOUGHT: Final = ("pass", "pw", "key", "token", "secret", "credential", "pin", "otp", "code", "kennw")
COMMON: Final = tuple(root for root in ROOTS if root in _SOUGHT)
RARE: Final = re.compile(
    "[^a-z]" + trie.pattern(root for root in ROOTS if root.isascii() and root not in COMMON).pattern
)
FOREIGN: Final = trie.pattern(root for root in ROOTS if not root.isascii())
"""The few roots that are searched for one by one, glued to another word too; the rest, at the beginning of a word;
and those of a text that is not ASCII."""


def roots_in(low: str) -> Iterator[tuple[int, str]]:
    """Where a root stands in a text in lower case, and which."""
    for root in COMMON:
        at = low.find(root)
        while at >= 0:
            yield at, root
            at = low.find(root, at + len(root))
    for found in RARE.finditer("\n" + low):
        yield found.start(), found[0][1:]
    if not low.isascii():
        for found in FOREIGN.finditer(low):
            yield found.start(), found[0]


_RAISES: Final = """
    api secret access private signing sign signature encryption encrypt decryption master hmac auth shared
    account license licence service webhook hook deploy session storage subscription admin root app bot client
    server wep wpa wpa2 wifi wi-fi network product recovery symmetric aes jwt stripe openai anthropic aws azure
    gcp google github gitlab slack sendgrid twilio cloudflare datadog consumer application oauth oauth2 totp 2fa
    mfa bearer refresh personal id security csrf xsrf sas push device authentication authorization user registry
    ci runner signed x login rest live prod production staging upload integration partner vendor merchant
    database redis smtp mail mailgun ftp ssh vpn django flask rails laravel
    """
_LOWERS: Final = """
    public primary foreign sort partition cache hash row object map dict index idempotency routing dedup dedupe
    lookup composite unique candidate natural surrogate hot arrow enter escape shift minor major piano house car
    answer event message page next prev previous continuation pagination start end max min total input output
    prompt completion commit build trace request cursor lexer stop pad mask special translation i18n locale
    label json yaml bucket s3 kv group join video playlist document boarding bus season train ski day error
    status zip post area source country qr bar exit gpio return response http dress discount promo coupon voucher
    """


def _endings(listed: str) -> tuple[str, ...]:
    """Ends of what stands before a word; a short one only as a word of its own."""
    return tuple(
        ending
        for name in listed.split()
        for ending in ([name] if len(name) > 3 else [mark + name for mark in " _-.\"'\n("])
    )


RAISES: Final = _endings(_RAISES)
"""What right before *key*, *token* or *secret* makes it the name of a credential."""

LOWERS: Final = _endings(_LOWERS)
"""What right before a word makes it no credential at all."""

BACKUP: Final = re.compile(r"(?:backup|recovery|emergency|scratch)[ -]$")
CODES: Final = re.compile(
    r"(?:one[- ]time|verification|security|2fa|mfa|login|door|alarm|gate|entry|unlock|safe|access|"
    r"lock|garage|vault|sms)[ -]$"
)

CONNECTOR: Final = re.compile(
    r"(?:^|[\s\"'`*_)\]}」』）])(?:is|was|are|equals?|be|becomes|now|es|era|son|será|ist|war|lautet|lauten|heißt|heisst|wäre|est|"
    r"était|c['’]est|é|è|foi|são|sarà|sono|jest|brzmi|zijn|är|er|to|as|это|будет|—|–|-|->|→|=>|:|=|:=|olarak|adalah|là|είναι|"
    r"هي|هو|है|คือ)[\s\"'`*_(«“„「『:]{0,4}$"
    r"|[:=：＝是为為は이가은는→>][\s\"'`*_(«“„「『]{0,4}$"
)
"""What stands between a credential word and the credential, right before the credential."""

BACKWARDS: Final = re.compile(
    r"[\s\"'`*_)»”“,]{0,4}(?:(?:that['’]?s|that is|which is|das ist|c['’]est|es[oa] es|is|as|als|como|comme|"
    r"come|for|ist|es|est|é|è|jako|как|это|—|-|\(|作为|作為|是|が|は)[\s,(]{0,2})"
    r"(?:[\w'’]{1,12}\s{1,2}){0,4}(?:的)?\s?"
)
"""What stands between a credential and the credential word that follows it."""
