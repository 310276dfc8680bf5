"""The choice of the chat model in the examples."""

import importlib
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from threadwire.graphs.config import load_config, prepare_environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "langgraph.json"


@pytest.fixture
def choose_model(monkeypatch):
    for variable in ("THREADWIRE_EXAMPLE_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    prepare_environment(load_config(EXAMPLES))
    return importlib.import_module("chat_model").choose_model


def reply(conversation):
    return AIMessage("hello")


def test_without_a_key_the_scripted_model_is_used(choose_model):
    model = choose_model(reply)
    assert model._llm_type == "threadwire-scripted"
    assert model.invoke("hi").text == "hello"


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("THREADWIRE_EXAMPLE_MODEL", "openai:gpt-4.1-mini", "openai:gpt-4.1-mini"),
        ("OPENAI_API_KEY", "a key", "openai:gpt-4.1-mini"),
        ("ANTHROPIC_API_KEY", "a key", "anthropic:claude-haiku-4-5"),
    ],
)
def test_the_scripted_model_replaces_a_model_that_is_not_installed(
    choose_model, monkeypatch, caplog, variable, value, name
):
    monkeypatch.setitem(sys.modules, "langchain_openai", None)  # simulates missing packages
    monkeypatch.setitem(sys.modules, "langchain_anthropic", None)
    monkeypatch.setenv(variable, value)
    assert choose_model(reply)._llm_type == "threadwire-scripted"
    assert f"The scripted model answers instead of {name}" in caplog.text


def test_the_scripted_model_can_be_selected_despite_a_key(choose_model, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    monkeypatch.setenv("THREADWIRE_EXAMPLE_MODEL", "scripted")
    assert choose_model(reply)._llm_type == "threadwire-scripted"
    assert caplog.text == ""
