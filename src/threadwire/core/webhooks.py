"""Which URLs a webhook may have, and when a failed delivery is retried. This module does no DNS lookups.

The client chooses the URL and the server connects to it, so without rules a client could reach anything that the server
can reach. A host is therefore checked twice, by its name and by the addresses it resolves to, and the caller must
connect to an address that was checked.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from threadwire.errors import Invalid

RETRY_AFTER = (1, 5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
"""Seconds to wait after each failed attempt. After the last one, about a day after the run ended, the delivery is
abandoned."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_BLOCKED = [
    ipaddress.ip_network(net)
    for net in (
        "64:ff9b::/96",  # these three embed an IPv4 address, which may be a private one
        "2002::/16",
        "2001::/32",
        "192.88.99.0/24",  # relays to 2002::/16
        "192.0.0.0/24",  # protocol assignments; some clouds serve their metadata there
        "fec0::/10",  # site-local
        "3fff::/20",  # documentation
    )
]
"""Ranges without public hosts. Some versions of Python consider parts of them global."""


@dataclass(frozen=True)
class WebhookRules:
    """The `webhooks` section of langgraph.json. The defaults are strict."""

    require_https: bool = True
    allowed_domains: tuple[str, ...] = ()
    allowed_ports: tuple[int, ...] = ()
    max_url_length: int = 4096
    disable_loopback: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    env_prefix: str = "LG_WEBHOOK_"


@dataclass(frozen=True, slots=True)
class Target:
    """A URL whose text satisfies the rules; its addresses are checked by `check_address`."""

    scheme: str
    host: str
    port: int
    path: str
    credentials: tuple[str, str] | None
    trusted: bool
    """Whether the rules list exactly this host, which may then be in a private network."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, rules: WebhookRules) -> Target:
    """Parse a webhook URL. Raise `Invalid` with the reason if it violates the rules."""
    if len(url) > rules.max_url_length:
        raise Invalid(f"Webhook URL is longer than {rules.max_url_length} characters")
    if url.startswith("/"):
        raise Invalid("Webhook URL is relative; only absolute URLs are supported")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise Invalid(f"Invalid webhook URL: {error}") from None
    if parts.scheme and parts.scheme not in _PORTS:
        raise Invalid(f"Webhook host blocked: scheme '{parts.scheme[:20]}' not allowed")
    host = _host(parts.hostname or "")
    if not parts.scheme or re.search(r"[\x00-\x20\x7f]", url):
        raise Invalid("Invalid webhook URL")
    if rules.require_https and parts.scheme != "https":
        raise Invalid("Webhook host blocked: only https is allowed")
    _check_rules(host, port, rules)
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        credentials=None if parts.username is None else (unquote(parts.username), unquote(parts.password or "")),
        trusted=host in rules.allowed_domains,
    )


def _host(name: str) -> str:
    try:
        host = name if ":" in name else name.encode("idna").decode().rstrip(".").lower()
    except UnicodeError:
        host = ""
    if not host:
        raise Invalid(f"Invalid webhook hostname '{name[:100]}'")
    return host


def _check_rules(host: str, port: int, rules: WebhookRules) -> None:
    if rules.disable_loopback and (host == "localhost" or host.endswith(".localhost")):
        raise Invalid("Webhook host blocked: localhost address")
    if rules.allowed_ports and port not in rules.allowed_ports:
        raise Invalid(f"Webhook host blocked: port {port} not allowed")
    if rules.allowed_domains and not any(_covers(domain, host) for domain in rules.allowed_domains):
        raise Invalid("Webhook host blocked: domain not allowed")


def _covers(domain: str, host: str) -> bool:
    """Whether `domain` matches `host`. `*.example.com` matches every subdomain, but not example.com itself."""
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain


def check_address(address: str, target: Target, rules: WebhookRules) -> None:
    """Raise `Invalid` if a delivery may not connect to this address of the target's host."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_loopback:
        if rules.disable_loopback:
            raise Invalid("Webhook host blocked: loopback IP range")
    elif _never_allowed(ip):
        raise Invalid("Webhook host blocked: blocked IP range")
    elif not ip.is_global and not target.trusted:
        raise Invalid("Webhook host blocked: private IP range")


def _never_allowed(ip: Address) -> bool:
    """Link-local addresses are included: cloud machines serve their metadata there."""
    return (
        ip.is_link_local
        or ip.is_unspecified
        or ip.is_multicast
        or ip.is_reserved
        or any(ip.version == net.version and ip in net for net in _BLOCKED)
    )


def retry_at(tries: int, now: int) -> int | None:
    """Return when to retry a delivery after `tries` failed attempts, or None to abandon it."""
    return now + RETRY_AFTER[tries - 1] * 1000 if tries <= len(RETRY_AFTER) else None
