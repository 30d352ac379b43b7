"""What the read side is given from outside: settings, meters, the way to a client, and who knows what it may not know.

Shared by every manager of one runtime, so that what they spent and how they count outlives a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from honcho_actors.metrics import Meters
from honcho_actors.model import SessionKey
from honcho_actors.sessions.budget import Counter, utf8_thirds
from honcho_actors.sessions.cadence import SpendBudget
from honcho_actors.sessions.worker import ClientFactory
from honcho_actors.settings import SettingsCell


class Ports:
    """What the manager is given: who answers what it may not know itself. Shared by every manager of one runtime."""

    def __init__(
        self,
        cell: SettingsCell,
        meters: Meters,
        client: ClientFactory,
        *,
        is_established: Callable[[SessionKey], bool] = lambda session: False,
        counter: Counter = utf8_thirds,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.cell = cell
        self.meters = meters
        self.client = client
        self.is_established = is_established
        self.counter = counter
        self.jitter = jitter
        self.spend = SpendBudget()
