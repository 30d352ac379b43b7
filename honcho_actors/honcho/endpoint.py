"""Where the server is and with what key it is asked: parsed once, checked once, printed without the key.

The key goes to this origin and to no other: the client builds every address from here and follows no redirect. Plain
http is for this machine and private networks; off them https is demanded unless the owner of the machine allows
otherwise.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from honcho_actors.settings import normal_url

HOSTED = {
    "production": "https://api.honcho.dev",
    "demo": "https://demo.honcho.dev",
    "local": "http://localhost:8000",
}
"""The environments that the vendor names."""

_DEFAULT_PORT = {"http": 80, "https": 443}
_CARRIER_NAT = ipaddress.ip_network("100.64.0.0/10")
_UNRESERVED = re.compile(r"[A-Za-z0-9_-]+")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that may be asked. Made by `parse_endpoint`."""

    scheme: str
    host: str
    port: int
    prefix: str
    """Path before `/v3`, without a trailing slash; mostly empty."""
    key: str | None = field(default=None, repr=False)
    allow_public_http: bool = False
    origin: str = field(init=False)

    def __post_init__(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        object.__setattr__(self, "origin", f"{self.scheme}://{host}:{self.port}")

    @property
    def demands_private(self) -> bool:
        """Plain http without leave: every address that the name resolves to must be private."""
        return self.scheme == "http" and not self.allow_public_http

    def target(self, *segments: str, query: Mapping[str, str] | None = None) -> str:
        """Path and query of an address on this server, percent-encoded outside the unreserved characters."""
        path = self.prefix + "".join(["/" + encode_segment(segment) for segment in segments])
        if not query:
            return path
        return path + "?" + "&".join([f"{name}={encode_segment(value)}" for name, value in query.items()])

    def url(self, *segments: str) -> str:
        """The whole address."""
        return self.origin + self.target(*segments)


@dataclass(frozen=True, slots=True)
class BadEndpoint:
    """Why no server may be asked, in a clause for people that holds no secret."""

    problem: str


def parse_endpoint(
    base_url: str | None, key: str | None = None, *, environment: str | None = None, allow_public_http: bool = False
) -> Endpoint | BadEndpoint:
    """Checks an address and a key. Without an address a key belongs to the hosted service (`environment`, else
    production).
    """
    clean_key, problem = usable_key(key)
    if problem:
        return BadEndpoint(problem)
    text = (base_url or "").strip()
    if not text:
        if clean_key is None:
            return BadEndpoint("neither an address nor a key is set")
        text = HOSTED.get((environment or "").strip().lower(), HOSTED["production"])
    try:
        parts = urlsplit(normal_url(text))
        host, port = parts.hostname or "", parts.port
    except ValueError as refused:
        return BadEndpoint(f"the address is unusable: {refused}")
    prefix = "".join("/" + segment for segment in parts.path.split("/") if segment)
    endpoint = Endpoint(parts.scheme, host, port or _DEFAULT_PORT[parts.scheme], prefix, clean_key, allow_public_http)
    literal = _literal(host)
    if endpoint.demands_private and literal is not None and not is_private(literal):
        return BadEndpoint("https is demanded off private networks")
    return endpoint


def usable_key(key: str | None) -> tuple[str | None, str]:
    """The key as a header can carry it and "", or None and why not. Blank is absent; a harmless edge is trimmed."""
    if key is None or not key.strip():
        return None, ""
    text = key.strip()
    if len(text) > 8192 or not all("!" <= char <= "~" for char in text):
        return None, "the key is present but unusable: it holds characters that no header can carry"
    return text, ""


def encode_segment(segment: str) -> str:
    """One path segment. A lone surrogate becomes U+FFFD; `.` and `..` are encoded too, so that no path is shortened."""
    if _UNRESERVED.fullmatch(segment):
        return segment
    if segment in (".", ".."):
        return "%2E" * len(segment)
    return quote(segment.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), safe="")


def is_private(address: str | _Address) -> bool:
    """Whether an address is on this machine (0.0.0.0 and :: are, for who connects) or a private network (carrier-grade
    NAT, 100.64/10, counts as private).
    """
    ip = _literal(address) if isinstance(address, str) else address
    if ip is None:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_unspecified:
        return True
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_loopback or ip.is_link_local or ip in _CARRIER_NAT or _is_rfc1918(ip)
    return ip.is_loopback or ip.is_link_local or ip in ipaddress.ip_network("fc00::/7")


def keyless_note(endpoint: Endpoint) -> str | None:
    """What `doctor` says of a public host that is asked without a key; None where that is usual."""
    if endpoint.key is not None or endpoint.host == "localhost" or endpoint.host.endswith(".localhost"):
        return None
    if is_private(endpoint.host):
        return None
    return f"no key is set for {endpoint.host}: a public server will most likely refuse"


def all_private(addresses: Iterable[str]) -> bool:
    """Whether every resolved address is private; False for none."""
    answers = [is_private(address.split("%")[0]) for address in addresses]
    return bool(answers) and all(answers)


def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return None


def _is_rfc1918(ip: ipaddress.IPv4Address) -> bool:
    return any(ip in network for network in _RFC1918)


_RFC1918 = tuple(ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))

EndpointSource = Callable[[], Endpoint | BadEndpoint]
"""Gives the endpoint in force; called for every request, so it must be cheap and must not raise."""
