import re
from pathlib import Path

import pytest

from threadwire.errors import ConfigError
from threadwire.server.stock_variables import HONOURED, IGNORED, graph_configs, ignored_variables, settings_of

PAGE = Path(__file__).parents[3] / "docs/how-to/move-from-langgraph-dev.md"


def test_variables_of_the_stock_server_choose_settings():
    variables = {
        "N_JOBS_PER_WORKER": "5",
        "BG_JOB_SHUTDOWN_GRACE_PERIOD_SECS": "180",
        "LANGGRAPH_DISABLE_FILE_PERSISTENCE": "true",
    }
    assert settings_of(variables) == {"concurrency": "5", "drain_seconds": "180", "storage": "memory"}
    assert settings_of({}) == settings_of({"N_JOBS_PER_WORKER": ""}) == {}


def test_a_variable_of_ours_takes_precedence():
    assert settings_of({"N_JOBS_PER_WORKER": "5", "THREADWIRE_CONCURRENCY": "9"}) == {}


def test_variables_without_effect_are_found():
    variables = {"LANGGRAPH_HTTP": "{}", "BG_JOB_TIMEOUT_SECS": "60", "LANGSMITH_TRACING": "true", "LANGGRAPH_UI": ""}
    assert ignored_variables(variables) == ["BG_JOB_TIMEOUT_SECS", "LANGGRAPH_HTTP"]


def test_configs_of_graphs_are_read():
    assert graph_configs({}) == {}
    assert graph_configs({"LANGGRAPH_CONFIG": '{"a": {"configurable": {"k": 1}}}'}) == {"a": {"configurable": {"k": 1}}}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_invalid_configs_of_graphs_are_rejected(text):
    with pytest.raises(ConfigError, match="LANGGRAPH_CONFIG must be a JSON object that maps graph ids to configs"):
        graph_configs({"LANGGRAPH_CONFIG": text})


def test_every_variable_is_documented():
    named = set(
        re.findall(r"`((?:LANGGRAPH|BG_JOB|N_JOBS|LANGSERVE)_[A-Z_]+|LANGSMITH_[A-Z_]+|[A-Z]+_URI)`", PAGE.read_text())
    )
    assert named >= HONOURED | IGNORED
