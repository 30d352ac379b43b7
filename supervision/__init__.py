"""OTP-style supervision for Pykka actors; knows nothing of Honcho.

One face for what is public: actors on threads and on an event loop, supervisors, monitors, names, timers, waiters,
and the runtimes that carry them. Only `_process` touches Pykka's private names, only `_asyncio` asyncio's.
"""

from supervision._process import Process, Ref, Reply, started
from supervision.clock import Clock, ManualClock
from supervision.errors import CallingSelf, CallTimeout, Deadlock, NoProc, Overloaded, WouldBlockLoop
from supervision.events import ChildInfo, ChildState, Counts
from supervision.face import DynamicSupervisor, Supervisor, SupervisorRef
from supervision.host import Host
from supervision.loop import LoopRuntime
from supervision.monitor import Down, MonitorRef, demonitor, monitor
from supervision.observer import (
    AbandonedEnded,
    ActorAbandoned,
    ActorCrashed,
    HookFailed,
    LateResult,
    LoopAbandoned,
    Observer,
    SupervisorReport,
)
from supervision.reasons import Crashed, Killed, NoProcess, Normal, Reason, Shutdown
from supervision.registry import NameRef, Registry
from supervision.runtime import ThreadRuntime, default_runtime
from supervision.simulator import Simulator
from supervision.spec import (
    BRUTAL_KILL,
    IGNORE,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Restart,
    Strategy,
    TreeSpec,
    child_spec,
)
from supervision.spec_errors import (
    AlreadyPresent,
    AlreadyStarted,
    BadCombination,
    BadReturn,
    BadSpec,
    ByRefOnly,
    MaxChildren,
    NotFound,
    Restarting,
    Running,
    ShuttingDown,
    StartError,
    StartTimeout,
    SupervisionError,
    TooManyAbandoned,
)
from supervision.task_actor import TaskActor
from supervision.thread_actor import ThreadActor
from supervision.timers import Timers, Token
from supervision.waiter import Waiter

__all__ = [
    "BRUTAL_KILL",
    "IGNORE",
    "INFINITY",
    "AbandonedEnded",
    "ActorAbandoned",
    "ActorCrashed",
    "AlreadyPresent",
    "AlreadyStarted",
    "AutoShutdown",
    "BadCombination",
    "BadReturn",
    "BadSpec",
    "ByRefOnly",
    "CallTimeout",
    "CallingSelf",
    "ChildInfo",
    "ChildSpec",
    "ChildState",
    "Clock",
    "Counts",
    "Crashed",
    "Deadlock",
    "Down",
    "DynamicSupervisor",
    "HookFailed",
    "Host",
    "Killed",
    "LateResult",
    "LoopAbandoned",
    "LoopRuntime",
    "ManualClock",
    "MaxChildren",
    "MonitorRef",
    "NameRef",
    "NoProc",
    "NoProcess",
    "Normal",
    "NotFound",
    "Observer",
    "Overloaded",
    "Process",
    "Reason",
    "Ref",
    "Registry",
    "Reply",
    "Restart",
    "Restarting",
    "Running",
    "Shutdown",
    "ShuttingDown",
    "Simulator",
    "StartError",
    "StartTimeout",
    "Strategy",
    "SupervisionError",
    "Supervisor",
    "SupervisorRef",
    "SupervisorReport",
    "TaskActor",
    "ThreadActor",
    "ThreadRuntime",
    "Timers",
    "Token",
    "TooManyAbandoned",
    "TreeSpec",
    "Waiter",
    "WouldBlockLoop",
    "child_spec",
    "default_runtime",
    "demonitor",
    "monitor",
    "started",
]
