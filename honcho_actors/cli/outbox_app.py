"""The commands under `outbox`: names, options and help. What they do stands in `outbox`, loaded when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Directory of the runtime's state.", show_default="the settings'")
]
Reveal = Annotated[bool, typer.Option("--reveal", help="What was said, too.")]
BatchId = Annotated[str, typer.Argument(metavar="BATCH_ID", help="A turn, as `outbox list` names it.")]

outbox_app = typer.Typer(
    invoke_without_command=True,
    epilog="Example: honcho-actors outbox list --state set_aside",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@outbox_app.callback()
def outbox(context: typer.Context, state_dir: StateDir = None, as_json: AsJson = False) -> int:
    """What the running process has still to deliver, and why it waits. The commands look into the file itself."""
    if context.invoked_subcommand is not None:
        context.obj = (state_dir, as_json)
        return 0
    from honcho_actors.cli.inspect import outbox as command

    return command(state_dir=state_dir, as_json=as_json)


@outbox_app.command("list", epilog="Example: honcho-actors outbox list --state set_aside --json")
def list_(
    context: typer.Context,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", help="accepted, sending, set_aside or delivered; may be given again."),
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=1_000_000)] = 100,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """The turns that are not on the server, oldest first: state, reason, what they wait for."""
    from honcho_actors.cli.outbox import list_ as command

    where, plain = _given(context, state_dir, as_json)
    return command(state_dir=where, states=states or (), limit=limit, as_json=plain)


@outbox_app.command(epilog="Example: honcho-actors outbox show 0f3a... --reveal")
def show(
    context: typer.Context,
    batch_id: BatchId,
    reveal: Reveal = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """The messages of one turn; what was said only with --reveal."""
    from honcho_actors.cli.outbox import show as command

    where, plain = _given(context, state_dir, as_json)
    return command(state_dir=where, batch_id=batch_id, reveal=reveal, as_json=plain)


@outbox_app.command(epilog="Example: honcho-actors outbox retry --all")
def retry(
    context: typer.Context,
    batch_id: Annotated[str | None, typer.Argument(metavar="[BATCH_ID]", help="A turn that was set aside.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Everything that was set aside.")] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """Makes what was set aside owed again. It goes behind what was captured since."""
    from honcho_actors.cli.outbox import retry as command

    where, plain = _given(context, state_dir, as_json)
    return command(state_dir=where, batch_id=batch_id, every=every, as_json=plain)


@outbox_app.command(epilog="Example: honcho-actors outbox export --reveal --output kept.jsonl")
def export(
    context: typer.Context,
    output: Annotated[Path | None, typer.Option(help="A new file; default: stdout.")] = None,
    reveal: Reveal = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """Every turn that is not on the server, as JSON Lines; what was said only with --reveal."""
    from honcho_actors.cli.outbox import export as command

    where, plain = _given(context, state_dir, as_json)
    return command(state_dir=where, output=output, reveal=reveal, as_json=plain)


def _given(context: typer.Context, state_dir: Path | None, as_json: bool) -> tuple[Path | None, bool]:
    """An option may stand before or behind the name of the command."""
    before = context.obj or (None, False)
    return state_dir if state_dir is not None else before[0], as_json or before[1]
