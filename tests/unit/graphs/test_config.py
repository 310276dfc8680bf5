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
    """A folder to write a langgraph.json into. What a test does to the process is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return tmp_path


def write(folder: Path, content: object) -> Path:
    path = folder / "langgraph.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def mistake_in(folder: Path, content: object) -> str:
    path = write(folder, content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(f"{path}: ")


def passed_over(folder: Path, **content: object) -> tuple[ProjectConfig, list[str]]:
    """What is read of a project with one mistake, and the mistakes that are told."""
    config = load_config(write(folder, {"graphs": GRAPHS, **content}))
    assert config.graphs["agent"] == GraphSource("./agent.py", "graph")
    assert all("\n" not in problem for problem in config.problems)
    return config, config.problems


GRAPHS = {"agent": "./agent.py:graph"}


def test_a_graph_is_a_file_and_a_name(project):
    config = load_config(write(project, {"graphs": GRAPHS}))
    assert config.root == project
    assert config.graphs == {"agent": GraphSource("./agent.py", "graph")}
    assert (config.dependencies, config.env) == ([], {})


def test_a_graph_may_have_a_description_and_opt_out_of_things(project):
    off = {"stream_models": False, "interrupt_outcome": False}
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
def test_files_are_told_from_modules(project, path, is_file):
    source = load_config(write(project, {"graphs": {"agent": path}})).graphs["agent"]
    assert source.is_file is is_file
    assert source.attribute == "graph"
    assert str(source) == path


def test_keys_of_other_tools_are_left_alone(project):
    content = {"graphs": GRAPHS, "python_version": "3.12", "$schema": "x", "dockerfile_lines": ["RUN true"]}
    assert load_config(write(project, content)).graphs


def test_a_byte_order_mark_is_no_mistake(project):
    path = project / "langgraph.json"
    path.write_text(json.dumps({"graphs": GRAPHS}), encoding="utf-8-sig")
    assert load_config(path).graphs


def test_a_relative_path_is_resolved_where_the_command_runs(project, monkeypatch):
    write(project, {"graphs": GRAPHS})
    monkeypatch.chdir(project)
    assert load_config(Path("langgraph.json")).root == project


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.json does not exist\. Pass the path of your langgraph"):
        load_config(tmp_path / "nowhere.json")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError, match=r"is a folder\. Name the configuration file in it"):
        load_config(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "langgraph.json"
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(path)


def test_half_a_character_is_refused(project):
    says = mistake_in(project, '{"graphs": {"agent": {"path": "./a.py:g", "description": "\\ud800"}}}')
    assert says == "a text in it is half of a character (a lone surrogate)."


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"graphs": {\n  "a": }', "not JSON at line 2, column 8: Expecting value."),
        ([], "must be a JSON object, not a list."),
        ({}, '"graphs" is missing. Add e.g. "graphs": {"agent": "./agent.py:graph"}.'),
        ({"graphs": {}}, '"graphs" is empty. Add e.g. "agent": "./agent.py:graph".'),
        ({"graphs": ["a"]}, '"graphs" must be an object of names and sources, not a list.'),
        ({"graphs": {" ": "./a.py:b"}}, '"graphs" is empty. Add e.g. "agent": "./agent.py:graph".'),
        ({"graphs": GRAPHS, "http": 3}, '"http" must be an object, not a number.'),
        ({"graphs": GRAPHS, "store": 3}, '"store" must be an object, not a number.'),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(project, content, says):
    assert mistake_in(project, content) == says


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (3, 'its entry must be "./file.py:name" or an object with "path", not a number.'),
        ({}, 'it has no "path". Add e.g. "path": "./agent.py:graph".'),
        ({"path": ["x"]}, '"path": the path must be a text like "./agent.py:graph", not a list.'),
        (
            "./agent.py",
            '"path": "./agent.py" does not say which object to serve. '
            'Write it as "./file.py:name" or "package.module:name".',
        ),
        (
            "./agent.py:Maker.make",
            '"path": "./agent.py:Maker.make" names something inside of something else. '
            "Name what is in the module itself.",
        ),
        ({"path": "./a.py:b", "description": 1}, '"description" must be a text, not a number.'),
        ({"path": "./a.py:b", "stream_models": "no"}, '"stream_models" must be true or false, not a text.'),
        ({"path": "./a.py:b", "interrupt_outcome": 0}, '"interrupt_outcome" must be true or false, not a number.'),
    ],
)
def test_a_mistake_in_the_entry_of_a_graph_is_that_graphs(project, entry, says):
    config, problems = passed_over(project, graphs={"bad": entry, **GRAPHS})
    assert list(config.graphs) == ["bad", "agent"]
    assert config.graphs["bad"].problem == says
    assert problems == []


@pytest.mark.parametrize("path", [":graph", "./agent.py:", "./agent.py:not a name", "./agent.py:1", "./agent.py:a..b"])
def test_both_halves_of_a_source_are_needed(project, path):
    config, _ = passed_over(project, graphs={"bad": path, **GRAPHS})
    assert "does not say which object to serve" in (config.graphs["bad"].problem or "")


@pytest.mark.parametrize("name", ["", " "])
def test_a_graph_without_a_name_is_passed_over(project, name):
    config, problems = passed_over(project, graphs={name: "./other.py:graph", **GRAPHS})
    assert list(config.graphs) == ["agent"]
    assert problems == ['"graphs" has a graph without a name, which is not served.']


def test_a_missing_folder_is_passed_over(project):
    (project / "lib").mkdir()
    config, problems = passed_over(project, dependencies=["./nowhere", "./lib", 3])
    assert config.dependencies == [project / "lib"]
    assert problems == [
        f'"dependencies": the folder "./nowhere" does not exist ({project / "nowhere"}).',
        '"dependencies": a folder or a package is a text, not a number.',
    ]


def test_dependencies_that_are_no_list_are_passed_over(project):
    config, problems = passed_over(project, dependencies=".")
    assert config.dependencies == []
    assert problems == ['"dependencies" must be a list of folders and package names, not a text.']


def test_variables_that_cannot_be_set_are_passed_over(project):
    odd = {"A": None, "B": {}, "": "a", "C=": "c", "D": "a\0b", "F": "set"}
    config, problems = passed_over(project, env=odd)
    assert config.env == {"F": "set"}
    assert problems == [
        '"env"."A" must be a text, not null. It is not set.',
        '"env"."B" must be a text, not an object. It is not set.',
        '"env"."" is not a variable that can be set.',
        '"env"."C=" is not a variable that can be set.',
        '"env"."D" is not a variable that can be set.',
    ]
    prepare_environment(config)


def test_an_env_that_is_neither_variables_nor_a_file_is_passed_over(project):
    config, problems = passed_over(project, env=True)
    assert config.env == {}
    assert problems == ['"env" must be an object of variables or the path of a .env file, not true.']


def test_a_missing_env_file_is_passed_over(project):
    config, problems = passed_over(project, env=".env")
    assert config.env == {}
    assert config.env_file == project / ".env"
    assert problems == [f'"env": the file ".env" does not exist ({project / ".env"}).']


def test_an_env_file_that_is_no_text_is_passed_over(project):
    (project / ".env").write_bytes(b"A=\xff\xff")
    config, (problem,) = passed_over(project, env=".env")
    assert config.env == {}
    assert problem.startswith('"env": the file ".env" cannot be read: ')


def test_folders_are_kept_and_packages_are_not(project):
    (project / "lib").mkdir()
    content = {"graphs": GRAPHS, "dependencies": [".", "./lib", "lib", "langchain_openai"]}
    config = load_config(write(project, content))
    assert config.dependencies == [project, project / "lib", project / "lib"]


def test_variables_may_be_given_directly(project):
    content = {"graphs": GRAPHS, "env": {"A": "text", "B": 3, "C": True}}
    assert load_config(write(project, content)).env == {"A": "text", "B": "3", "C": "true"}


def test_variables_may_be_in_a_file(project):
    (project / ".env").write_text("# keys\nA=1\nexport B='two words'\nC\n")
    assert load_config(write(project, {"graphs": GRAPHS, "env": ".env"})).env == {"A": "1", "B": "two words"}


def test_loading_changes_nothing(project):
    before = (list(sys.path), dict(os.environ))
    load_config(write(project, {"graphs": GRAPHS, "dependencies": ["."], "env": {"THREADWIRE_TEST_A": "1"}}))
    assert (sys.path, dict(os.environ)) == before


def test_preparing_twice_is_preparing_once(project):
    (project / "lib").mkdir()
    config = load_config(write(project, {"graphs": GRAPHS, "dependencies": [".", "./lib"]}))
    prepare_environment(config)
    prepare_environment(config)
    assert sys.path[-2:] == [str(project), str(project / "lib")]
    assert sys.path.count(str(project)) == 1


def test_the_config_wins_over_the_environment(project):
    os.environ["THREADWIRE_TEST_A"] = "from the shell"
    config = load_config(write(project, {"graphs": GRAPHS, "env": {"THREADWIRE_TEST_A": "from the file"}}))
    prepare_environment(config)
    assert os.environ["THREADWIRE_TEST_A"] == "from the file"


def test_components_are_named_with_their_sources(project):
    config = load_config(
        write(project, {"graphs": GRAPHS, "ui": {"agent": "./src/../ui.tsx"}, "ui_config": {"shared": ["d3"]}})
    )
    assert config.ui == UiConfig({"agent": project / "ui.tsx"}, ["d3"])
    assert load_config(write(project, {"graphs": GRAPHS})).ui.sources == {}


@pytest.mark.parametrize("ui", ["./ui.tsx", ["./ui.tsx"], {"agent": 3}, {"agent": ""}, {"b": "./b.tsx", "agent": 3}])
def test_components_without_names_are_passed_over(project, ui):
    config, problems = passed_over(project, ui=ui)
    assert config.ui.sources == ({"b": project / "b.tsx"} if "b" in ui else {})
    assert problems == ['"ui" must be an object of names and sources. Write e.g. "ui": {"agent": "./ui.tsx"}.']


@pytest.mark.parametrize("options", ["d3", ["d3"], {"shared": "d3"}, {"shared": [3]}])
def test_odd_options_for_components_are_passed_over(project, options):
    config, problems = passed_over(project, ui_config=options)
    assert config.ui == UiConfig({}, [])
    assert problems == ['"ui_config" must be an object like {"shared": ["module"]}.']


def test_the_places_of_the_code_are_the_folders_and_the_files_outside_them(project):
    (project / "shared").mkdir()
    graphs = {"agent": "./agent.py:graph", "far": "../far/agent.py:graph", "module": "pkg.agents:graph"}
    config = load_config(
        write(project, {"graphs": graphs, "dependencies": ["./shared"], "http": {"app": "../routes.py:app"}})
    )
    far = project.parent / "far" / "agent.py"
    assert config.places == [
        project, project / "shared", project / "agent.py", far, project.parent / "routes.py",
    ]  # fmt: skip


def test_the_section_http_is_read_and_what_is_odd_is_told(project):
    config = load_config(write(project, {"graphs": GRAPHS, "http": {"mount_prefix": "/api", "disable_mpc": True}}))
    assert config.http.mount_prefix == "/api"
    assert config.warnings == ['"http"."disable_mpc" is not known and is ignored. Did you mean "disable_mcp"?']
    assert mistake_in(project, {"graphs": GRAPHS, "http": []}) == '"http" must be an object, not a list.'


def test_the_file_of_the_variables_is_remembered(project):
    (project / "vars").write_text("A=1")
    assert load_config(write(project, {"graphs": GRAPHS, "env": "vars"})).env_file == project / "vars"
    assert load_config(write(project, {"graphs": GRAPHS, "env": {"A": "1"}})).env_file is None


def test_a_project_that_wants_its_threads_encrypted_is_not_served_without(project):
    content = {"graphs": GRAPHS, "encryption": {"path": "./crypt.py:encryption"}}
    assert mistake_in(project, content).startswith('"encryption" is not offered')
