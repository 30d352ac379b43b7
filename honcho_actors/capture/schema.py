"""The tables of `outbox.db`, as migrations that are only ever appended to.

A message that stands in `message` is owed to the server: `delivery` NULL is *accepted*, not NULL is *sending*. What
ended is no longer there: delivered texts are gone (only the batch remains, for its window), set-aside and expired ones
stand in `aside` with the reason. Order inside a conversation is (lane, id): lane 0 is what a fork copied, lane 1 what
was said.
"""

from __future__ import annotations

from typing import Final

MIGRATIONS: Final = (
    """
    CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE conversation(
        id INTEGER PRIMARY KEY,
        server TEXT NOT NULL, workspace TEXT NOT NULL, partition TEXT NOT NULL, session TEXT NOT NULL,
        members TEXT NOT NULL DEFAULT '{}',
        last_said INTEGER NOT NULL DEFAULT 0,
        last_delivery INTEGER NOT NULL DEFAULT 0,
        delivered INTEGER NOT NULL DEFAULT 0,
        doubled INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 100,
        attempts INTEGER NOT NULL DEFAULT 0,
        failure TEXT NOT NULL DEFAULT '',
        due_boot TEXT NOT NULL DEFAULT '', due_at REAL NOT NULL DEFAULT 0,
        gone_boot TEXT, gone_at REAL,
        strike INTEGER NOT NULL DEFAULT 0,
        resends INTEGER NOT NULL DEFAULT 0,
        owner TEXT NOT NULL DEFAULT '', owner_boot TEXT NOT NULL DEFAULT '', owner_until REAL NOT NULL DEFAULT 0,
        lease INTEGER NOT NULL DEFAULT 0,
        UNIQUE(server, workspace, partition, session)
    );
    CREATE TABLE batch(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id BLOB NOT NULL UNIQUE,
        conversation INTEGER NOT NULL,
        key TEXT NOT NULL, user TEXT NOT NULL, audience TEXT NOT NULL,
        turn_id TEXT,
        state INTEGER NOT NULL DEFAULT 0,
        open INTEGER NOT NULL,
        accepted INTEGER NOT NULL, born REAL NOT NULL,
        anchor TEXT,
        reason TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX batch_order ON batch(conversation, seq);
    CREATE INDEX batch_open ON batch(seq) WHERE state = 0;
    CREATE TABLE message(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL, lane INTEGER NOT NULL DEFAULT 1,
        batch INTEGER NOT NULL, position INTEGER NOT NULL,
        peer TEXT NOT NULL, text TEXT NOT NULL, said INTEGER NOT NULL, metadata TEXT NOT NULL,
        reasoning INTEGER NOT NULL DEFAULT 1,
        strikes INTEGER NOT NULL DEFAULT 0,
        delivery BLOB
    );
    CREATE INDEX message_order ON message(conversation, lane, id);
    CREATE INDEX message_batch ON message(batch);
    CREATE TABLE aside(
        id INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL, lane INTEGER NOT NULL, batch INTEGER NOT NULL, position INTEGER NOT NULL,
        peer TEXT NOT NULL, text TEXT NOT NULL, said INTEGER NOT NULL, metadata TEXT NOT NULL,
        reasoning INTEGER NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL, ended INTEGER NOT NULL
    );
    CREATE TABLE recheck(
        delivery BLOB PRIMARY KEY, conversation INTEGER NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, round INTEGER NOT NULL, found INTEGER NOT NULL,
        due_boot TEXT NOT NULL, due_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE doubled(
        delivery BLOB PRIMARY KEY, conversation INTEGER NOT NULL, copies INTEGER NOT NULL, seen INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE fork(
        child INTEGER PRIMARY KEY, id BLOB NOT NULL, parent_session TEXT NOT NULL, at_turn TEXT, at_seq INTEGER,
        state TEXT NOT NULL DEFAULT 'pending', reason TEXT NOT NULL DEFAULT '', page INTEGER NOT NULL DEFAULT 1,
        copied INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL
    );
    CREATE TABLE opted_out(key TEXT NOT NULL, partition TEXT NOT NULL, PRIMARY KEY(key, partition)) WITHOUT ROWID;
    CREATE TABLE imported(id BLOB PRIMARY KEY) WITHOUT ROWID;
    """,
    """
    CREATE INDEX aside_batch ON aside(batch);
    """,
)

NO_SERVER: Final = "e3b0c44298fc1c14"
"""The server id of settings that name no server: what is accepted under it goes to the first server that is configured.
"""

ACCEPTED: Final = 0
DELIVERED: Final = 1
SET_ASIDE: Final = 2
EXPIRED: Final = 3
