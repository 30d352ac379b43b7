"""What a caller says about a child or a supervisor, checked at the door.

Every value is checked when it is constructed, in the caller's thread, and refused with an error named after its field;
whoever holds a `ChildSpec` or a `TreeSpec` never checks again. Durations are seconds on the runtime's monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from supervision.spec_errors import (
    BadArgs,
    BadAutoShutdown,
    BadChildren,
    BadClass,
    BadCombination,
    BadExtraArgs,
    BadId,
    BadIntensity,
    BadKwargs,
    BadMaxChildren,
    BadName,
    BadPeriod,
    BadRestart,
    BadShutdown,
    BadSignificant,
    BadStartTimeout,
    BadStrategy,
    BadWatchdog,
    DuplicateId,
)

DEFAULT_INTENSITY: Final = 3
"""Restarts that a supervisor admits within its period (Elixir's default; Erlang's is 1)."""
DEFAULT_PERIOD: Final = 5.0
"""Seconds of the restart window."""
DEFAULT_SHUTDOWN: Final = 5.0
"""Seconds a worker gets to end before it is killed."""
DEFAULT_START_TIMEOUT: Final = 5.0
"""Seconds a worker's `on_start` may take."""

INFINITY: Final = math.inf
"""As `shutdown` or `start_timeout`: wait for as long as it takes."""


class BrutalKill(Enum):
    """The type of `BRUTAL_KILL`."""

    BRUTAL_KILL = "brutal_kill"


class Ignore(Enum):
    """The type of `IGNORE`."""

    IGNORE = "ignore"


BRUTAL_KILL: Final = BrutalKill.BRUTAL_KILL
"""As `shutdown`: do not ask, kill at once."""
IGNORE: Final = Ignore.IGNORE
"""Returned by `on_start` or a supervisor's `init`: there is nothing to run, and that is no error."""

Budget = float | BrutalKill


class Strategy(StrEnum):
    """Who is restarted beside the child that ended."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"


class Restart(StrEnum):
    """Which endings of a child are answered by a restart."""

    PERMANENT = "permanent"
    """Every ending."""
    TRANSIENT = "transient"
    """Every ending but `Normal` and `Shutdown`."""
    TEMPORARY = "temporary"
    """None; the spec is dropped with the child, its arguments as soon as it has started."""


class AutoShutdown(StrEnum):
    """Whether the own ending of significant children ends the supervisor."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _seconds(value: object) -> bool:
    return _number(value) and value > 0  # type: ignore[operator]


Kind = Literal["worker", "supervisor"]

_UNSET: Any = object()
_STRATEGIES, _RESTARTS, _MODES = frozenset(Strategy), frozenset(Restart), frozenset(AutoShutdown)
_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child of a supervisor.

    `actor_class` is an actor class, or a supervisor class (one whose `child_kind` is "supervisor"). `shutdown` is the
    seconds the child gets to end (0: ask once and do not wait), `INFINITY` or `BRUTAL_KILL`; a worker has 5.0, a
    supervisor `INFINITY`. `start_timeout` bounds the start: the class's own `start_timeout`, else 5.0 (a supervisor
    `INFINITY`). `watchdog` bounds one turn of the child. `name` is registered before `on_start` runs and
    freed before a restart. Arguments never appear in a `repr`.
    """

    id: object
    actor_class: type[Any]
    args: tuple[Any, ...] = field(default=(), repr=False)
    kwargs: Mapping[str, Any] = field(default_factory=lambda: _EMPTY, repr=False)
    restart: Restart = Restart.PERMANENT
    shutdown: Budget = _UNSET
    significant: bool = False
    name: str | None = None
    start_timeout: float = _UNSET
    watchdog: float | None = None
    tree: TreeSpec | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.id is None or not _hashable(self.id):
            raise BadId(self.id, "hashable and not None")
        if not isinstance(self.actor_class, type) or not _startable(self.actor_class):
            raise BadClass(self.actor_class, "an actor class or a supervisor class")
        if not isinstance(self.args, tuple | list):
            raise BadArgs(self.args, "a tuple")
        put(self, "args", tuple(self.args))
        if not isinstance(self.kwargs, Mapping) or not all(isinstance(key, str) for key in self.kwargs):
            raise BadKwargs(self.kwargs, "a mapping with string keys")
        put(self, "kwargs", MappingProxyType(dict(self.kwargs)) if self.kwargs else _EMPTY)
        if self.tree is not None and not isinstance(self.tree, TreeSpec):
            raise BadChildren(self.tree, "a TreeSpec")
        supervisor = self.kind == "supervisor"
        _check_restart(self.restart)
        if type(self.restart) is not Restart:
            put(self, "restart", Restart(self.restart))
        if self.shutdown is _UNSET:
            put(self, "shutdown", INFINITY if supervisor else DEFAULT_SHUTDOWN)
        elif self.shutdown is not BRUTAL_KILL and not (_number(self.shutdown) and self.shutdown >= 0):
            raise BadShutdown(self.shutdown, "seconds >= 0, INFINITY or BRUTAL_KILL")
        if not isinstance(self.significant, bool):
            raise BadSignificant(self.significant, "a bool")
        if self.significant and self.restart is Restart.PERMANENT:
            raise BadCombination("a permanent child cannot be significant: it never ends for good")
        if self.name is not None and (not isinstance(self.name, str) or not self.name.strip()):
            raise BadName(self.name, "a non-empty string or None")
        if self.start_timeout is _UNSET:
            own = getattr(self.actor_class, "start_timeout", INFINITY if supervisor else DEFAULT_START_TIMEOUT)
            put(self, "start_timeout", own)
        if not _seconds(self.start_timeout):
            raise BadStartTimeout(self.start_timeout, "seconds > 0 or INFINITY")
        if self.watchdog is not None and not (_seconds(self.watchdog) and math.isfinite(self.watchdog)):
            raise BadWatchdog(self.watchdog, "seconds > 0 or None")

    @property
    def kind(self) -> Kind:
        """Whether the child is itself a supervisor."""
        if self.tree is not None:
            return "supervisor"
        return "supervisor" if getattr(self.actor_class, "child_kind", "worker") == "supervisor" else "worker"

    def without_arguments(self) -> ChildSpec:
        """The same child with nothing to start it from: all that is kept of a temporary child once it runs."""
        if not self.args and not self.kwargs and self.tree is None:
            return self
        kept = object.__new__(ChildSpec)
        for slot in ChildSpec.__slots__:
            object.__setattr__(kept, slot, getattr(self, slot))
        object.__setattr__(kept, "args", ())
        object.__setattr__(kept, "kwargs", _EMPTY)
        if kept.tree is not None:
            object.__setattr__(kept, "tree", replace(kept.tree, children=()))
        return kept

    @staticmethod
    def supervisor(
        id: object,
        children: Iterable[ChildSpec] = (),
        *,
        strategy: Strategy,
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
        **child: Any,
    ) -> ChildSpec:
        """A supervisor as a child of another. `child` are fields of `ChildSpec` (restart, shutdown, name, ...)."""
        spec = tree(children, strategy=strategy, intensity=intensity, period=period, auto_shutdown=auto_shutdown)
        return ChildSpec(id, TreeSpec, tree=spec, **child)

    @staticmethod
    def dynamic(
        id: object,
        *,
        max_children: float = INFINITY,
        extra_args: tuple[Any, ...] = (),
        intensity: int = DEFAULT_INTENSITY,
        period: float = DEFAULT_PERIOD,
        **child: Any,
    ) -> ChildSpec:
        """A dynamic supervisor as a child of another."""
        spec = dynamic_tree(max_children=max_children, extra_args=extra_args, intensity=intensity, period=period)
        return ChildSpec(id, TreeSpec, tree=spec, **child)


@dataclass(frozen=True, slots=True)
class Flags:
    """How a supervisor treats its children. Build it through `tree` or `dynamic_tree`."""

    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = DEFAULT_INTENSITY
    period: float = DEFAULT_PERIOD
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    dynamic: bool = False
    max_children: float = INFINITY
    extra_args: tuple[Any, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.strategy, str) or self.strategy not in _STRATEGIES:
            raise BadStrategy(self.strategy, "a Strategy")
        put(self, "strategy", Strategy(self.strategy))
        if isinstance(self.intensity, bool) or not isinstance(self.intensity, int) or self.intensity < 0:
            raise BadIntensity(self.intensity, "an int >= 0")
        if not (_seconds(self.period) and math.isfinite(self.period)):
            raise BadPeriod(self.period, "finite seconds > 0")
        if not isinstance(self.auto_shutdown, str) or self.auto_shutdown not in _MODES:
            raise BadAutoShutdown(self.auto_shutdown, "an AutoShutdown")
        put(self, "auto_shutdown", AutoShutdown(self.auto_shutdown))
        check_max_children(self.max_children)
        if not isinstance(self.extra_args, tuple | list):
            raise BadExtraArgs(self.extra_args, "a tuple")
        put(self, "extra_args", tuple(self.extra_args))
        if self.dynamic and self.auto_shutdown is not AutoShutdown.NEVER:
            raise BadCombination("a dynamic supervisor has no auto_shutdown")
        if self.dynamic and self.strategy is not Strategy.ONE_FOR_ONE:
            raise BadCombination("a dynamic supervisor is one_for_one")


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """A supervisor's flags and its initial children, in start order."""

    flags: Flags
    children: tuple[ChildSpec, ...] = ()

    child_kind = "supervisor"

    def __post_init__(self) -> None:
        if not isinstance(self.flags, Flags):
            raise BadStrategy(self.flags, "a Flags value")
        if isinstance(self.children, str | bytes | Mapping) or not isinstance(self.children, Iterable):
            raise BadChildren(self.children, "a sequence of ChildSpec")
        object.__setattr__(self, "children", tuple(self.children))
        if self.flags.dynamic and self.children:
            raise BadCombination("a dynamic supervisor starts without children")
        seen: set[object] = set()
        for spec in self.children:
            check_child(self.flags, spec)
            if spec.id in seen:
                raise DuplicateId(spec.id)
            seen.add(spec.id)


def tree(
    children: Iterable[ChildSpec] = (),
    *,
    strategy: Strategy,
    intensity: int = DEFAULT_INTENSITY,
    period: float = DEFAULT_PERIOD,
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
) -> TreeSpec:
    """What a supervisor's `init` returns. The strategy has no default: it is the one thing to think about."""
    flags = Flags(strategy=strategy, intensity=intensity, period=period, auto_shutdown=auto_shutdown)
    return TreeSpec(flags, children)  # type: ignore[arg-type]


def dynamic_tree(
    *,
    max_children: float = INFINITY,
    extra_args: tuple[Any, ...] = (),
    intensity: int = DEFAULT_INTENSITY,
    period: float = DEFAULT_PERIOD,
    strategy: Strategy = Strategy.ONE_FOR_ONE,
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
) -> TreeSpec:
    """The flags of a dynamic supervisor. `extra_args` stand before every child's own arguments."""
    return TreeSpec(
        Flags(
            strategy=strategy,
            intensity=intensity,
            period=period,
            auto_shutdown=auto_shutdown,
            dynamic=True,
            max_children=max_children,
            extra_args=extra_args,
        )
    )


def check_child(flags: Flags, spec: object) -> ChildSpec:
    """The spec, if a supervisor with these flags can have it as a child; else the error that names what is wrong."""
    if not isinstance(spec, ChildSpec):
        raise BadChildren(spec, "a ChildSpec")
    if spec.significant and flags.dynamic:
        raise BadCombination("a child of a dynamic supervisor cannot be significant")
    if spec.significant and flags.auto_shutdown is AutoShutdown.NEVER:
        raise BadCombination("a significant child needs a supervisor with auto_shutdown")
    return spec


def check_max_children(value: object) -> None:
    """Refuses a limit that is not an int >= 0 or INFINITY."""
    if isinstance(value, bool) or not (isinstance(value, int) or value == INFINITY) or value < 0:
        raise BadMaxChildren(value, "an int >= 0 or INFINITY")


def child_spec(what: object, **overrides: Any) -> ChildSpec:
    """A spec from a class, from `(class, args)` or from a spec, with fields replaced.

    A class may offer defaults in a mapping `child_defaults`. The id is the registered name if there is one, else the
    name of the class.
    """
    if isinstance(what, ChildSpec):
        return replace(what, **overrides)
    args: tuple[Any, ...] = ()
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], type):
        what, given = what
        args = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not isinstance(what, type) or not _startable(what):
        raise TypeError(f"{what!r} is not a child: wanted an actor class, (actor class, args) or a ChildSpec")
    fields: dict[str, Any] = {"args": args, **getattr(what, "child_defaults", {}), **overrides}
    child_id = fields.pop("id", None) or fields.get("name") or what.__name__
    return ChildSpec(child_id, what, **fields)


def _check_restart(value: object) -> None:
    if not isinstance(value, str) or value not in _RESTARTS:
        raise BadRestart(value, "a Restart")


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _startable(cls: type[Any]) -> bool:
    """Actor classes of this package have a `life_kind`, supervisors say so by `child_kind`; a stock actor does not."""
    return isinstance(getattr(cls, "life_kind", None), str) or getattr(cls, "child_kind", None) == "supervisor"
