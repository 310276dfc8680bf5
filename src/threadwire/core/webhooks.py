"""Which addresses a webhook may have, and when a delivery that failed is tried again. Nothing here is looked up.

A client names the address, and the server goes there: without rules a client could make the server talk to whatever
the server can reach. So a host name is checked twice, by its name and by the addresses it stands for; and whoever
connects must connect to an address that was checked.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from threadwire.errors import Invalid

RETRY_AFTER = (1, 5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
"""Seconds after each try that failed; after the last one it is given up, about a day after the run has ended."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_TUNNELS = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "2002::/16", "2001::/32")]
"""Addresses that stand for others, which could be any."""


@dataclass(frozen=True)
class WebhookRules:
    """What `webhooks` in langgraph.json says; the defaults are the strict ones."""

    require_https: bool = True
    allowed_domains: tuple[str, ...] = ()
    allowed_ports: tuple[int, ...] = ()
    max_url_length: int = 4096
    disable_loopback: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    env_prefix: str = "LG_WEBHOOK_"


@dataclass(frozen=True, slots=True)
class Target:
    """An address that keeps the rules as far as its text shows it."""

    scheme: str
    host: str
    port: int
    path: str
    credentials: tuple[str, str] | None
    trusted: bool
    """Whether the rules name this very host: then it may be in a private network."""

    @property
    def authority(self) -> str:
        """As a Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, rules: WebhookRules) -> Target:
    """Raises `Invalid` with the reason."""
    if len(url) > rules.max_url_length:
        raise Invalid(f"Webhook URL is longer than {rules.max_url_length} characters")
    if url.startswith("/"):
        raise Invalid("Webhook URL is relative; only absolute ones are offered")
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
    _keep_rules(host, port, rules)
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


def _keep_rules(host: str, port: int, rules: WebhookRules) -> None:
    if rules.disable_loopback and (host == "localhost" or host.endswith(".localhost")):
        raise Invalid("Webhook host blocked: localhost address")
    if rules.allowed_ports and port not in rules.allowed_ports:
        raise Invalid(f"Webhook host blocked: port {port} not allowed")
    if rules.allowed_domains and not any(_covers(domain, host) for domain in rules.allowed_domains):
        raise Invalid("Webhook host blocked: domain not allowed")


def _covers(domain: str, host: str) -> bool:
    """`*.example.com` is every host below example.com, and not example.com itself."""
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain


def check_address(address: str, target: Target, rules: WebhookRules) -> None:
    """Whether a delivery may go to this address, which the target's host stands for. Raises `Invalid`."""
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
    """Cloud machines answer questions about themselves at link-local addresses."""
    return (
        ip.is_link_local
        or ip.is_unspecified
        or ip.is_multicast
        or ip.is_reserved
        or any(ip.version == net.version and ip in net for net in _TUNNELS)
    )


def retry_at(tries: int, now: int) -> int | None:
    """When a delivery that has failed so often, this time included, is tried again; None if never."""
    return now + RETRY_AFTER[tries - 1] * 1000 if tries <= len(RETRY_AFTER) else None
