"""Tokens that are credentials wherever they stand: known by their own shape, no surroundings needed.

Each shape begins with a literal; the text is searched for the literal first (C speed), and its pattern is tried only
where that stands. Patterns take a bounded number of characters and never begin with a repetition, so a text costs
linear time. No left boundary is asked of a distinctive literal: people glue keys to words.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from honcho_actors.privacy.rules import trie

_W: Final = "[A-Za-z0-9]"
_U: Final = "[A-Za-z0-9_-]"
_H: Final = "[0-9a-f]"

_DISTINCT: Final = (
    # literal, what follows it
    ("hch-v3-", f"{_U}{{12}}"),
    ("hch-v2-", f"{_U}{{12}}"),
    ("sk-ant-", f"{_U}{{12}}"),
    ("sk-proj-", f"{_U}{{16}}"),
    ("sk-or-", f"{_U}{{16}}"),
    ("sk-svcacct-", f"{_U}{{16}}"),
    ("sk-admin-", f"{_U}{{16}}"),
    ("sk-lf-", f"{_U}{{16}}"),
    ("pk-lf-", f"{_U}{{16}}"),
    ("gsk_", f"{_W}{{20}}"),
    ("pplx-", f"{_W}{{20}}"),
    ("xai-", f"{_W}{{20}}"),
    ("tvly-", f"{_U}{{16}}"),
    ("fw_", f"{_W}{{20,64}}"),
    ("csk-", f"{_W}{{24}}"),
    ("tgp_v1_", f"{_U}{{20}}"),
    ("nvapi-", f"{_U}{{20}}"),
    ("hf_", f"{_W}{{30}}"),
    ("api_org_", f"{_W}{{30}}"),
    ("lsv2_", f"{_U}{{20}}"),
    ("ghp_", f"{_W}{{20}}"),
    ("gho_", f"{_W}{{20}}"),
    ("ghu_", f"{_W}{{20}}"),
    ("ghs_", f"{_W}{{20}}"),
    ("ghr_", f"{_W}{{20}}"),
    ("github_pat_", f"{_W}{{16}}"),
    ("glpat-", f"{_U}{{16}}"),
    ("gldt-", f"{_U}{{16}}"),
    ("glrt-", f"{_U}{{16}}"),
    ("glcbt-", f"{_U}{{16}}"),
    ("glptt-", f"{_U}{{16}}"),
    ("glsoat-", f"{_U}{{16}}"),
    ("glagent-", f"{_U}{{16}}"),
    ("ATATT3", f"{_U}{{20}}"),
    ("ATBB", f"{_W}{{24}}"),
    ("ATCTT3", f"{_U}{{20}}"),
    ("AKIA", "[A-Z0-9]{16}"),
    ("ASIA", "[A-Z0-9]{16}"),
    ("ABIA", "[A-Z0-9]{16}"),
    ("ABSK", "[A-Za-z0-9+/]{40}"),
    ("AIza", f"{_U}{{30}}"),
    ("ya29.", f"{_U}{{20}}"),
    ("GOCSPX-", f"{_U}{{20}}"),
    ("1//0", f"{_U}{{30}}"),
    ("GOOG1E", "[A-Z0-9]{30}"),
    ("sk_live_", f"{_W}{{10}}"),
    ("sk_test_", f"{_W}{{10}}"),
    ("rk_live_", f"{_W}{{10}}"),
    ("rk_test_", f"{_W}{{10}}"),
    ("whsec_", "[A-Za-z0-9+/]{16}"),
    ("sq0atp-", f"{_U}{{20}}"),
    ("sq0csp-", f"{_U}{{20}}"),
    ("EAAA", f"{_U}{{56}}"),
    ("access_token$production$", f"{_W}{{16}}"),
    ("xox", r"(?:[abcdeoprs]|e\.xox[bp])-[A-Za-z0-9%-]{10}"),
    ("xapp-", r"\d-[A-Z0-9]{6}"),
    ("shpat_", f"{_W}{{16}}"),
    ("shpca_", f"{_W}{{16}}"),
    ("shppa_", f"{_W}{{16}}"),
    ("shpss_", f"{_W}{{16}}"),
    ("lin_api_", f"{_W}{{20}}"),
    ("lin_oauth_", f"{_W}{{20}}"),
    ("ntn_", f"{_W}{{30}}"),
    ("secret_", f"{_W}{{40}}"),
    ("figd_", f"{_U}{{20}}"),
    ("hvs.", f"{_U}{{20}}"),
    ("hvb.", f"{_U}{{20}}"),
    ("s.", r"(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?![A-Za-z0-9.])"),
    (".atlasv1.", f"{_U}{{40}}"),
    ("dop_v1_", f"{_H}{{32}}"),
    ("doo_v1_", f"{_H}{{32}}"),
    ("dor_v1_", f"{_H}{{32}}"),
    ("dapi", f"{_H}{{32}}"),
    ("glsa_", f"{_W}{{20}}"),
    ("glc_", f"{_W}{{32}}"),
    ("eyJrIjoi", f"{_W}{{30}}"),
    ("sntrys_", f"{_W}{{20}}"),
    ("sntryu_", f"{_H}{{32}}"),
    ("phc_", f"{_W}{{30}}"),
    ("phx_", f"{_W}{{30}}"),
    ("dckr_pat_", f"{_U}{{20}}"),
    ("dckr_oat_", f"{_U}{{20}}"),
    ("pypi-AgE", f"{_U}{{20}}"),
    ("npm_", f"{_W}{{30}}"),
    ("rubygems_", f"{_H}{{32}}"),
    ("oy2", "[a-z0-9]{43}"),
    ("cio", f"{_W}{{32}}(?!{_W})"),
    ("AGE-SECRET-KEY-1", "[0-9A-Z]{20}"),
    ("tskey-", f"{_U}{{16}}"),
    ("PMAK-", f"{_H}{{20}}"),
    ("dp.", f"(?:pt|st|ct|sa|scim|audit)\\.(?:[a-z0-9_-]{{2,35}}\\.)?{_W}{{30}}"),
    ("pul-", f"{_H}{{32}}"),
    ("rnd_", f"{_W}{{24}}"),
    ("fo1_", f"{_U}{{30}}"),
    ("fm2_", "[A-Za-z0-9+/=,_-]{40}"),
    ("vercel_blob_rw_", f"{_W}{{16}}"),
    ("sbp_", f"{_H}{{32}}"),
    ("sb_secret_", f"{_U}{{16}}"),
    ("pscale_", f"(?:pw|tkn|oauth)_{_U}{{20}}"),
    ("neon_", f"{_W}{{40}}"),
    ("r8_", f"{_W}{{30}}"),
    ("PRIV", r"(?:ATE)?[_-]?KEY[_-][A-Za-z0-9+/]{24}"),
    ("SG.", f"{_U}{{16,32}}\\.{_U}{{16}}"),
    ("xkeysib-", f"{_H}{{32}}"),
    ("re_", f"{_W}{{6,12}}_{_W}{{16,40}}"),
    ("sl.", f"{_U}{{80}}"),
    ("EZAK", f"{_W}{{40}}"),
    ("EZTK", f"{_W}{{40}}"),
    ("SK", f"{_H}{{32}}(?![0-9A-Za-z])"),
    ("NRAK-", "[A-Z0-9]{20}"),
    ("NRII-", f"{_U}{{20}}"),
    ("NRJS-", f"{_H}{{16}}"),
    ("ops_eyJ", f"{_W}{{30}}"),
    ("A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3}"),
    ("CFPAT-", f"{_U}{{30}}"),
    ("apify_api_", f"{_W}{{20}}"),
    ("jina_", f"{_W}{{30}}"),
    ("e2b_", f"{_H}{{32}}"),
    ("fc-", f"{_H}{{32}}"),
    ("pcsk_", f"{_U}{{30}}"),
    ("cohere_", f"{_W}{{30}}"),
    ("voy-", f"{_U}{{30}}"),
    ("pa-", f"{_U}{{43}}"),
    ("bb_", f"(?:live|test)_{_U}{{20}}"),
    ("tr_", f"(?:dev|prod|stg|pat)_{_W}{{20}}"),
    ("sdk-", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("api-", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("duffel_", f"(?:live|test)_{_U}{{30}}"),
    ("FLWSECK", f"(?:_TEST)?-{_W}{{12}}"),
    ("rzp_live_", f"{_W}{{14}}"),
    ("shippo_live_", f"{_H}{{32}}"),
    ("waka_", r"[0-9a-f]{8}-[0-9a-f]{4}-"),
    ("dt0", r"[cs]\d{2}\.[A-Z0-9]{20,26}\.[A-Z0-9]{30}"),
    ("p8e-", f"{_W}{{30}}"),
    ("pnu_", f"{_W}{{30}}"),
    ("xprv", f"{_W}{{100}}"),
    ("nsec1", "[a-z0-9]{50}"),
    ("squ_", f"{_H}{{32}}"),
    ("sqp_", f"{_H}{{32}}"),
    ("sqa_", f"{_H}{{32}}"),
    ("aio_", f"{_W}{{26}}"),
    ("tfp_", f"{_U}{{40}}"),
    ("fio-u-", f"{_U}{{40}}"),
    ("AKCp", f"{_W}{{50}}"),
    ("LTAI", f"{_W}{{16,20}}(?!{_W})"),
    ("AKID", f"{_W}{{32}}"),
    ("SCW", "[A-Z0-9]{17}(?![A-Z0-9])"),
    ("access-", rf"(?:sandbox|development|production)-{_H}{{8}}-{_H}{{4}}-"),
    ("pat-", rf"(?:na|eu)\d-{_H}{{8}}-{_H}{{4}}-"),
    ("sk_", f"{_H}{{40}}"),
    ("sess-", f"(?={_U}{{0,40}}\\d){_U}{{36}}"),
    ("AQ.Ab", f"{_U}{{30}}"),
    ("bce-v3/", f"[A-Z]{{3,8}}-{_W}{{16}}"),
    ("rpa_", f"{_W}{{30}}"),
    ("EAAC", f"{_W}{{80}}"),
    ("AAAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{30}"),
    ("b3BlbnNzaC1rZXktdjE", ""),
    ("MIIEvQIBADANBgkqhkiG", ""),
    ("MIIEvgIBADANBgkqhkiG", ""),
    ("MIIEpAIBAAKCAQEA", ""),
    ("MIIEowIBAAKCAQEA", ""),
    ("MIGHAgEAMBMGByqGSM49", ""),
    ("PuTTY-User-Key-File-", r"\d"),
    ("hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20}"),
    ("/api/webhooks/", r"\d{16,20}/[A-Za-z0-9_-]{30}"),
    ("webhook.office.com/", r"webhookb2/[0-9a-f@-]{20}"),
    ("hooks.zapier.com/hooks/catch/", r"\d{4,12}/[a-z0-9]{5}"),
    ("cloudinary://", r"\d{6,20}:[A-Za-z0-9_-]{10}"),
    ("otpauth://", r"[^\s]{0,200}secret="),
)
"""Shapes whose literal no ordinary text holds in front of so much of the right alphabet."""

_SHORT: Final = (
    ("sk-", f"(?={_U}{{0,40}}\\d){_U}{{20}}"),
    ("key-", f"{_H}{{32}}(?![0-9a-f])"),
    ("hk-", f"(?={_U}{{0,40}}\\d){_U}{{16}}"),
    ("pat", rf"{_W}{{14}}\.{_H}{{40}}"),
    (":AA", rf"(?<=\d{{8}}:AA){_U}{{30}}"),
    ("-us", rf"(?<={_H}{{32}}-us)\d{{1,2}}(?!\d)"),
    ("Q~", f"(?<=[A-Za-z0-9]{{3}}[0-9]Q~){_U}{{31}}"),
    ("eyJ", rf"(?={_U}{{0,60}}\d){_U}{{30}}"),
    ("eyJ", rf"{_U}{{5,200}}\.eyJ{_U}{{4,400}}\.{_U}{{16}}"),
)
"""Shapes whose literal is short: they ask for a boundary, a digit or a full shape."""

BOUNDED: Final = frozenset(
    (
        *(
            "fw_",
            "xai-",
            "ATBB",
            "EAAA",
            "ABSK",
            "ASIA",
            "ABIA",
            "re_",
            "cio",
            "oy2",
            "SK",
            "s.",
            "fc-",
            "pa-",
            "tr_",
            "bb_",
        ),
        *(
            "PRIV",
            "sl.",
            "dp.",
            "1//0",
            "api-",
            "sdk-",
            "neon_",
            "cohere_",
            "rnd_",
            "glc_",
            "secret_",
            "r8_",
            "dapi",
            "A3-",
        ),
        *(
            "p8e-",
            "pul-",
            "sk-",
            "key-",
            "hk-",
            "pat",
            "sk_",
            "sess-",
            "LTAI",
            "AKID",
            "SCW",
            "pat-",
            "access-",
            "EAAC",
        ),
    )
)
"""Literals that may end an ordinary word: no letter or digit may stand right before them."""

SHAPES: Final = tuple(
    (
        literal,
        re.compile(re.escape(literal) + (f"(?<![A-Za-z0-9]{re.escape(literal)})" if literal in BOUNDED else "") + rest),
    )
    for literal, rest in (*_DISTINCT, *_SHORT)
)

_ANY: Final = trie.pattern(literal for literal, _ in SHAPES)

SHORTEST: Final = 16
"""No self-evident token is shorter."""

_PEM: Final = re.compile(r"[-\u2013\u2014] ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?[-\u2013\u2014]")
_DISCORD: Final = re.compile(r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}")
_WALLET: Final = (
    "mnemonic",
    "seed phrase",
    "seed words",
    "recovery phrase",
    "recovery words",
    "wallet",
    "助记词",
    "助記詞",
    "semilla",
)
_TWELVE: Final = re.compile(r"(?<![\w'-])[a-z]{3,8}(?:[ ,]{1,2}(?:\d{1,2}[.)] )?[a-z]{3,8}){11,23}(?![\w'-])")
_FUNCTION: Final = re.compile(
    r"(?<![a-z])(?:the|and|for|are|was|has|have|not|but|its|our|his|her|del|los|las|que|con|una|und)(?![a-z])"
)


def find(text: str, long_words: str) -> str | None:
    """The kind of the first self-evident credential, or None; `long_words` are the words of the text that are long
    enough."""
    if long_words and _ANY.search(long_words):
        for literal, pattern in SHAPES:
            if literal in long_words and pattern.search(long_words):
                return "provider_key"
    if long_words.count(".") > 1 and _DISCORD.search(long_words):
        return "provider_key"
    if "PRIVATE KEY" in text and _PEM.search(text):
        return "private_key"
    return None


def find_mnemonic(low: str) -> str | None:
    """`mnemonic` when a text that speaks of a wallet holds twelve words that make no sentence, or None."""
    if any(word in low for word in _WALLET):
        for found in _TWELVE.finditer(low):
            if not _FUNCTION.search(found[0]):
                return "mnemonic"
    return None


def decoded(token: str) -> str | None:
    """What a base64 token says when that is readable ASCII text, else None."""
    try:
        raw = base64.b64decode(token[: len(token) // 4 * 4].replace("-", "+").replace("_", "/"))
        text = raw.decode("ascii")
    except (binascii.Error, ValueError):
        return None
    return text if text.isprintable() or text.replace("\n", "").isprintable() else None
