"""The file of snapshots as a place for the histories of conversations, for hosts that have none of their own.

store = histories(settings)
talks = Transcripts(store)                      # or Replays(store)
talk = talks.open(who.session)                  # who: what privacy.identity.resolve(request, settings) gives
"""

from __future__ import annotations

from honcho_actors.host.kept import SqliteTranscripts
from honcho_actors.sessions.snapshots import FILE, MIGRATIONS
from honcho_actors.settings import Settings


def histories(settings: Settings) -> SqliteTranscripts:
    """A store in the settings' `cache_dir`, for as long as snapshots are kept. One for a process; close it. What
    `Memory.forget` forgets of a person is gone from it, too."""
    return SqliteTranscripts(
        settings.cache_dir / FILE, MIGRATIONS, keep_seconds=settings.snapshot_ttl, most=settings.max_sessions
    )
