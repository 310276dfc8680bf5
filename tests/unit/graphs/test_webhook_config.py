import json
from pathlib import Path
from typing import Any

import pytest

from threadwire.core.webhooks import WebhookRules
from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config
from threadwire.graphs.webhooks import read_webhooks, resolve_headers


def test_without_a_word_the_rules_are_strict() -> None:
    assert read_webhooks(None) == read_webhooks({}) == WebhookRules()


def test_the_project_file_sets_the_rules(tmp_path: Path) -> None:
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
    ("value", "words"),
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
        ({"headers": {"a": 5}}, '"a" must be a text'),
        ({"env_prefix": 5}, '"env_prefix" must be a text'),
    ],
)
def test_what_makes_no_sense_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_webhooks(value)
    assert words in refused.value.message


def test_headers_take_variables_with_the_prefix() -> None:
    rules = WebhookRules(headers={"Authorization": "Bearer ${{ env.LG_WEBHOOK_KEY }}", "X": "${{env.LG_WEBHOOK_KEY}}!"})
    environment = {"LG_WEBHOOK_KEY": "secret"}
    assert resolve_headers(rules, environment).headers == {"Authorization": "Bearer secret", "X": "secret!"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${{ env.DATABASE_URL }}", "DATABASE_URL must begin with LG_WEBHOOK_"),
        ("${{ env.LG_WEBHOOK_MISSING }}", "LG_WEBHOOK_MISSING is not set"),
        ("a\r\nb: c", "must be printable ASCII"),
        ("ä", "must be printable ASCII"),
    ],
)
def test_headers_that_cannot_be_had_are_refused(text: str, words: str) -> None:
    rules = WebhookRules(headers={"x": text})
    with pytest.raises(ConfigError) as refused:
        resolve_headers(rules, {"DATABASE_URL": "secret"})
    assert words in refused.value.message
