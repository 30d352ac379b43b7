"""The tables of the embedded server, and how a connection to them is opened.

Everything hangs on whole-number keys, so that a session's newest messages, its count and a person's conclusions are
read through an index however long the session is. Messages are indexed twice: by stemmed words, and by trigrams, which
find Chinese and parts of words. The top-level text values of a message's metadata have a table of their own: a client
that asks "have you got my batch?" is answered without a scan.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from honcho_actors.local import filters

VERSION = 2
FILE = "honcho-local.db"
BUSY_SECONDS = 5.0

TABLES = """
CREATE TABLE workspaces(
    id TEXT PRIMARY KEY, metadata TEXT NOT NULL, configuration TEXT NOT NULL,
    created_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE peers(
    pk INTEGER PRIMARY KEY, workspace TEXT NOT NULL, id TEXT NOT NULL, metadata TEXT NOT NULL,
    configuration TEXT NOT NULL, created_at INTEGER NOT NULL, UNIQUE(workspace, id));
CREATE INDEX peers_by_name ON peers(workspace, lower(id));
CREATE TABLE sessions(
    pk INTEGER PRIMARY KEY, uid TEXT NOT NULL, workspace TEXT NOT NULL, id TEXT NOT NULL, is_active INTEGER NOT NULL,
    metadata TEXT NOT NULL, configuration TEXT NOT NULL, created_at INTEGER NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0, UNIQUE(workspace, id));
CREATE TABLE members(
    session INTEGER NOT NULL, peer TEXT NOT NULL, observe_me INTEGER, observe_others INTEGER,
    joined_at INTEGER NOT NULL, left_at INTEGER, PRIMARY KEY(session, peer)) WITHOUT ROWID;
CREATE TABLE messages(
    pk INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, session INTEGER NOT NULL, workspace TEXT NOT NULL,
    peer TEXT NOT NULL, content TEXT NOT NULL, metadata TEXT NOT NULL, created_at INTEGER NOT NULL,
    token_count INTEGER NOT NULL);
CREATE INDEX messages_by_session ON messages(session, pk);
CREATE INDEX messages_by_time ON messages(session, created_at);
CREATE INDEX messages_by_peer ON messages(workspace, peer, pk);
CREATE TABLE message_keys(
    session INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, message INTEGER NOT NULL,
    PRIMARY KEY(session, key, value, message)) WITHOUT ROWID;
CREATE INDEX message_keys_by_message ON message_keys(message);
CREATE TABLE conclusions(
    pk INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, observer TEXT NOT NULL,
    observed TEXT NOT NULL, session TEXT, content TEXT NOT NULL, level TEXT NOT NULL, created_at INTEGER NOT NULL,
    said_at INTEGER NOT NULL, derived INTEGER NOT NULL DEFAULT 1, digest INTEGER NOT NULL);
CREATE INDEX conclusions_of ON conclusions(workspace, observer, observed, pk);
CREATE INDEX conclusions_here ON conclusions(workspace, observer, observed, session, pk);
CREATE INDEX conclusions_in ON conclusions(workspace, session, pk);
CREATE INDEX conclusions_same ON conclusions(digest, workspace, observer, observed);
CREATE INDEX conclusions_derived ON conclusions(workspace, observer, observed, derived);
CREATE TABLE cards(
    workspace TEXT NOT NULL, observer TEXT NOT NULL, observed TEXT NOT NULL, lines TEXT NOT NULL,
    PRIMARY KEY(workspace, observer, observed)) WITHOUT ROWID;
CREATE TABLE summaries(
    session INTEGER NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL, message INTEGER NOT NULL,
    message_id TEXT NOT NULL, created_at INTEGER NOT NULL, token_count INTEGER NOT NULL,
    PRIMARY KEY(session, kind)) WITHOUT ROWID;
CREATE TABLE work(
    pk INTEGER PRIMARY KEY, session INTEGER NOT NULL, workspace TEXT NOT NULL, message INTEGER NOT NULL,
    kind TEXT NOT NULL, observed TEXT NOT NULL, observers TEXT NOT NULL,
    state INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0);
CREATE INDEX work_by_state ON work(state, pk);
CREATE INDEX work_by_session ON work(workspace, session, state);
CREATE VIRTUAL TABLE messages_words USING fts5(
    content, content='messages', content_rowid='pk', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE messages_grams USING fts5(
    content, content='messages', content_rowid='pk', tokenize='trigram');
CREATE VIRTUAL TABLE conclusions_words USING fts5(
    content, content='conclusions', content_rowid='pk', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER messages_indexed AFTER INSERT ON messages BEGIN
    INSERT INTO messages_words(rowid, content) VALUES (new.pk, new.content);
    INSERT INTO messages_grams(rowid, content) VALUES (new.pk, new.content);
END;
CREATE TRIGGER messages_unindexed AFTER DELETE ON messages BEGIN
    INSERT INTO messages_words(messages_words, rowid, content) VALUES ('delete', old.pk, old.content);
    INSERT INTO messages_grams(messages_grams, rowid, content) VALUES ('delete', old.pk, old.content);
    DELETE FROM message_keys WHERE message = old.pk;
END;
CREATE TRIGGER conclusions_indexed AFTER INSERT ON conclusions BEGIN
    INSERT INTO conclusions_words(rowid, content) VALUES (new.pk, new.content);
END;
CREATE TRIGGER conclusions_unindexed AFTER DELETE ON conclusions BEGIN
    INSERT INTO conclusions_words(conclusions_words, rowid, content) VALUES ('delete', old.pk, old.content);
END;
"""

SECOND = "ALTER TABLE members ADD COLUMN left_at INTEGER;"
"""What makes a store of format 1 one of format 2."""


class Unusable(Exception):
    """The data directory can't be used; the text is one sentence for a person."""


def connect(path: Path, *, durable: bool) -> sqlite3.Connection:
    """A connection in write-ahead mode; `durable` waits for the disk at every commit."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA cache_size=-16000")
    connection.create_function("json_contains", 2, filters.contains, deterministic=True)
    connection.create_function("json_compared", 4, filters.compared, deterministic=True)
    return connection


def place(directory: Path) -> Path:
    """Makes the directory and its file where they are missing, and changes nothing in them; raises `Unusable`."""
    path = directory / FILE
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as fault:
        raise Unusable(f"the data directory {directory} cannot be written: {fault.strerror}") from fault
    return path


def prepare(directory: Path) -> Path:
    """Makes the tables where they are missing and clears up after the server before; raises `Unusable`."""
    path = place(directory)
    try:
        connection = connect(path, durable=True)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                connection.executescript(f"BEGIN IMMEDIATE;{TABLES}PRAGMA user_version={VERSION};COMMIT;")
            elif version == 1:
                connection.executescript(f"BEGIN IMMEDIATE;{SECOND}PRAGMA user_version={VERSION};COMMIT;")
            elif version != VERSION:
                raise Unusable(f"the store in {directory} has format {version}, this server writes format {VERSION}")
            connection.execute("DELETE FROM sessions WHERE is_active = 0")
            connection.execute("UPDATE work SET state = 0 WHERE state = 1")
        finally:
            connection.close()
    except sqlite3.Error as fault:
        raise Unusable(f"the store in {directory} cannot be opened: {fault}") from fault
    return path
