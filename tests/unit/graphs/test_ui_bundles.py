"""Bundles: those that lie ready, and those that esbuild makes. A stand-in writes what the real one would."""

import json
import os
import sys
import time
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from threadwire.errors import NotFound
from threadwire.graphs.ui import UiBundles, UiConfig, global_name

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with a source, where no esbuild is on the path."""
    (tmp_path / "ui.tsx").write_text("export default {}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install(folder: Path, *, then: str = "") -> Path:
    """An esbuild that says what it was asked, and when."""
    program = folder / "esbuild"
    folder.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f"#!{sys.executable}\n"
        + dedent("""
        import json, os, sys
        from pathlib import Path

        options = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:])
        asked = {"arguments": sys.argv[1:], "entry": sys.stdin.read(), "in": os.getcwd()}
        with open(Path(__file__).parent / "asked.jsonl", "a") as file:
            file.write(json.dumps(asked) + "\\n")
        """)
        + dedent(then)
        + dedent("""
        script = Path(options["outfile"])
        script.parent.mkdir(parents=True)
        script.write_text(f"var {options['global-name']} = 'made';")
        script.with_suffix(".css").write_text("b {}")
        inputs = {"<stdin>": {}, "ui.tsx": {}, "part.ts": {}}
        Path(options["metafile"]).write_text(json.dumps({"inputs": inputs}))
        """)
    )
    program.chmod(0o755)
    return folder / "asked.jsonl"


def asked(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def bundles(source: Path, **options) -> UiBundles:
    return UiBundles(UiConfig({"my-ui": source}, **options))


def test_the_global_is_an_identifier():
    assert [global_name(name) for name in ("agent", "my-ui", "a.b c", "ключ")] == [
        "__LGUI_agent",
        "__LGUI_my_ui",
        "__LGUI_a_b_c",
        "__LGUI_____",
    ]


async def test_a_folder_is_served_as_it_is(folder):
    built = folder / "built"
    (built / "deeper").mkdir(parents=True)
    (built / "entrypoint.js").write_text("var __LGUI_my_ui;")
    (built / "sun.svg").write_text("<svg/>")
    ui = bundles(built)
    assert await ui.files("my-ui") == {"entrypoint.js": b"var __LGUI_my_ui;", "sun.svg": b"<svg/>"}
    (built / "entrypoint.js").write_text("changed")
    assert (await ui.files("my-ui"))["entrypoint.js"] == b"changed"
    (built / "entrypoint.js").unlink()
    with pytest.raises(NotFound, match=r"There is no entrypoint\.js in built"):
        await ui.files("my-ui")


@pytest.mark.parametrize("where", ["project/node_modules/.bin", "node_modules/.bin", "bin"])
async def test_esbuild_is_found_near_the_source_or_on_the_path(folder, where):
    project = folder / "project"
    project.mkdir()
    (project / "ui.tsx").write_text("export default {}")
    said = install(folder / where)
    files = await bundles(project / "ui.tsx", shared=["d3"]).files("my-ui")
    assert sorted(files) == ["entrypoint.css", "entrypoint.js"]
    assert files["entrypoint.js"].decode().splitlines() == [
        "var __LGUI_my_ui = (function (require) {",
        "var __LGUI_my_ui = 'made';",
        "return __LGUI_my_ui;",
        '})(globalThis[Symbol.for("LGUI_REQUIRE")]);',
    ]
    [request] = asked(said)
    assert request["in"] == str(project)
    assert request["entry"].startswith(f'import components from "{project / "ui.tsx"}";\n')
    assert {"--bundle", "--format=iife", "--jsx=automatic", "--external:react", "--external:d3"} <= set(
        request["arguments"]
    )


async def test_a_bundle_is_made_again_only_when_an_input_has_changed(folder):
    said = install(folder / "node_modules" / ".bin")
    ui = bundles(folder / "ui.tsx")
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ui.files, "my-ui")
    assert len(asked(said)) == 1
    (folder / "part.ts").write_text("new")
    await ui.files("my-ui")
    assert len(asked(said)) == 2
    later = time.time_ns() + 10**9
    os.utime(folder / "part.ts", ns=(later, later))
    await ui.files("my-ui")
    await ui.files("my-ui")
    assert len(asked(said)) == 3


@pytest.mark.parametrize(
    ("then", "says"),
    [
        ("print('✘ [ERROR] Expected \\\"}\\\"\\n\\n  ui.tsx:1:2:', file=sys.stderr); sys.exit(1)", 'Expected "}"'),
        ("sys.exit(2)", "esbuild failed"),
    ],
)
async def test_what_esbuild_has_against_a_source_is_said(folder, then, says):
    install(folder / "node_modules" / ".bin", then=then)
    with pytest.raises(NotFound) as caught:
        await bundles(folder / "ui.tsx").files("my-ui")
    assert caught.value.message == f"The UI of 'my-ui' cannot be bundled: {says}"


async def test_without_esbuild_the_way_out_is_said(folder):
    with pytest.raises(NotFound) as caught:
        await bundles(folder / "ui.tsx").files("my-ui")
    assert caught.value.message == (
        "The UI of 'my-ui' cannot be bundled: esbuild is neither in node_modules/.bin nor on the path."
        " Install it, or name a folder with entrypoint.js in place of ui.tsx."
    )


async def test_a_source_that_is_not_there_is_named(folder):
    with pytest.raises(NotFound, match=r"The UI of 'my-ui' is not there: nothing\.tsx does not exist"):
        await bundles(folder / "nothing.tsx").files("my-ui")
