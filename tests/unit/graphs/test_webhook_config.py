import json
from pathlib import Path
from typing import Any

import pytest

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config
from threadwire.graphs.webhook_config import read_webhooks, resolve_headers


def test_rules_are_strict_by_default() -> None:
    assert read_webhooks(None) == read_webhooks({}) == WebhookRules()


def test_rules_are_read_from_the_project_file(tmp_path: Path) -> None:
    webhooks = {
        "env_prefix": "MY_",
        "headers": {"X-Key": "${{ env.MY_KEY }}"},
        "url": {
            "require_https": False,
            "allowed_domains": ["Hooks.Example", "*.corp.example"],
            "allowed_ports": [80, 8080],
            "max_url_length": 100,
            "disable_loopback": False,
        },
    }
    content = {"graphs": {"a": "./a.py:a"}, "webhooks": webhooks}
    (tmp_path / "langgraph.json").write_text(json.dumps(content))
    assert load_config(tmp_path / "langgraph.json").webhooks == WebhookRules(
        require_https=False,
        allowed_domains=("hooks.example", "*.corp.example"),
        allowed_ports=(80, 8080),
        max_url_length=100,
        disable_loopback=False,
        headers={"X-Key": "${{ env.MY_KEY }}"},
        env_prefix="MY_",
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], '"webhooks" must be an object'),
        ({"url": 5}, '"webhooks"."url" must be an object'),
        ({"url": {"require_https": "yes"}}, '"require_https" must be true or false'),
        ({"url": {"disable_loopback": 0}}, '"disable_loopback" must be true or false'),
        ({"url": {"allowed_domains": "a"}}, '"allowed_domains" must be a list'),
        ({"url": {"allowed_domains": ["*."]}}, '"allowed_domains" must be a list'),
        ({"url": {"allowed_ports": [0]}}, '"allowed_ports" must be a list of ports'),
        ({"url": {"max_url_length": 0}}, '"max_url_length" must be a positive number'),
        ({"headers": ["a"]}, '"headers" must be an object'),
        ({"headers": {"a b": "c"}}, '"a b" is not a header that can be set'),
        ({"headers": {"Host": "c"}}, '"Host" is not a header that can be set'),
        ({"headers": {"a": 5}}, '"a" must be a string'),
        ({"env_prefix": 5}, '"env_prefix" must be a string'),
    ],
)
def test_invalid_section_is_rejected(value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_webhooks(value)
    assert message in caught.value.message


def test_variables_with_the_prefix_are_substituted_in_headers() -> None:
    rules = WebhookRules(headers={"Authorization": "Bearer ${{ env.LG_WEBHOOK_KEY }}", "X": "${{env.LG_WEBHOOK_KEY}}!"})
    environment = {"LG_WEBHOOK_KEY": "secret"}
    assert resolve_headers(rules, environment).headers == {"Authorization": "Bearer secret", "X": "secret!"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${{ env.DATABASE_URL }}", "DATABASE_URL must start with LG_WEBHOOK_"),
        ("${{ env.LG_WEBHOOK_MISSING }}", "LG_WEBHOOK_MISSING is not set"),
        ("a\r\nb: c", "must be printable ASCII"),
        ("ä", "must be printable ASCII"),
    ],
)
def test_invalid_header_values_are_rejected(text: str, message: str) -> None:
    rules = WebhookRules(headers={"x": text})
    with pytest.raises(ConfigError) as caught:
        resolve_headers(rules, {"DATABASE_URL": "secret"})
    assert message in caught.value.message
