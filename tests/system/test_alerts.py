"""Each alert rule: taken by promtool, right over its real durations on made-up series, and fired and ended by a real
Prometheus that scrapes real processes to which the fault is really done.

The real run shortens durations (windows, `for`, the age of the oldest turn) and nothing else about the rules.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from honcho_actors.local.process import start as start_server
from honcho_actors.ops import rules
from tests.support.faults import FaultProxyProcess
from tests.system.rig import HostProcess, Prometheus, free_port, get_json, until

pytestmark = [pytest.mark.usefixtures("prometheus"), pytest.mark.timeout(400)]

WINDOW: Final = "6s"
APART: Final = 8.0
PATIENCE: Final = 150.0
CONTEXT: Final = ["session_context", "peer_context"]


def hastened(text: str) -> str:
    """The rules with short durations: their windows, how long a condition has to hold, how old is too old."""
    text, windows = re.subn(r"\[\d+[mh]\]", f"[{WINDOW}]", text)
    text, holds = re.subn(r"for: \d+m", "for: 1s", text)
    text, ages = re.subn(r"(outbox_oldest_age_seconds\)) > 900", r"\1 > 3", text)
    assert windows > 10
    assert holds > 10
    assert ages == 1
    return text


def promtool(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=cwd, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(rules.text())
    assert f"{len(rules.names())} rules found" in promtool("check", "rules", "alerts.yml", cwd=tmp_path)


def test_the_rules_are_right_over_their_real_durations(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(rules.text())
    cases = Path(__file__).parent.joinpath("alerts_test.yml").read_text()
    (tmp_path / "alerts_test.yml").write_text(cases)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml", cwd=tmp_path)
    assert set(re.findall(r"alertname: (\w+)", cases)) == set(rules.names()), "each rule has its case"


@dataclass
class Drama:
    """What happens: which alert was made to fire on which instance, and what Prometheus said of it meanwhile."""

    prometheus: Prometheus
    begun: float = field(default_factory=time.time)
    expected: dict[str, str] = field(default_factory=dict)
    over: dict[str, float] = field(default_factory=dict)
    """When all was well again after a fault: what happens to that process later is another story."""
    _fired: set[tuple[str, str]] = field(default_factory=set)
    _firing: set[tuple[str, str]] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watched(self) -> Iterator[Drama]:
        """Looks at the alerts all the while, on a thread of its own."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._stop.set()
            watcher.join(20.0)

    def _watch(self) -> None:
        while not self._stop.wait(0.3):
            with contextlib.suppress(OSError):
                now = self.prometheus.firing()
                for what, changed in (("fires", now - self._firing), ("has ended", self._firing - now)):
                    for alert, instance in sorted(changed):
                        print(f"{time.time() - self.begun:6.1f} s  {alert} {what} ({instance})")
                self._firing = now
                self._fired |= now

    def fires(self, instance: str, *alerts: str, while_doing: Callable[[], object] = lambda: None) -> None:
        """Returns when each of these has been seen to fire on this instance."""
        wanted = {(f"HonchoActors{name}", instance) for name in alerts}
        self.expected.update(wanted)

        def all_have_fired() -> bool:
            while_doing()
            return wanted <= self._fired

        try:
            until(all_have_fired, f"on {instance}", PATIENCE)
        except AssertionError as late:
            raise AssertionError(f"{late}; missing {sorted(name for name, _ in wanted - self._fired)}") from None

    def ends(self, instance: str, *, but: str = "", while_doing: Callable[[], object] = lambda: None) -> None:
        """Returns when nothing (`but` this one) fires on this instance any more."""

        def none_fires() -> bool:
            while_doing()
            return set(self.firing(instance)) <= {f"HonchoActors{but}"}

        try:
            until(none_fires, f"all is well on {instance}", PATIENCE)
        except AssertionError as late:
            raise AssertionError(f"{late}; still {self.firing(instance)}") from None
        for alert, where in self.expected.items():
            if where == instance and alert.removeprefix("HonchoActors") != but:
                self.over.setdefault(alert, time.time())

    def firing(self, instance: str) -> list[str]:
        """What fires on this instance now."""
        return sorted(name for name, where in self._firing if where == instance)

    def spells(self, alert: str, instance: str) -> int:
        """How often it fired: spells of firing further apart than a window, which a late scrape may tear."""
        query = {
            "query": f'max(ALERTS{{alertname="{alert}",instance="{instance}",alertstate="firing"}})',
            "start": f"{self.begun:.0f}", "end": f"{self.over[alert]:.0f}", "step": "1",
        }  # fmt: skip
        found = get_json(f"{self.prometheus.url}/api/v1/query_range?{urllib.parse.urlencode(query)}")
        moments = [at for series in found["data"]["result"] for at, _ in series["values"]]
        return sum(1 for before, at in zip([float("-inf"), *moments], moments, strict=False) if at - before > APART)


@pytest.fixture(scope="module")
def drama(prometheus: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drama]:
    folder = tmp_path_factory.mktemp("alerts")
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(start_server(folder / "server"))
        outside, inside = (stack.enter_context(FaultProxyProcess(upstream.url)) for _ in range(2))
        small = stack.enter_context(small_disk(folder / "small"))
        port = str(free_port())
        hosts = {
            "a": HostProcess(made(folder / "a"), HONCHO_URL=outside.url),
            "b": HostProcess(
                made(folder / "b"),
                HONCHO_URL=inside.url,
                HONCHO_ACTORS_DIALECTIC_PER_HOUR="1",
                HONCHO_ACTORS_METRICS_PORT=port,
            ),
            "c": HostProcess(made(small or folder / "c"), HONCHO_URL=upstream.url),
        }
        stack.callback(lambda: end_all(hosts.values()))
        targets = [host.target for host in hosts.values()]
        watching = stack.enter_context(Prometheus(folder / "prometheus", hastened(rules.text()), targets))
        until(lambda: len(watching.query("up == 1")) == len(targets), "every process is scraped")
        told = stack.enter_context(Drama(watching).watched())
        if small is not None:
            (small / "ballast").write_bytes(b"\0" * 400_000_000)
        inside_faults(told, hosts["b"], inside)
        outage(told, hosts["a"], outside)
        if small is not None:
            told.fires(hosts["c"].target, "DiskNearlyFull")
            (small / "ballast").unlink()
        mended(told, hosts["b"], inside)
        hosts["b"].kill()
        told.fires(hosts["b"].target, "Down")
        hosts["b"] = HostProcess(folder / "b", HONCHO_URL=inside.url, HONCHO_ACTORS_METRICS_PORT=port)
        told.ends(hosts["a"].target, while_doing=new_talk(hosts["a"]))
        for host in hosts.values():
            told.ends(host.target)
        yield told


def end_all(hosts: Iterable[HostProcess]) -> None:
    for host in hosts:
        host.end()


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A disk with 1.2 GB on it; None where this user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1200m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


# -- the faults --------------------------------------------------------------------------------------------------------


def outage(told: Drama, host: HostProcess, proxy: FaultProxyProcess) -> None:
    """The server is gone. What is said meanwhile waits, more and more of it."""
    number = 0

    def talk() -> None:
        nonlocal number
        number += 1
        host.ask(do="turns", count=6, prefix=f"out:{number}:", budget=0.1)
        host.ask(do="capture", count=80, prefix="out:")

    host.ask(do="turns", count=5, prefix="before:", budget=2.0, capture=True)
    proxy.down()
    told.fires(
        host.target, "TurnsWithoutMemory", "RefreshFailing", "BreakerOpen", "OutboxStuck", "OutboxGrowing",
        "DeliveriesFailing", "Degraded", while_doing=talk,
    )  # fmt: skip
    proxy.up()
    host.command("outbox", "retry", "--all", fine=(0, 1))  # as its runbook says: what waits for its time is due now


def new_talk(host: HostProcess) -> Callable[[], object]:
    """Turns of conversations that begin."""
    return lambda: host.ask(do="turns", count=2, prefix=f"well:{time.monotonic_ns()}:", budget=20.0)


def inside_faults(told: Drama, host: HostProcess, proxy: FaultProxyProcess) -> None:
    """The writing side dies until it gives up; an actor hangs; a collector fails; a setting is mistyped; the server is
    slow, rejects the key, and more billed questions are due than may be asked."""
    for _ in range(8):
        host.ask(do="kill", child="outbox_writer")
        time.sleep(0.15)
    host.ask(do="hang")
    host.ask(do="spoil")
    host.config_dir.mkdir(parents=True, exist_ok=True)
    (host.config_dir / "honcho-actors.toml").write_text("context_cadense = 3\n")
    number = 0

    def talk() -> None:
        nonlocal number
        number += 1
        host.ask(do="turns", count=6, prefix=f"in:{number}:", budget=0.15, capture=True)

    proxy.plan([{"fault": "latency", "on": CONTEXT, "delay": 1.0}])
    told.fires(
        host.target, "PartGaveUp", "RestartLoop", "TurnsLost", "ActorAbandoned", "ScrapeIncomplete", "SettingNotTaken",
        "FirstTurnsTooSlow", "NothingCaptured", while_doing=talk,
    )  # fmt: skip
    proxy.plan([{"fault": "status", "on": CONTEXT, "status": 401, "body": '{"detail": "no"}'}])
    told.fires(host.target, "KeyRejected", while_doing=talk)
    proxy.plan([])


def mended(told: Drama, host: HostProcess, proxy: FaultProxyProcess) -> None:
    """All of it is mended; the writing side comes back by itself. Then what needs it: texts with credentials, a message
    that the server refuses for good, billed questions."""
    host.ask(do="let_go")
    host.ask(do="spoil", mend=True)
    (host.config_dir / "honcho-actors.toml").write_text("context_cadence = 3\n")
    told.ends(host.target, but="Degraded")  # that one ends with the first good read
    number = 0
    proxy.plan([{"fault": "status", "on": ["add_messages"], "status": 422, "body": '{"detail": "no"}'}])
    host.ask(do="capture", count=2, prefix="refused:")
    told.fires(host.target, "TurnsSetAside")
    proxy.plan([])
    secret = "the key is " + "-".join(("sk", "ant", "api03", "q7Zt" * 8, "Wm3xK9"))

    def spend() -> None:
        nonlocal number
        number += 1
        host.ask(do="capture", count=12, prefix=f"pasted:{number}:", text=secret)
        host.ask(do="turns", count=4, prefix="known:", persons=["ann"], budget=5.0, capture=True)

    told.fires(host.target, "TextsWithheld", "SpendLimitReached", while_doing=spend)
    told.ends(host.target)


# -- what came of it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alert", rules.names())
def test_each_alert_fires_and_ends_once_on_a_fault_that_is_really_made(drama: Drama, alert: str) -> None:
    if alert == "HonchoActorsDiskNearlyFull" and alert not in drama.expected:
        pytest.skip("this user may not mount a small disk")
    assert alert in drama.expected
    assert alert in drama.over
    assert drama.spells(alert, drama.expected[alert]) == 1


def test_every_figure_of_the_dashboard_can_be_asked_of_that_prometheus(drama: Drama) -> None:
    from honcho_actors.ops import dashboard

    for query in dashboard.queries():
        asked = query.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "30s")
        drama.prometheus.query(asked)
    shown = drama.prometheus.query("count by (instance) ({__name__=~'honcho_actors_.*'})")
    assert len(shown) == 3
    assert json.dumps(dashboard.dashboard())
