"""How well the egress gate tells credentials from ordinary text, and what it costs.

python -m benchmarks.egress --json

One JSON object. `recall`, `hard_recall` and `false_alarm_rate` are the gate's own rules on the worse of two corpora:
the shared one where it is present, and the blind half of one made at run time (`_egress_corpus`: formats, sentences
and innocents that the rules were not written for). `us_per_kb` is the cost of a whole verdict on 8 KB of prose and
code, `hostile_20kb_ms` the slowest rule on the slowest of forty texts made to be slow. The same texts go through
redact-secret and detect-secrets in the same run. Exit 1 when a figure misses its bar.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import detect_secrets.core.scan
import detect_secrets.settings
import redact_secret

from benchmarks import _egress_corpus
from benchmarks._egress_corpus import Sample
from honcho_actors.privacy import egress, rules, screeners
from honcho_actors.privacy.rules import disguises
from honcho_actors.privacy.text import inspected

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "egress-corpus.jsonl.gz"
BARS = {"recall": 0.97, "hard_recall": 0.8, "false_alarm_rate": 0.02, "us_per_kb": 100.0, "hostile_20kb_ms": 30.0}
AT_MOST = {"false_alarm_rate", "us_per_kb", "hostile_20kb_ms"}

Scanner = Callable[[str], bool]

PROSE = (
    "Yesterday I walked to the market with my sister, and we bought peaches, two loaves of bread and a small lamp. "
    "The old one has been flickering since March; number {n} on the list. Could you remind me to call the electrician "
    "on Thursday at 15:30? And what was the film called that you told me about, the one with the lighthouse?\n"
)
CODE = (
    "def total_{n}(rows: list[Row], rate: float = 0.19) -> float:\n"
    '    """The sum of all rows with tax; rows without a price are skipped."""\n'
    "    priced = [row for row in rows if row.price is not None]\n"
    "    return round(sum(row.price * row.count for row in priced) * (1 + rate), 2)\n\n"
)


def shared_corpus() -> list[Sample] | None:
    """The shared texts, or None where they are absent."""
    if not SHARED.is_file():
        return None
    with gzip.open(SHARED, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Sample(
            row["text"],
            row["cls"],
            "blind",
            row["secret"] or "" if row["kind"] == "secret" else "",
            row["group"] == "hard",
        )
        for row in rows
    ]


def own(text: str) -> bool:
    """The gate with its own rules alone."""
    return isinstance(egress.verdict(text, egress.INSPECTED_CHARS), egress.Withheld)


def redact(text: str) -> bool:
    """redact-secret with its defaults."""
    return bool(redact_secret.scan(text))


def detect(text: str) -> bool:
    """detect-secrets, file mode, default plugins and filters."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        with detect_secrets.settings.default_settings():
            return any(True for _ in detect_secrets.core.scan.scan_file(file.name))


def scores(samples: Iterable[Sample], scanner: Scanner) -> dict[str, Any]:
    """Counts and rates of one scanner on one corpus."""
    caught = {"main": 0, "hard": 0, "innocent": 0}
    asked = dict(caught)
    for sample in samples:
        group = "hard" if sample.hard else "main" if sample.secret else "innocent"
        asked[group] += 1
        caught[group] += scanner(sample.text)
    rate = {group: round(caught[group] / asked[group], 4) if asked[group] else None for group in asked}
    return {
        "recall": rate["main"],
        "hard_recall": rate["hard"],
        "false_alarm_rate": rate["innocent"],
        "of": [asked["main"], asked["hard"], asked["innocent"]],
    }


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """The quickest of some runs, in seconds of this thread's own time."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


def us_per_kb(scanner: Scanner, repeats: int) -> float:
    """Cost on 8 KB, half prose and half code."""
    text = "".join(PROSE.format(n=n) for n in range(12))[:4096] + "".join(CODE.format(n=n) for n in range(16))[:4096]
    return round(best_seconds(lambda: scanner(text), repeats) * 1e6 / (len(text) / 1024), 1)


def _all_forms(seen: rules.Seen) -> list[str]:
    return list(disguises.plain_forms(seen.text, seen.long_words))


def hostile(repeats: int) -> dict[str, Any]:
    """Milliseconds of every rule, of taking disguises off and of the whole verdict, each on its slowest text."""
    worst: dict[str, tuple[float, str]] = {}
    for name, text in _egress_corpus.hostile().items():
        seen = rules.prepared(inspected(text))
        parts: dict[str, Callable[[], object]] = {key: partial(rule, seen) for key, rule in rules.RULES.items()}
        parts["disguises"] = partial(_all_forms, seen)
        parts["whole verdict"] = partial(own, text)
        for key, call in parts.items():
            took = best_seconds(call, repeats) * 1e3
            if took >= worst.get(key, (-1.0, ""))[0]:
                worst[key] = (took, name)
    return {key: {"ms": round(took, 2), "on": name} for key, (took, name) in worst.items()}


def measure(quick: bool) -> dict[str, Any]:
    """Everything, as one JSON-able object."""
    corpora = {"blind": _egress_corpus.make("blind"), "seen": _egress_corpus.make("seen")}
    given = shared_corpus()
    if given is not None:
        corpora["shared"] = given
    further = screeners.load("redact-secret")
    scanners: dict[str, Scanner] = {
        "own": own,
        "redact_secret": redact,
        "own_with_redact_secret": lambda text: own(text) or further(text),
        "detect_secrets": detect,
    }
    rates: dict[str, dict[str, Any]] = {}
    for corpus, samples in corpora.items():
        for name, scanner in scanners.items():
            if name == "detect_secrets" and quick:
                continue
            rates.setdefault(corpus, {})[name] = scores(samples, scanner)
    judged = [rates[corpus]["own"] for corpus in ("blind", "shared") if corpus in rates]
    slow = hostile(1 if quick else 3)
    repeats = 10 if quick else 40
    figures = {
        "recall": min(rate["recall"] for rate in judged),
        "hard_recall": min(rate["hard_recall"] for rate in judged),
        "false_alarm_rate": max(rate["false_alarm_rate"] for rate in judged),
        "us_per_kb": us_per_kb(own, repeats),
        "hostile_20kb_ms": max(part["ms"] for key, part in slow.items()),
    }
    return {
        **figures,
        "missed": [
            name for name, bar in BARS.items() if (figures[name] > bar if name in AT_MOST else figures[name] < bar)
        ],
        "corpora": rates,
        "us_per_kb_of": {
            "own": figures["us_per_kb"],
            "redact_secret": us_per_kb(redact, repeats),
            **({} if quick else {"detect_secrets": us_per_kb(detect, 3)}),
        },
        "hostile": slow,
        "shared_corpus": "present" if given is not None else "absent: figures are of the blind half alone",
    }


def main(argv: list[str] | None = None) -> int:
    """Prints the figures; 1 when one misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.egress", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, without detect-secrets")
    options = parser.parse_args(argv)
    result = measure(options.quick)
    if options.json:
        print(json.dumps(result))
    else:
        for name, bar in BARS.items():
            print(f"{name:18} {result[name]:>10}   bar {'<=' if name in AT_MOST else '>='} {bar}")
        for corpus, rates in result["corpora"].items():
            for scanner, rate in rates.items():
                shown = (rate["recall"], rate["hard_recall"], rate["false_alarm_rate"], rate["of"])
                print(f"{corpus:7} {scanner:24}", *shown)
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
