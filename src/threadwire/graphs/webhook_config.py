"""The `webhooks` section of langgraph.json: which webhook URLs are allowed, and the headers of each delivery."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError

_VARIABLE = re.compile(r"\$\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = frozenset({"host", "content-type", "content-length", "transfer-encoding", "connection"})


def read_webhooks(value: object) -> WebhookRules:
    """Raises `ConfigError` with a one-line message that says what to change."""
    if value is None:
        return WebhookRules()
    section = _object(value, '"webhooks"')
    prefix = section.get("env_prefix", WebhookRules.env_prefix)
    if not isinstance(prefix, str):
        raise ConfigError('"webhooks"."env_prefix" must be a string.')
    url = _object(section.get("url", {}), '"webhooks"."url"')
    return WebhookRules(
        require_https=_flag(url, "require_https", WebhookRules.require_https),
        disable_loopback=_flag(url, "disable_loopback", WebhookRules.disable_loopback),
        allowed_domains=_domains(url.get("allowed_domains", [])),
        allowed_ports=_ports(url.get("allowed_ports", [])),
        max_url_length=_length(url.get("max_url_length", WebhookRules.max_url_length)),
        headers=_headers(section.get("headers", {})),
        env_prefix=prefix,
    )


def resolve_headers(rules: WebhookRules, environment: Mapping[str, str]) -> WebhookRules:
    """Replace `${{ env.NAME }}` with environment variables. Only variables with the prefix are allowed, because the
    client chooses the URL that receives the headers."""

    def variable(match: re.Match[str]) -> str:
        name = match[1]
        if not name.startswith(rules.env_prefix):
            raise ConfigError(f'"webhooks"."headers": the variable {name} must start with {rules.env_prefix}.')
        if name not in environment:
            raise ConfigError(f'"webhooks"."headers": the variable {name} is not set.')
        return environment[name]

    headers = {name: _VARIABLE.sub(variable, text) for name, text in rules.headers.items()}
    for name, text in headers.items():
        if not text.isascii() or not text.isprintable():
            raise ConfigError(f'"webhooks"."headers"."{name}" must be printable ASCII.')
    return replace(rules, headers=headers)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be an object.")
    return value


def _flag(url: dict[str, Any], name: str, default: bool) -> bool:
    value = url.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f'"webhooks"."url"."{name}" must be true or false.')
    return value


def _domains(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name.strip("*.") for name in value):
        raise ConfigError(
            '"webhooks"."url"."allowed_domains" must be a list like ["hooks.example.com", "*.corp.example"].'
        )
    return tuple(name.lower() for name in value)


def _ports(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(port) is int and 0 < port < 65536 for port in value):
        raise ConfigError('"webhooks"."url"."allowed_ports" must be a list of ports.')
    return tuple(value)


def _length(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ConfigError('"webhooks"."url"."max_url_length" must be a positive number.')
    return value


def _headers(value: object) -> dict[str, str]:
    headers = _object(value, '"webhooks"."headers"')
    for name, text in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise ConfigError(f'"webhooks"."headers": "{name}" is not a header that can be set.')
        if not isinstance(text, str):
            raise ConfigError(f'"webhooks"."headers"."{name}" must be a string.')
    return headers
