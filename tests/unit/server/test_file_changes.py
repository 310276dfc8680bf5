import json
import os

import pytest

from threadwire.graphs.config import load_config
from threadwire.server.file_changes import changed_files, snapshot_files


@pytest.fixture
def project(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def load_project_config(project, **content):
    content = {"graphs": {"agent": "./agent.py:graph"}, **content}
    (project / "langgraph.json").write_text(json.dumps(content))
    return load_config(project / "langgraph.json")


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def names(seen, root):
    return {path.relative_to(root).as_posix() for path in seen}


def test_code_and_configuration_files_are_polled(project):
    write(project, "agent.py", "deep/er/tools.py", "notes.md", ".env", "data.json")
    write(project.parent, "shared/common.py", "elsewhere/other.py")
    config = load_project_config(
        project,
        graphs={"agent": "./agent.py:graph", "other": "../elsewhere/other.py:graph"},
        dependencies=["../shared", "langchain"],
        env=".env",
        http={"app": "../missing.py:app"},
    )
    assert names(snapshot_files(config), project.parent) == {
        "project/langgraph.json",
        "project/.env",
        "project/agent.py",
        "project/deep/er/tools.py",
        "shared/common.py",
        "elsewhere/other.py",
    }


def test_installed_and_hidden_files_are_not_polled(project):
    write(
        project,
        "agent.py",
        ".venv/lib/x.py",
        "env/pyvenv.cfg",
        "env/lib/python3.11/x.py",
        "node_modules/x.py",
        "build/site-packages/x.py",
        "__pycache__/x.py",
    )
    assert names(snapshot_files(load_project_config(project)), project) == {"langgraph.json", "agent.py"}


def test_changed_added_and_removed_files_are_reported(project):
    write(project, "agent.py", "same.py", "removed.py")
    config = load_project_config(project)
    before = snapshot_files(config)
    (project / "agent.py").write_text("changed")
    (project / "removed.py").unlink()
    write(project, "new.py")
    after = snapshot_files(config)
    assert [path.name for path in changed_files(before, after)] == ["agent.py", "new.py", "removed.py"]
    assert changed_files(after, after) == []


def test_a_replaced_file_is_reported_even_with_the_same_size_and_time(project):
    """Editors may save by renaming another file over the old one."""
    write(project, "agent.py", "next.py")
    config = load_project_config(project)
    stat = (project / "agent.py").stat()
    os.utime(project / "next.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    before = snapshot_files(config)
    (project / "next.py").rename(project / "agent.py")
    assert [path.name for path in changed_files(before, snapshot_files(config))] == ["agent.py", "next.py"]
