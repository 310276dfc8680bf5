import json
import os
import sys
from pathlib import Path

import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.config import GraphSource, ProjectConfig, load_config, prepare_environment
from threadwire.graphs.ui import UiConfig


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder for a langgraph.json. Changes of `sys.path` and the environment are undone after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return tmp_path


def write(folder: Path, content: object) -> Path:
    path = folder / "langgraph.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def error_in(folder: Path, content: object) -> str:
    path = write(folder, content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(f"{path}: ")


def load_with_problems(folder: Path, **content: object) -> tuple[ProjectConfig, list[str]]:
    """Load a config with an error that is not fatal; return it with the reported problems."""
    config = load_config(write(folder, {"graphs": GRAPHS, **content}))
    assert config.graphs["agent"] == GraphSource("./agent.py", "graph")
    assert all("\n" not in problem for problem in config.problems)
    return config, config.problems


GRAPHS = {"agent": "./agent.py:graph"}


def test_graph_is_a_file_and_a_name(project):
    config = load_config(write(project, {"graphs": GRAPHS}))
    assert config.root == project
    assert config.graphs == {"agent": GraphSource("./agent.py", "graph")}
    assert (config.dependencies, config.env) == ([], {})


def test_graph_may_have_a_description_and_flags(project):
    off = {"stream_models": False, "interrupt_outcome": False, "raw_events": True}
    entry = {"path": "pkg.agents:make", "description": "Does it.", **off, "later": 1}
    config = load_config(write(project, {"graphs": {"agent": entry}}))
    assert config.graphs["agent"] == GraphSource("pkg.agents", "make", "Does it.", **off)


@pytest.mark.parametrize(
    ("path", "is_file"),
    [
        ("./agent.py:graph", True),
        ("agent.py:graph", True),
        ("src/agent.py:graph", True),
        ("C:\\agents\\agent.py:graph", True),
        ("./agent.ts:graph", True),
        ("agent:graph", False),
        ("package.module:graph", False),
    ],
)
def test_files_are_distinguished_from_modules(project, path, is_file):
    source = load_config(write(project, {"graphs": {"agent": path}})).graphs["agent"]
    assert source.is_file is is_file
    assert source.attribute == "graph"
    assert str(source) == path


def test_keys_of_other_tools_are_ignored(project):
    content = {"graphs": GRAPHS, "python_version": "3.12", "$schema": "x", "dockerfile_lines": ["RUN true"]}
    assert load_config(write(project, content)).graphs


def test_byte_order_mark_is_accepted(project):
    path = project / "langgraph.json"
    path.write_text(json.dumps({"graphs": GRAPHS}), encoding="utf-8-sig")
    assert load_config(path).graphs


def test_relative_path_is_resolved_against_the_working_directory(project, monkeypatch):
    write(project, {"graphs": GRAPHS})
    monkeypatch.chdir(project)
    assert load_config(Path("langgraph.json")).root == project


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.json does not exist\. Pass the path of your langgraph"):
        load_config(tmp_path / "nowhere.json")


def test_folder_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"is a folder\. Name the configuration file in it"):
        load_config(tmp_path)


def test_file_that_is_not_text_is_rejected(tmp_path):
    path = tmp_path / "langgraph.json"
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)


def test_lone_surrogate_is_rejected(project):
    message = error_in(project, '{"graphs": {"agent": {"path": "./a.py:g", "description": "\\ud800"}}}')
    assert message == "a string contains a lone surrogate, which is not valid Unicode."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"graphs": {\n  "a": }', "invalid JSON at line 2, column 8: Expecting value."),
        ([], "must be a JSON object, not a list."),
        ({}, '"graphs" is missing. Add e.g. "graphs": {"agent": "./agent.py:graph"}.'),
        ({"graphs": {}}, '"graphs" is empty. Add e.g. "agent": "./agent.py:graph".'),
        ({"graphs": ["a"]}, '"graphs" must be an object that maps names to sources, not a list.'),
        ({"graphs": {" ": "./a.py:b"}}, '"graphs" is empty. Add e.g. "agent": "./agent.py:graph".'),
        ({"graphs": GRAPHS, "http": 3}, '"http" must be an object, not a number.'),
        ({"graphs": GRAPHS, "store": 3}, '"store" must be an object, not a number.'),
    ],
)
def test_error_is_one_line_that_says_what_to_change(project, content, message):
    assert error_in(project, content) == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, 'the entry must be "./file.py:name" or an object with "path", not a number.'),
        ({}, 'the entry has no "path". Add e.g. "path": "./agent.py:graph".'),
        ({"path": ["x"]}, '"path": the path must be a string like "./agent.py:graph", not a list.'),
        (
            "./agent.py",
            '"path": "./agent.py" does not name an object. Write it as "./file.py:name" or "package.module:name".',
        ),
        (
            "./agent.py:Maker.make",
            '"path": "./agent.py:Maker.make" names a nested attribute. Name an attribute of the module itself.',
        ),
        ({"path": "./a.py:b", "description": 1}, '"description" must be a string, not a number.'),
        ({"path": "./a.py:b", "stream_models": "no"}, '"stream_models" must be true or false, not a string.'),
        ({"path": "./a.py:b", "interrupt_outcome": 0}, '"interrupt_outcome" must be true or false, not a number.'),
        (
            {"path": "./a.py:b", "raw_events": ["update"]},
            '"raw_events" must be true, false, or a list of these: events, values, updates, messages-tuple, custom,'
            " tasks, checkpoints, debug, log.",
        ),
    ],
)
def test_error_in_a_graph_entry_affects_only_that_graph(project, entry, message):
    config, problems = load_with_problems(project, graphs={"bad": entry, **GRAPHS})
    assert list(config.graphs) == ["bad", "agent"]
    assert config.graphs["bad"].problem == message
    assert problems == []


@pytest.mark.parametrize("path", [":graph", "./agent.py:", "./agent.py:not a name", "./agent.py:1", "./agent.py:a..b"])
def test_source_needs_a_location_and_an_identifier(project, path):
    config, _ = load_with_problems(project, graphs={"bad": path, **GRAPHS})
    assert "does not name an object" in (config.graphs["bad"].problem or "")


@pytest.mark.parametrize("name", ["", " "])
def test_graph_without_a_name_is_skipped(project, name):
    config, problems = load_with_problems(project, graphs={name: "./other.py:graph", **GRAPHS})
    assert list(config.graphs) == ["agent"]
    assert problems == ['"graphs" has an entry without a name. It is not served.']


def test_missing_dependency_folder_is_skipped(project):
    (project / "lib").mkdir()
    config, problems = load_with_problems(project, dependencies=["./nowhere", "./lib", 3])
    assert config.dependencies == [project / "lib"]
    assert problems == [
        f'"dependencies": the folder "./nowhere" does not exist ({project / "nowhere"}).',
        '"dependencies": each folder or package name must be a string, not a number.',
    ]


def test_dependencies_that_are_not_a_list_are_ignored(project):
    config, problems = load_with_problems(project, dependencies=".")
    assert config.dependencies == []
    assert problems == ['"dependencies" must be a list of folders and package names, not a string.']


def test_invalid_variables_are_skipped(project):
    env = {"A": None, "B": {}, "": "a", "C=": "c", "D": "a\0b", "F": "set"}
    config, problems = load_with_problems(project, env=env)
    assert config.env == {"F": "set"}
    assert problems == [
        '"env"."A" must be a string, not null. It is not set.',
        '"env"."B" must be a string, not an object. It is not set.',
        '"env"."" is not a valid environment variable. It is not set.',
        '"env"."C=" is not a valid environment variable. It is not set.',
        '"env"."D" is not a valid environment variable. It is not set.',
    ]
    prepare_environment(config)


def test_env_that_is_neither_variables_nor_a_file_is_ignored(project):
    config, problems = load_with_problems(project, env=True)
    assert config.env == {}
    assert problems == ['"env" must be an object of variables or the path of a .env file, not true.']


def test_missing_env_file_is_a_warning(project):
    config, problems = load_with_problems(project, env=".env")
    assert config.env == {}
    assert config.env_file == project / ".env"
    assert problems == []
    assert config.warnings == [f'"env": the file ".env" does not exist ({project / ".env"}).']


def test_env_file_that_is_not_text_is_ignored(project):
    (project / ".env").write_bytes(b"A=\xff\xff")
    config, (problem,) = load_with_problems(project, env=".env")
    assert config.env == {}
    assert problem.startswith('"env": the file ".env" cannot be read: ')


def test_dependency_folders_are_kept_and_package_names_are_dropped(project):
    (project / "lib").mkdir()
    content = {"graphs": GRAPHS, "dependencies": [".", "./lib", "lib", "langchain_openai"]}
    config = load_config(write(project, content))
    assert config.dependencies == [project, project / "lib", project / "lib"]


def test_variables_may_be_inline(project):
    content = {"graphs": GRAPHS, "env": {"A": "text", "B": 3, "C": True}}
    assert load_config(write(project, content)).env == {"A": "text", "B": "3", "C": "true"}


def test_variables_may_be_in_a_file(project):
    (project / ".env").write_text("# keys\nA=1\nexport B='two words'\nC\n")
    assert load_config(write(project, {"graphs": GRAPHS, "env": ".env"})).env == {"A": "1", "B": "two words"}


def test_loading_has_no_side_effects(project):
    before = (list(sys.path), dict(os.environ))
    load_config(write(project, {"graphs": GRAPHS, "dependencies": ["."], "env": {"THREADWIRE_TEST_A": "1"}}))
    assert (sys.path, dict(os.environ)) == before


def test_preparing_the_environment_is_idempotent(project):
    (project / "lib").mkdir()
    config = load_config(write(project, {"graphs": GRAPHS, "dependencies": [".", "./lib"]}))
    prepare_environment(config)
    prepare_environment(config)
    assert sys.path[-2:] == [str(project), str(project / "lib")]
    assert sys.path.count(str(project)) == 1


def test_config_overrides_the_environment(project):
    os.environ["THREADWIRE_TEST_A"] = "from the shell"
    config = load_config(write(project, {"graphs": GRAPHS, "env": {"THREADWIRE_TEST_A": "from the file"}}))
    prepare_environment(config)
    assert os.environ["THREADWIRE_TEST_A"] == "from the file"


def test_ui_maps_names_to_sources(project):
    config = load_config(
        write(project, {"graphs": GRAPHS, "ui": {"agent": "./src/../ui.tsx"}, "ui_config": {"shared": ["d3"]}})
    )
    assert config.ui == UiConfig({"agent": project / "ui.tsx"}, ["d3"])
    assert load_config(write(project, {"graphs": GRAPHS})).ui.sources == {}


@pytest.mark.parametrize("ui", ["./ui.tsx", ["./ui.tsx"], {"agent": 3}, {"agent": ""}, {"b": "./b.tsx", "agent": 3}])
def test_invalid_ui_entries_are_skipped(project, ui):
    config, problems = load_with_problems(project, ui=ui)
    assert config.ui.sources == ({"b": project / "b.tsx"} if "b" in ui else {})
    assert problems == ['"ui" must be an object that maps names to sources, e.g. "ui": {"agent": "./ui.tsx"}.']


@pytest.mark.parametrize("options", ["d3", ["d3"], {"shared": "d3"}, {"shared": [3]}])
def test_invalid_ui_config_is_ignored(project, options):
    config, problems = load_with_problems(project, ui_config=options)
    assert config.ui == UiConfig({}, [])
    assert problems == ['"ui_config" must be an object like {"shared": ["module"]}.']


def test_code_is_in_the_project_folders_and_in_the_named_files(project):
    (project / "shared").mkdir()
    graphs = {"agent": "./agent.py:graph", "far": "../far/agent.py:graph", "module": "pkg.agents:graph"}
    config = load_config(
        write(project, {"graphs": graphs, "dependencies": ["./shared"], "http": {"app": "../routes.py:app"}})
    )
    far = project.parent / "far" / "agent.py"
    assert config.code_paths == [
        project, project / "shared", project / "agent.py", far, project.parent / "routes.py",
    ]  # fmt: skip


def test_http_section_is_read_and_unknown_keys_are_reported(project):
    config = load_config(write(project, {"graphs": GRAPHS, "http": {"mount_prefix": "/api", "disable_mpc": True}}))
    assert config.http.mount_prefix == "/api"
    assert config.warnings == ['"http"."disable_mpc" is not a known key and is ignored. Did you mean "disable_mcp"?']
    assert error_in(project, {"graphs": GRAPHS, "http": []}) == '"http" must be an object, not a list.'


def test_path_of_the_env_file_is_available(project):
    (project / "vars").write_text("A=1")
    assert load_config(write(project, {"graphs": GRAPHS, "env": "vars"})).env_file == project / "vars"
    assert load_config(write(project, {"graphs": GRAPHS, "env": {"A": "1"}})).env_file is None


def test_encryption_is_rejected(project):
    content = {"graphs": GRAPHS, "encryption": {"path": "./crypt.py:encryption"}}
    assert error_in(project, content).startswith('"encryption" is not supported')
