"""The command tree: names, options and help. What a command does stands in a module of its own, loaded when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from honcho_actors.cli import completing, out
from honcho_actors.cli.outbox_app import outbox_app

app = typer.Typer(
    name="honcho-actors",
    help="A supervised memory runtime for long-running assistants, over Honcho.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on stdout instead of text.")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Directory of the runtime's state.", show_default="the settings'")
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        out.say(f"honcho-actors {version('honcho-actors')}")
        raise out.Stop("", out.FINE)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="The version, and nothing else.")
    ] = False,
) -> None:
    """What stands before the name of a command."""


def run() -> int:
    """Runs the command line; gives the exit code. No exception of ours or of a library leaves as a traceback."""
    arguments = sys.argv[1:] or ["--help"]
    return out.ended(lambda: app(arguments, prog_name="honcho-actors", standalone_mode=False))


@app.command(epilog="Example: honcho-actors demo --transcript talk.jsonl --json")
def demo(
    transcript: Annotated[
        Path | None,
        typer.Option(help="JSON Lines of role, content, time (and session, user); default: a bundled conversation."),
    ] = None,
    as_json: AsJson = False,
    delay: Annotated[float, typer.Option(help="Seconds that the embedded server takes for a request.", min=0)] = 0.2,
    pace: Annotated[float, typer.Option(help="Seconds between two turns.", min=0)] = 0.25,
    keep: Annotated[
        Path | None, typer.Option(help="Keep the server's data and the runtime's state in this new directory.")
    ] = None,
) -> int:
    """Replays a conversation over real HTTP: cold, warm, an outage, recovery, a restart; then shows the figures."""
    from honcho_actors.cli.demo import demo as command

    return command(transcript=transcript, as_json=as_json, delay=delay, pace=pace, keep=keep)


@app.command(epilog="Example: honcho-actors chat --user ada --session kitchen")
def chat(
    user: Annotated[str, typer.Option(help="The person who talks.")] = "you",
    session: Annotated[str, typer.Option(help="The conversation.")] = "chat",
    model: Annotated[str | None, typer.Option(help="Model name; default: OPENAI_MODEL, else none is asked.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="How the model is asked: chat, responses, or messages (ANTHROPIC_...).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Talk, and see turn by turn the exact prompt that a model is given.

    The model is any OpenAI-compatible endpoint (OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL) or one that speaks
    messages (the same of ANTHROPIC). Without one, the prompt alone is shown.
    """
    from honcho_actors.cli.chat import chat as command

    return command(user=user, session=session, model=model, protocol=protocol, as_json=as_json)


@app.command(epilog="Example: HONCHO_URL=http://127.0.0.1:8000 honcho-actors serve")
def serve(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Take turns as JSON Lines on stdin, answer on stdout.")
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """Runs the memory runtime until SIGTERM or end of input: delivers what is queued, and can be asked how it is."""
    from honcho_actors.cli.serve import serve as command

    return command(stdio=stdio, state_dir=state_dir, as_json=as_json)


@app.command(epilog="Example: honcho-actors bench --delay 0.05")
def bench(
    turns: Annotated[int, typer.Option(help="Warm turns that are timed.", min=10, max=1_000_000)] = 5_000,
    delay: Annotated[float, typer.Option(help="Seconds that the embedded server takes for a request.", min=0)] = 0.2,
    as_json: AsJson = False,
) -> int:
    """What a turn costs on this machine: cold, warm, a known person's new conversation; handing over and delivery."""
    from honcho_actors.cli.bench import bench as command

    return command(turns=turns, delay=delay, as_json=as_json)


@app.command(epilog="Example: honcho-actors local --port 8000 --data ./honcho-data")
def local(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 picks a free one.", min=0, max=65535)] = 8000,
    data: Annotated[Path | None, typer.Option(help="Directory of its database; default: a temporary one.")] = None,
    delay: Annotated[float, typer.Option(help="Seconds added to every request.", min=0)] = 0.0,
    as_json: AsJson = False,
) -> int:
    """Runs the embedded Honcho-compatible server. It stores and searches, and derives nothing without a model."""
    from honcho_actors.cli.local import local as command

    return command(port=port, data=data, delay=delay, as_json=as_json)


Timeout = Annotated[float, typer.Option(help="Total seconds for the one request.", min=0.1, max=600.0)]


@app.command(epilog="Example: honcho-actors proxy --upstream https://api.openai.com --port 8486")
def proxy(
    upstream: Annotated[str, typer.Option(help="Where the model is: http(s)://host[:port][/prefix].")],
    host: Annotated[str, typer.Option(help="Where it listens; off this machine only with a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port; 0 picks a free one.", min=0, max=65535)] = 8486,
    token_file: Annotated[
        Path | None, typer.Option(help="Only requests with this token in x-honcho-token may say who is talking.")
    ] = None,
    user_field: Annotated[
        bool, typer.Option("--user-field", help="Where no header names a person, the request's `user` does.")
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """Passes model calls on, with memory for those that say who is talking. Runs until SIGTERM."""
    from honcho_actors.cli.proxy import proxy as command

    return command(
        upstream=upstream,
        host=host,
        port=port,
        token_file=token_file,
        user_field=user_field,
        state_dir=state_dir,
        as_json=as_json,
    )


@app.command(epilog="Example: honcho-actors mcp --session garden --user ann")
def mcp(
    session: Annotated[str | None, typer.Option(help="The conversation's key, where no header gives one.")] = None,
    user: Annotated[str | None, typer.Option(help="The person, where no header names one.")] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port; 0 picks a free one.", min=0, max=65535)] = 8487,
    token_file: Annotated[
        Path | None, typer.Option(help="The token of HTTP requests.", show_default="mcp-token in the state directory")
    ] = None,
    state_dir: StateDir = None,
) -> int:
    """Memory's tools over the Model Context Protocol, until its host goes away."""
    from honcho_actors.cli.mcp import mcp as command

    return command(
        session=session, user=user, http=http, host=host, port=port, token_file=token_file, state_dir=state_dir
    )


@app.command(epilog="Example: honcho-actors status --json")
def status(
    state_dir: StateDir = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Total seconds for asking the server once.",
            min=0.1,
            max=600.0,
            show_default="the settings', at most 5",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """What the running process says of itself, and whether its server answers; without one, what would be."""
    from honcho_actors.cli.status import status as command

    return command(state_dir=state_dir, timeout=timeout, as_json=as_json)


@app.command(epilog="Example: honcho-actors top --every 2")
def top(
    state_dir: StateDir = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2, max=3600.0)] = 1.0,
    count: Annotated[
        int | None, typer.Option(help="So many looks, then the end.", min=1, show_default="no end")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """The running process, live: health, conversations, deliveries, the server's parts. Ctrl-C ends it."""
    from honcho_actors.cli.top import top as command

    return command(state_dir=state_dir, every=every, count=count, as_json=as_json)


@app.command(epilog="Example: honcho-actors sessions --limit 20")
def sessions(
    state_dir: StateDir = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> int:
    """The conversations that the running process keeps ready. What is not here may still be on the server."""
    from honcho_actors.cli.inspect import sessions as command

    return command(state_dir=state_dir, limit=limit, as_json=as_json)


@app.command(epilog="Example: honcho-actors context --session telegram:42 --user 7654321")
def context(
    session: Annotated[
        str | None,
        typer.Option(
            help="The conversation's key.", show_default="the one last refreshed", autocompletion=completing.sessions
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(help="The person.", show_default="the settings'")] = None,
    query: Annotated[str | None, typer.Option(help="With --live: the message of the turn.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve a real turn from here and print its block. It costs: see below.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="With --live: seconds that the turn may wait.", min=0.1, max=600.0, show_default="first_turn_wait"
        ),
    ] = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> int:
    """What the running process holds for one conversation; nothing is read or created for it.

    --live serves one real turn instead, in a process of its own: it asks the server, and a dialectic question that it
    starts may be billed. The running process, its outbox and its cache are not touched.
    """
    from honcho_actors.cli.context import context as command

    return command(
        session=session, user=user, query=query, live=live, timeout=timeout, state_dir=state_dir, as_json=as_json
    )


@app.command(epilog="Example: honcho-actors tree")
def tree(state_dir: StateDir = None, as_json: AsJson = False) -> int:
    """The supervision tree of the running process."""
    from honcho_actors.cli.inspect import tree as command

    return command(state_dir=state_dir, as_json=as_json)


app.add_typer(outbox_app, name="outbox")


@app.command("import", epilog="Example: honcho-actors import chat.jsonl conversations.json --user ada")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="JSON Lines of messages, `messages` JSON, or a ChatGPT export."),
    ],
    user: Annotated[
        str | None, typer.Option(help="Whose words these are.", show_default="the settings' user_peer")
    ] = None,
    state_dir: StateDir = None,
    wait: Annotated[
        float, typer.Option(help="Seconds without a delivery after which it ends; 0 does not wait.", min=0, max=86_400)
    ] = 30.0,
    as_json: AsJson = False,
) -> int:
    """Brings in what was said elsewhere, once: what an earlier import brought in is known and not sent again."""
    from honcho_actors.cli.importing import import_ as command

    return command(files=files, user=user, state_dir=state_dir, wait=wait, as_json=as_json)


@app.command(epilog="Example: honcho-actors settings --toml > honcho-actors.toml")
def settings(
    state_dir: StateDir = None,
    as_json: AsJson = False,
    toml: Annotated[bool, typer.Option("--toml", help="A commented file that changes nothing.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="JSON Schema of that file.")] = False,
) -> int:
    """Every setting: its value, where it came from, and what lost."""
    from honcho_actors.cli.inspect import settings as command

    return command(state_dir=state_dir, as_json=as_json, toml=toml, schema=schema)


@app.command(epilog="Example: honcho-actors ping --timeout 2")
def ping(
    timeout: Annotated[
        float | None,
        typer.Option(help="Total seconds for the one request.", min=0.1, max=600.0, show_default="request_timeout"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Asks the server once, from this process, and says how long it took."""
    from honcho_actors.cli.doctor import ping as command

    return command(timeout=timeout, as_json=as_json)


@app.command(epilog="Example: honcho-actors doctor")
def doctor(state_dir: StateDir = None, timeout: Timeout = 5.0, as_json: AsJson = False) -> int:
    """What is wrong, each with what to do about it."""
    from honcho_actors.cli.doctor import doctor as command

    return command(state_dir=state_dir, timeout=timeout, as_json=as_json)


@app.command(epilog="Example: honcho-actors page")
def page(state_dir: StateDir = None, as_json: AsJson = False) -> int:
    """A link to the running process's status page, good once and for two minutes."""
    from honcho_actors.cli.operators import page as command

    return command(state_dir=state_dir, as_json=as_json)


@app.command(epilog="Example: honcho-actors alerts > alerts.yml")
def alerts(
    runbook: Annotated[str | None, typer.Option(help="Print what to do about this alert instead.")] = None,
    runbooks: Annotated[
        str, typer.Option(help="Where your people find the runbooks; put before their file names.")
    ] = "docs/runbooks/",
    as_json: AsJson = False,
) -> int:
    """Alert rules for Prometheus, each with a runbook."""
    from honcho_actors.cli.operators import alerts as command

    return command(runbook=runbook, runbooks=runbooks, as_json=as_json)


@app.command(epilog="Example: honcho-actors dashboards > honcho-actors.json")
def dashboards(
    scrape: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Print a prometheus.yml that scrapes this, with alerts.yml beside it."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """The Grafana dashboard, as JSON."""
    from honcho_actors.cli.operators import dashboards as command

    return command(scrape=scrape, as_json=as_json)
