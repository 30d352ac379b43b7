"""How often the embedded server's search, without a model, finds the evidence of a question.

`python -m benchmarks.recall --json`. Ten long conversations with annotated questions (LoCoMo). Every utterance is
posted to a server of its own, over HTTP, as what it is: speaker, time, text, nothing of the annotations, no image
captions. Then every question is searched, ten results each. A pair is one question and one utterance that the
annotators named as its evidence; the figure is the share of pairs found. Beside it stands SQLite's FTS5 as it comes
(default tokenizer, BM25, any of the question's words).
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from honcho_actors.local import process

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "locomo10.zip"
TOP = 10
BATCH = 100
SECONDS_APART = 30


@dataclass(frozen=True)
class Utterance:
    key: str
    session: str
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True)
class Conversation:
    name: str
    utterances: tuple[Utterance, ...]
    questions: tuple[tuple[str, tuple[str, ...]], ...]


def _started(text: str) -> datetime:
    plain = " ".join(text.replace(",", "").split())
    return datetime.strptime(plain, "%I:%M %p on %d %B %Y").replace(tzinfo=UTC)


def conversations(path: Path) -> Iterator[Conversation]:
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith(".json"):
                continue
            document: dict[str, Any] = json.loads(archive.read(name))
            said: list[Utterance] = []
            for number in range(1, len(document)):
                start = document.get(f"session_{number}_date_time")
                for place, item in enumerate(document.get(f"session_{number}", ())):
                    when = _started(str(start)) + timedelta(seconds=SECONDS_APART * place)
                    said.append(Utterance(item["dia_id"], f"s{number}", item["speaker"], item["text"], when))
            known = {utterance.key for utterance in said}
            asked = []
            for item in document["qa"]:
                named = re.findall(r"D\d+:\d+", " ".join(item.get("evidence") or ()))
                evidence = tuple(dict.fromkeys(key for key in named if key in known))
                if evidence:
                    asked.append((item["question"], evidence))
            yield Conversation(Path(name).stem, tuple(said), tuple(asked))


def _peer(speaker: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", speaker)


def load(client: httpx.Client, conversation: Conversation) -> dict[str, str]:
    """Posts the conversation; the utterance's key by the server's id of its message."""
    keys: dict[str, str] = {}
    for session in dict.fromkeys(utterance.session for utterance in conversation.utterances):
        said = [utterance for utterance in conversation.utterances if utterance.session == session]
        for start in range(0, len(said), BATCH):
            part = said[start : start + BATCH]
            body = [
                {"peer_id": _peer(item.speaker), "content": item.text, "created_at": item.said_at.isoformat()}
                for item in part
            ]
            reply = client.post(
                f"/v3/workspaces/{conversation.name}/sessions/{session}/messages", json={"messages": body}
            )
            reply.raise_for_status()
            keys.update({made["id"]: item.key for made, item in zip(reply.json(), part, strict=True)})
    return keys


def found_by_server(client: httpx.Client, conversation: Conversation, keys: dict[str, str], question: str) -> set[str]:
    body = {"query": question, "limit": TOP}
    reply = client.post(f"/v3/workspaces/{conversation.name}/search", json=body)
    reply.raise_for_status()
    return {keys[message["id"]] for message in reply.json()}


def plain_index(conversation: Conversation) -> sqlite3.Connection:
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE said USING fts5(text, key UNINDEXED)")
    index.executemany("INSERT INTO said VALUES(?, ?)", [(item.text, item.key) for item in conversation.utterances])
    return index


def found_by_fts(index: sqlite3.Connection, question: str) -> set[str]:
    words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
    rows = index.execute("SELECT key FROM said WHERE said MATCH ? ORDER BY bm25(said) LIMIT ?", (words, TOP))
    return {row[0] for row in rows}


def measure(path: Path, conversations_wanted: int | None = None) -> dict[str, Any]:
    pairs = hits = plain_hits = questions = utterances = 0
    seconds = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="recall-") as data,
        process.start(data) as server,
        httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client,
    ):
        for conversation in list(conversations(path))[:conversations_wanted]:
            keys = load(client, conversation)
            index = plain_index(conversation)
            utterances += len(keys)
            for question, evidence in conversation.questions:
                started = time.perf_counter()
                found = found_by_server(client, conversation, keys, question)
                seconds += time.perf_counter() - started
                plain = found_by_fts(index, question)
                questions += 1
                pairs += len(evidence)
                hits += sum(key in found for key in evidence)
                plain_hits += sum(key in plain for key in evidence)
            index.close()
    return {
        "evidence_recall_at_10": round(hits / pairs, 4),
        "fts_recall_at_10": round(plain_hits / pairs, 4),
        "gain": round((hits - plain_hits) / pairs, 4),
        "pairs": pairs,
        "questions": questions,
        "utterances": utterances,
        "search_ms": round(1000 * seconds / questions, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Recall of the embedded server's search on annotated conversations.")
    parser.add_argument("--data", type=Path, default=DATA, help="the zip of conversations")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not given.data.is_file():
        skipped = "the annotated conversations are not beside this clone"
        print(json.dumps({"skipped": skipped}) if given.json else f"skipped: {skipped}")
        return 0
    result = measure(given.data)
    print(json.dumps(result) if given.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
