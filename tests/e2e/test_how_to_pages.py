"""The how-to pages about web clients, followed literally from an empty folder.

Only the address of the server is replaced. Installing packages needs npm's registry; CopilotKit's, of which there are
more than a thousand, are taken from the dashboard page, which has the same versions.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_js_clients import JS, NODE_TIMEOUT, node

from threadwire.testing.server import RunningServer, running_server

ROOT = JS.parent.parent
HOW_TO = ROOT / "docs" / "how-to"
DASHBOARD = ROOT / "examples" / "dashboard-page"
ADDRESS = "http://127.0.0.1:2024"
INSTALL_TIMEOUT = 500.0
pytestmark = pytest.mark.browser

_FENCE = re.compile(r"^```(\w+) title=\"([^\"]+)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    scripted = {"THREADWIRE_EXAMPLE_MODEL": "scripted"}
    data = tmp_path_factory.mktemp("data")
    with running_server(ROOT / "examples" / "langgraph.json", data, env=scripted, command="dev") as server:
        yield server


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our packages as in a fresh checkout: without dependencies, and not built."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "js", folder / "js", ignore=shutil.ignore_patterns("node_modules", "dist", "patched-*"))
    return folder


class Reader:
    """Someone who follows a page in a folder: writes its files, and runs its commands and programs."""

    def __init__(self, page: str, folder: Path, server: RunningServer, checkout: Path) -> None:
        text = (HOW_TO / page).read_text().replace(ADDRESS, server.url)
        self._blocks = {title: (language, body) for language, title, body in _FENCE.findall(text)}
        self._folder = folder
        self._checkout = checkout
        for title, (language, body) in self._blocks.items():
            if language not in ("sh", "bash"):
                (folder / title).write_text(body)

    def text_of(self, title: str) -> str:
        return self._blocks[title][1]

    def run(self, title: str) -> str:
        """Run a block: a shell script, or a program."""
        language, body = self._blocks[title]
        shell = ["sh", "-ec", body]
        command = {"sh": shell, "bash": shell, "python": [sys.executable, title]}.get(language, ["node", title])
        environment = {**os.environ, "THREADWIRE": str(self._checkout)}
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.extended  # it installs packages
@pytest.mark.timeout(600)
def test_the_page_about_showing_a_thread_works_from_an_empty_folder(
    tmp_path: Path, server: RunningServer, checkout: Path
) -> None:
    reader = Reader("show-a-thread-in-a-page.md", tmp_path, server, checkout)
    reader.run("install")
    assert "conflict" in reader.run("run.js").lower()
    kinds = [json.loads(line[6:])["type"] for line in reader.run("connect").splitlines() if line.startswith("data: ")]
    assert kinds == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert reader.run("connect.js").split()[0] == "user"
    reader.run("install-from-a-checkout")
    followed = reader.run("follow.js").splitlines()
    assert [line.strip() for line in followed if "connect" in line][:2] == ["connecting", "connected"]
    assert any(line.endswith(" messages") for line in followed)
    reader.run("install-langgraph")
    assert reader.run("langgraph.js").split() == kinds


@pytest.mark.extended  # it installs packages
@pytest.mark.timeout(600)
def test_pnpm_applies_the_patch_in_an_empty_folder(tmp_path: Path, server: RunningServer, checkout: Path) -> None:
    reader = Reader("show-a-thread-in-a-page.md", tmp_path, server, checkout)
    reader.run("install-patched")
    assert reader.run("patched.js").split() == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_the_page_about_copilotkit_works_from_an_empty_folder(
    tmp_path: Path, server: RunningServer, checkout: Path
) -> None:
    reader = Reader("use-copilotkit-without-node.md", tmp_path, server, checkout)
    installed = json.loads((DASHBOARD / "package.json").read_text())
    versions = {**installed["dependencies"], **installed["devDependencies"]}
    named = dict(re.findall(r"(\S+[^@\s])@(\d\S+)", reader.text_of("install")))
    assert named == {name: versions[name] for name in ("@copilotkit/react-core", "react", "react-dom", "esbuild")}
    (tmp_path / "node_modules").symlink_to(DASHBOARD / "node_modules")
    reader.run("build")
    with serving(tmp_path / "dist") as url:
        follow(url, "pages/how-to.test.js")


MAIN = """
import "@copilotkit/react-core/v2/styles.css";
import {{ CopilotChat, CopilotKitProvider, useAgent }} from "@copilotkit/react-core/v2";
import {{ mirror, ThreadwireAgent }} from "@threadwire/ag-ui";
import {{ useEffect, useMemo }} from "react";
import {{ createRoot }} from "react-dom/client";
{imports}
{component}
createRoot(document.getElementById("root")).render({page});
"""
"""What surrounds the parts of a page that the documentation shows."""


def test_a_copilotkit_page_that_follows_and_answers_works_as_documented(
    tmp_path: Path, server: RunningServer, checkout: Path
) -> None:
    reader = Reader("use-copilotkit-without-node.md", tmp_path, server, checkout)
    imports = 'import { Approvals } from "./approvals.jsx";\nimport { Follow } from "./follow.jsx";'
    page = f"""
      <CopilotKitProvider runtimeUrl="{server.url}/copilotkit" enableInspector={{false}}>
        <Approvals />
        <Follow agentId="approvals" threadId="how-to-follow" />
        <CopilotChat agentId="approvals" threadId="how-to-follow" />
      </CopilotKitProvider>"""
    build_page(reader, tmp_path, MAIN.format(imports=imports, component="", page=page))
    with serving(tmp_path / "dist") as url:
        follow(url, "pages/how-to-live.test.js", API=server.url, AGENT="approvals", THREAD="how-to-follow")


def test_the_lines_of_the_readme_that_follow_a_thread_work(
    tmp_path: Path, server: RunningServer, checkout: Path
) -> None:
    reader = Reader("use-copilotkit-without-node.md", tmp_path, server, checkout)
    readme = (ROOT / "README.md").read_text().replace(ADDRESS, server.url)
    page, lines = re.findall(r"^```jsx\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    component = f'const server = "{server.url}";\nfunction Follow() {{\n{lines}return null;\n}}\n'
    inside = page.replace("<CopilotChat", "<Follow />\n<CopilotChat")
    build_page(reader, tmp_path, MAIN.format(imports="", component=component, page=inside.strip()))
    with serving(tmp_path / "dist") as url:
        follow(url, "pages/how-to-live.test.js", API=server.url, AGENT="scheduling", THREAD="my-thread")


def build_page(reader: Reader, folder: Path, main: str) -> None:
    """Build another page with the command of the how-to, and with our package."""
    modules = folder / "node_modules"
    modules.mkdir()
    for each in (DASHBOARD / "node_modules").iterdir():
        (modules / each.name).symlink_to(each.resolve())
    (modules / "@threadwire").mkdir()
    (modules / "@threadwire" / "ag-ui").symlink_to(ROOT / "js" / "packages" / "ag-ui")
    (folder / "main.jsx").write_text(main)
    reader.run("build")


@pytest.mark.extended  # it installs packages
@pytest.mark.timeout(600)
def test_the_page_about_following_a_thread_works_from_an_empty_folder(
    tmp_path: Path, server: RunningServer, checkout: Path
) -> None:
    reader = Reader("follow-a-thread.md", tmp_path, server, checkout)
    printed = reader.run("chat.py")
    assert "Conflicts" in printed
    assert re.search(r"^\d+ messages$", printed, re.MULTILINE)
    reader.run("install")
    printed = reader.run("chat.js")
    assert "Conflicts" in printed
    assert re.search(r"^\d+ checkpoints$", printed, re.MULTILINE)
    reader.run("install-page")
    reader.run("build")
    with serving(tmp_path / "dist") as url:
        follow(url, "pages/how-to-follow.test.js")


def follow(url: str, file: str, **environment: str) -> None:
    """Run the browser test of a page."""
    with node(file, "playwright-core", url, **environment) as process:
        printed, _ = process.communicate(timeout=NODE_TIMEOUT)
    assert process.returncode == 0, printed


class serving:
    """Serves a folder as the page does, on a free port."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self) -> str:
        assert self._process.stdout is not None
        found = re.search(r"port (\d+)", self._process.stdout.readline())
        assert found
        url = f"http://127.0.0.1:{found[1]}"
        assert urllib.request.urlopen(url).status == 200
        return url

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
