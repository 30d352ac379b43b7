"""Names of actors. A name belongs to one living actor; it is free again before anybody hears of the owner's end.

Reads take no lock. Callers that hold a name instead of a ref find the restarted actor behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

from supervision.errors import NoProc
from supervision.spec_errors import AlreadyStarted, BadName

__all__ = ["NameRef", "Registry"]


class Registry:
    """The name table of one runtime."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._lock = Lock()

    def unlock(self) -> None:
        """In a forked child: whoever held the lock is not here to give it back."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._names))

    def register(self, name: str, ref: Any) -> None:
        """Give `name` to `ref`. `AlreadyStarted` (with its owner) when a living actor has it, `NoProc` when `ref` is
        dead.
        """
        if not isinstance(name, str) or not name.strip():
            raise BadName(name, "a non-empty string")
        with self._lock:
            owner = self._names.get(name)
            if owner is not None and owner is not ref and owner.life.reason is None:
                raise AlreadyStarted(f"the name {name!r} is taken by {owner}", owner)
            self._names[name] = ref
        if not ref.life.own_name(name):
            self.release(name, ref)
            raise NoProc(f"{ref} has ended")

    def unregister(self, name: str) -> bool:
        """Free a name; True when somebody had it."""
        with self._lock:
            return self._names.pop(name, None) is not None

    def release(self, name: str, ref: Any) -> None:
        """Free `name` if `ref` still has it."""
        with self._lock:
            if self._names.get(name) is ref:
                del self._names[name]

    def whereis(self, name: str) -> Any | None:
        """The ref behind `name`, or None."""
        return self._names.get(name)

    def via(self, name: str) -> NameRef:
        """A handle that looks the name up at every use, and so survives restarts of its owner."""
        return NameRef(self, name)


class NameRef:
    """Whoever has the name now. Every call raises `NoProc` while nobody has it."""

    __slots__ = ("_registry", "name")

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self.name = name

    def __repr__(self) -> str:
        return f"<name {self.name!r}>"

    @property
    def ref(self) -> Any:
        """The ref behind the name now."""
        ref = self._registry.whereis(self.name)
        if ref is None:
            raise NoProc(f"nobody is called {self.name!r}")
        return ref

    @property
    def life(self) -> Any:
        return self.ref.life

    def is_alive(self) -> bool:
        """Whether somebody living has the name."""
        ref = self._registry.whereis(self.name)
        return ref is not None and ref.is_alive()

    def tell(self, message: Any) -> None:
        """As `Ref.tell`."""
        self.ref.tell(message)

    def ask(self, message: Any, *, timeout: float | None = None) -> Any:
        """As `Ref.ask`."""
        return self.ref.ask(message, timeout=timeout)

    async def aask(self, message: Any, *, timeout: float | None = None) -> Any:
        """As `Ref.aask`."""
        return await self.ref.aask(message, timeout=timeout)
