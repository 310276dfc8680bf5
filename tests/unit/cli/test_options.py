"""The options of the commands, as far as they can be tested without serving."""

import json
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from threadwire import __version__, cli
from threadwire.cli import debugger
from threadwire.cli.keys_command import has_keys
from threadwire.cli.serve_command import read_settings, startup_warnings
from threadwire.errors import ConfigError, StorageUnavailable
from threadwire.graphs.config import load_config
from threadwire.settings import Settings


def error_of(*options):
    """The error of `threadwire dev` with these options."""
    result = CliRunner().invoke(cli.app, ["dev", "--port", "0", *options])
    assert isinstance(result.exception, ConfigError), result.output
    return result.exception.message


def test_options_of_the_stock_command_are_accepted():
    accepted = (
        "-c",
        "other.json",
        "--no-browser",
        "--no-reload",
        "--allow-blocking",
        "--studio-url",
        "https://s.example",
    )
    assert error_of(*accepted, "--n-jobs-per-worker", "0").startswith("Invalid value for --n-jobs-per-worker: ")
    assert error_of(*accepted, "--server-log-level", "LOUD").startswith("Invalid value for --server-log-level: ")


def test_the_version_is_printed():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"threadwire {__version__}\n")


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        (["--debug-port", "5678"], [("127.0.0.1", 5678)]),
        (["--debug-port", "5678", "--wait-for-client"], [("127.0.0.1", 5678), "waited"]),
    ],
)
def test_a_debugger_is_started_before_the_project_is_loaded(monkeypatch, options, calls):
    seen = []
    stub = SimpleNamespace(listen=seen.append, wait_for_client=lambda: seen.append("waited"))
    monkeypatch.setitem(sys.modules, "debugpy", stub)
    error_of(*options, "--n-jobs-per-worker", "0")
    assert seen == calls


def test_a_debugger_requires_debugpy_and_a_port(monkeypatch):
    monkeypatch.setitem(sys.modules, "debugpy", None)
    with pytest.raises(ConfigError, match="pip install debugpy"):
        debugger.start_debugger(5678, wait=False)
    with pytest.raises(ConfigError, match="--wait-for-client requires --debug-port"):
        debugger.start_debugger(None, wait=True)


@pytest.mark.parametrize(
    ("options", "variables", "named"),
    [
        ({"concurrency": 0}, {}, "--n-jobs-per-worker"),
        ({"log_level": "loud"}, {}, "--server-log-level"),
        ({}, {"THREADWIRE_CONCURRENCY": "0"}, "THREADWIRE_CONCURRENCY"),
        ({}, {"N_JOBS_PER_WORKER": "many"}, "N_JOBS_PER_WORKER"),
    ],
)
def test_an_invalid_value_is_reported_with_the_name_under_which_it_was_given(
    tmp_path, monkeypatch, options, variables, named
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^Invalid value for {named}: "):
        read_settings(config=tmp_path / "langgraph.json", **options)


def test_variables_of_the_stock_server_in_the_projects_env_are_honoured(tmp_path):
    (tmp_path / "langgraph.json").write_text('{"graphs": {"a": "./a.py:a"}, "env": {"N_JOBS_PER_WORKER": "7"}}')
    assert read_settings(config=tmp_path / "langgraph.json").concurrency == 7


ADDRESSES = {"DATABASE_URI": "postgres://db/agents", "REDIS_URI": "redis://cache:6379"}


def test_the_addresses_of_the_licensed_container_are_understood(tmp_path, monkeypatch):
    for name, value in ADDRESSES.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "langgraph.json"
    settings = read_settings(in_container=True, config=config)
    assert (settings.storage, settings.redis) == ("postgres://db/agents", "redis://cache:6379")
    assert read_settings(config=config).storage == "sqlite"  # `dev`
    assert read_settings(in_container=True, config=config, storage="memory").storage == "memory"
    monkeypatch.setenv("THREADWIRE_STORAGE", "postgresql://other/agents")
    assert read_settings(in_container=True, config=config).storage == "postgresql://other/agents"


def test_keys_belong_to_the_database_that_the_server_uses(tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URI", "postgresql://127.0.0.1:1/agents")
    options = {"config": tmp_path / "langgraph.json", "data": tmp_path / "data"}
    with pytest.raises(StorageUnavailable):
        has_keys(options, in_container=True)
    assert not has_keys(options, in_container=False)


def test_other_databases_of_a_project_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"a": "./a.py:a"}, "env": ADDRESSES}))
    monkeypatch.setenv("DATABASE_URI", "mysql://db/shop")
    settings = read_settings(in_container=True, config=tmp_path / "langgraph.json")
    assert (settings.storage, settings.redis) == ("sqlite", None)


def warnings_for(config, **settings):
    return startup_warnings(Settings(**settings), load_config(config))


def test_an_auth_that_is_off_is_a_warning(tmp_path):
    config = tmp_path / "langgraph.json"
    config.write_text('{"graphs": {"a": "./a.py:a"}}')
    assert warnings_for(config, insecure_no_auth=True) == []
    config.write_text('{"graphs": {"a": "./a.py:a"}, "auth": {"path": "./a.py:auth"}}')
    assert warnings_for(config, insecure_no_auth=True) == [
        "the project's auth is off (--insecure-no-auth): any client can read and change every thread"
    ]
