"""Tools that a model calls to read and to change what is remembered of the person in its conversation.

All on one slot (observer = observed = the asking person's peer), so that what a tool writes is what the next block
reads. Here live the gates, the parsing, the five tools and their answers; no tool decides what is injected, and none
guesses whose conversation it is in. `docs/tools.md` is the page for users.
"""

from __future__ import annotations

from honcho_actors.satellite.tools.answers import Details, Outcome, ToolError, ToolResult
from honcho_actors.satellite.tools.toolbox import Ports, Tool, make_tools, toolbox

__all__ = ["Details", "Outcome", "Ports", "Tool", "ToolError", "ToolResult", "make_tools", "toolbox"]
