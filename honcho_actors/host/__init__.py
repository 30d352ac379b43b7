"""What any assistant offers its satellites: the registry that asks them for context under a budget, the prompt that
their answers are composed into, the transcript that keeps what people saw apart from what the model saw, the memory
providers that are searched and told, and the tools that a model is shown.

Knows contributors by their protocol alone: no satellite, no server and no conversation table may be named here.
"""

from __future__ import annotations

from honcho_actors.host.fusion import newest_first
from honcho_actors.host.history import Kept, MemoryTranscripts, Prefix, TranscriptStore
from honcho_actors.host.ingest import Ingest, IngestState
from honcho_actors.host.plan import Answer, Contribution, Contributor, Plan
from honcho_actors.host.prompt import Prompt, compose_prompt
from honcho_actors.host.providers import Asked, Found, MemoryProvider, MemoryProviders, Query
from honcho_actors.host.registry import Collected, ContextRegistry, Outcome, OutcomeState
from honcho_actors.host.scrub import Scrubber
from honcho_actors.host.tools import HostTool, Rank, ToolAnswer, ToolRegistry
from honcho_actors.host.transcript import Conversation, Entry, Replay, Transcript
from honcho_actors.host.transcripts import Replays, Transcripts
from honcho_actors.privacy.envelope import Envelope

__all__ = [
    "Answer",
    "Asked",
    "Collected",
    "ContextRegistry",
    "Contribution",
    "Contributor",
    "Conversation",
    "Entry",
    "Envelope",
    "Found",
    "HostTool",
    "Ingest",
    "IngestState",
    "Kept",
    "MemoryProvider",
    "MemoryProviders",
    "MemoryTranscripts",
    "Outcome",
    "OutcomeState",
    "Plan",
    "Prefix",
    "Prompt",
    "Query",
    "Rank",
    "Replay",
    "Replays",
    "Scrubber",
    "ToolAnswer",
    "ToolRegistry",
    "Transcript",
    "TranscriptStore",
    "Transcripts",
    "compose_prompt",
    "newest_first",
]
