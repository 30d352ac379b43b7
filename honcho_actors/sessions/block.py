"""The block: what is recalled of a person, as two typed halves of finished text, inside one budget of tokens.

The *stable* half (summary, representation, card) belongs into the system prompt. Its bytes depend on what was read
and on the settings, on nothing else: not on the message, the time, the turn, or whether there is a dialectic
supplement. The *volatile* half (the supplement) stands beside the user's message and says in words which turn it was
worked out for. Everything counts against `context_tokens`, title, label and the envelope that a host puts around the
volatile half included. Pure functions; recalled text is
neutralised by the fence before it is measured. Nothing is ever parsed out of rendered text again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from honcho_actors.privacy import envelope, fence
from honcho_actors.sessions.budget import ELLIPSIS, Counter, cut_chars, cut_tokens, grapheme_floor, share, utf8_thirds

STABLE_TITLE = "Background remembered about the user"
VOLATILE_TITLE = "From what is remembered: what may bear on the conversation"

STABLE_HEAD = f"## {STABLE_TITLE}\n\n"
VOLATILE_HEAD = f"## {VOLATILE_TITLE}\n\n"

STABLE_FRONT = f"{STABLE_HEAD}{fence.LABEL}\n{fence.OPEN}"
VOLATILE_FRONT = (
    f"{VOLATILE_HEAD}{fence.LABEL} It was worked out {{made}}, not for the present message.\n{fence.OPEN}\n"
)
BACK = f"\n{fence.CLOSE}"

SUMMARY, REPRESENTATION, CARD = range(3)
HEADINGS = ("Earlier in this conversation", "What is known", "Key facts")
TITLES = (STABLE_TITLE, VOLATILE_TITLE, *HEADINGS)
"""Headings that recalled text may not imitate."""

WEIGHTS = (3, 5, 2)
"""Shares of the room when not everything fits: no part starves another."""

CARD_LINES = 40
CARD_LINE_CHARS = 200
"""What the server's own agent keeps of a card; a longer one is somebody's mistake."""

VOLATILE_FRACTION = 3
"""At most a third of the budget is held free for the volatile half with its label and envelope, whether or not there is
one: else the stable half would change with it."""

CHARS_A_TOKEN = 12
"""What comes in is looked at up to this many characters for each token of the budget: no tokenizer packs more."""

LEAST_TEXT_TOKENS = 8
"""A half with less room than this for its text is left out: a label without content helps nobody."""


_DEPENDS_ON = (STABLE_FRONT, VOLATILE_FRONT, BACK, TITLES, WEIGHTS, VOLATILE_FRACTION, envelope.SAMPLE)
_LAYOUT = "3-" + sha256(repr(_DEPENDS_ON).encode()).hexdigest()[:12]
"""Names the rendering. Raise the number whenever the same input gives other bytes."""


class Recalled(NamedTuple):
    """What was read, as text. A transient argument, never kept in an entry."""

    representation: str = ""
    card: tuple[str, ...] = ()
    summary: str = ""


class About(NamedTuple):
    """What is known of a person as it may be shown: neutral, not yet cut to its share."""

    representation: str
    card: str


class Limits(NamedTuple):
    """The settings that the bytes of a block depend on."""

    context_tokens: int
    dialectic_max_chars: int
    counter: Counter = utf8_thirds


def card_lines(card: object) -> tuple[str, ...]:
    """The usable lines of a card: strings and numbers of a list, or the lines of a string. Total on any value."""
    if isinstance(card, str):
        items: list[object] = list(card.split("\n"))
    elif isinstance(card, (list, tuple)):
        items = list(card)
    else:
        return ()
    lines = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            continue
        text = str(item).strip()
        if text:
            lines.append(text)
    return tuple(lines)


def about(representation: str, card: tuple[str, ...], limits: Limits) -> About:
    """A person's part made neutral, once for all conversations with them."""
    most = limits.context_tokens * CHARS_A_TOKEN + CARD_LINE_CHARS
    lines = []
    for item in card[:CARD_LINES]:
        line = fence.line(item[:most], TITLES)
        if line:
            lines.append("- " + cut_chars(line, CARD_LINE_CHARS))
    return About(_recalled(representation, most), "\n".join(lines))


def stable(recalled: Recalled, limits: Limits, person: About | None = None) -> str:
    """The system half with its title, or "" when nothing is known or nothing fits. `person`: what `about` gave for
    the same and the same limits."""
    if limits.context_tokens <= 0:
        return ""
    parts = _parts(recalled, limits, person)
    if not any(parts):
        return ""
    room = limits.context_tokens - volatile_room(limits)
    whole = _join(parts)
    if limits.counter(whole) <= room:
        return whole
    return _fitted(parts, room, limits.counter)


def says_something(recalled: Recalled, limits: Limits) -> bool:
    """Whether there is anything to show, room or no room."""
    return any(_parts(recalled, limits._replace(context_tokens=max(1, limits.context_tokens)), None))


def volatile(dialectic: str, made_for: str, limits: Limits, taken: int) -> str:
    """The user-message half with its title, or "". `taken` are the tokens of the stable half; `made_for` says the
    turn."""
    if limits.context_tokens <= 0 or not dialectic:
        return ""
    text = cut_chars(fence.neutral(dialectic, TITLES), limits.dialectic_max_chars)
    front = VOLATILE_FRONT.format(made=made_for)
    room = limits.context_tokens - taken - 1
    left = room - limits.counter(front + BACK + envelope.SAMPLE)
    while text and left >= LEAST_TEXT_TOKENS:
        cut = cut_tokens(text, left, limits.counter)
        over = limits.counter(front + cut + BACK + envelope.SAMPLE) - room
        if cut and over <= 0:
            return front + cut + BACK
        left -= max(1, over)
    return ""


def volatile_room(limits: Limits) -> int:
    """Tokens held free for the volatile half: by settings alone, so that the stable half never depends on a
    supplement."""
    wanted = limits.counter(VOLATILE_FRONT + BACK + envelope.SAMPLE) + limits.dialectic_max_chars // 3 + 8
    room = min(wanted, limits.context_tokens // VOLATILE_FRACTION)
    return room if limits.context_tokens - room >= limits.counter(STABLE_FRONT + BACK) + 64 else 0


def made_for_turn(turn: int) -> str:
    """How the volatile half says in words what it was made for. `turn` counts from 1."""
    return "before this conversation began" if turn <= 0 else f"at turn {turn} of this conversation"


def made_with(limits: Limits) -> str:
    """What a stable half's bytes depend on beside what was read, in a word; "" for a counter that can't be named."""
    if limits.counter is not utf8_thirds:
        return ""
    return f"{_LAYOUT}:{limits.context_tokens}:{limits.dialectic_max_chars}"


def _parts(recalled: Recalled, limits: Limits, person: About | None) -> list[str]:
    known = about(recalled.representation, recalled.card, limits) if person is None else person
    most = limits.context_tokens * CHARS_A_TOKEN + CARD_LINE_CHARS
    return [_recalled(recalled.summary, most), known.representation, known.card]


def _recalled(text: str, most: int) -> str:
    return fence.neutral(text[: grapheme_floor(text, most)], TITLES)


def _join(parts: list[str]) -> str:
    inner = "\n".join(f"\n### {HEADINGS[i]}\n{part}" for i, part in enumerate(parts) if part)
    return STABLE_FRONT + inner + BACK


def _fitted(parts: list[str], room: int, counter: Counter) -> str:
    """The parts cut to their shares. Shrinks the room until the finished text fits, since counts of pieces need not
    add up."""
    heads = [counter(f"\n\n### {HEADINGS[i]}\n") + 1 if part else 0 for i, part in enumerate(parts)]
    needs = [counter(part) if part else 0 for part in parts]
    left = room - counter(STABLE_FRONT + BACK) - sum(heads)
    while left >= LEAST_TEXT_TOKENS:
        given = share(needs, WEIGHTS, left)
        cut = [
            _cut_card(part, given[i], counter) if i == CARD else cut_tokens(part, given[i], counter)
            for i, part in enumerate(parts)
        ]
        if not any(cut):
            return ""
        text = _join(cut)
        over = counter(text) - room
        if over <= 0:
            return text
        left -= max(1, over)
    return ""


def _cut_card(card: str, room: int, counter: Counter) -> str:
    """Whole lines of a card first; the first line itself is cut when not even it fits."""
    if counter(card) <= room:
        return card
    kept = ""
    for line in card.split("\n"):
        longer = f"{kept}\n{line}" if kept else line
        if counter(longer + "\n-" + ELLIPSIS) > room:
            break
        kept = longer
    return f"{kept}\n-{ELLIPSIS}" if kept else cut_tokens(card, room, counter)
