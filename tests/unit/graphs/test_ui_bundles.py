"""UI bundles: ready-made, and built by esbuild. A fake esbuild writes what the real one would."""

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
    """A project with a source, without esbuild on PATH."""
    (tmp_path / "ui.tsx").write_text("export default {}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def install(folder: Path, *, then: str = "") -> Path:
    """Install a fake esbuild that runs `then`. Return the file in which it records its invocations."""
    program = folder / "esbuild"
    folder.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f"#!{sys.executable}\n"
        + dedent("""
        import json, os, sys
        from pathlib import Path

        options = dict(each.removeprefix("--").partition("=")[::2] for each in sys.argv[1:])
        invocation = {"arguments": sys.argv[1:], "entry": sys.stdin.read(), "in": os.getcwd()}
        with open(Path(__file__).parent / "invocations.jsonl", "a") as file:
            file.write(json.dumps(invocation) + "\\n")
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
    return folder / "invocations.jsonl"


def invocations(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def bundles(source: Path, **options) -> UiBundles:
    return UiBundles(UiConfig({"my-ui": source}, **options))


def test_global_name_is_an_identifier():
    assert [global_name(name) for name in ("agent", "my-ui", "a.b c", "ключ")] == [
        "__LGUI_agent",
        "__LGUI_my_ui",
        "__LGUI_a_b_c",
        "__LGUI_____",
    ]


async def test_folder_is_served_unchanged(folder):
    built = folder / "built"
    (built / "deeper").mkdir(parents=True)
    (built / "entrypoint.js").write_text("var __LGUI_my_ui;")
    (built / "sun.svg").write_text("<svg/>")
    ui = bundles(built)
    assert await ui.files("my-ui") == {"entrypoint.js": b"var __LGUI_my_ui;", "sun.svg": b"<svg/>"}
    (built / "entrypoint.js").write_text("changed")
    assert (await ui.files("my-ui"))["entrypoint.js"] == b"changed"
    (built / "entrypoint.js").unlink()
    with pytest.raises(NotFound, match=r"built is not a UI bundle: it contains no entrypoint\.js"):
        await ui.files("my-ui")


@pytest.mark.parametrize("where", ["project/node_modules/.bin", "node_modules/.bin", "bin"])
async def test_esbuild_is_found_near_the_source_or_on_path(folder, where):
    project = folder / "project"
    project.mkdir()
    (project / "ui.tsx").write_text("export default {}")
    log = install(folder / where)
    files = await bundles(project / "ui.tsx", shared=["d3"]).files("my-ui")
    assert sorted(files) == ["entrypoint.css", "entrypoint.js"]
    assert files["entrypoint.js"].decode().splitlines() == [
        "var __LGUI_my_ui = (function (require) {",
        "var __LGUI_my_ui = 'made';",
        "return __LGUI_my_ui;",
        '})(globalThis[Symbol.for("LGUI_REQUIRE")]);',
    ]
    [invocation] = invocations(log)
    assert invocation["in"] == str(project)
    assert invocation["entry"].startswith(f'import components from "{project / "ui.tsx"}";\n')
    assert {"--bundle", "--format=iife", "--jsx=automatic", "--external:react", "--external:d3"} <= set(
        invocation["arguments"]
    )


async def test_bundle_is_rebuilt_only_when_an_input_has_changed(folder):
    log = install(folder / "node_modules" / ".bin")
    ui = bundles(folder / "ui.tsx")
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ui.files, "my-ui")
    assert len(invocations(log)) == 1
    (folder / "part.ts").write_text("new")
    await ui.files("my-ui")
    assert len(invocations(log)) == 2
    later = time.time_ns() + 10**9
    os.utime(folder / "part.ts", ns=(later, later))
    await ui.files("my-ui")
    await ui.files("my-ui")
    assert len(invocations(log)) == 3


@pytest.mark.parametrize(
    ("then", "error"),
    [
        ("print('✘ [ERROR] Expected \\\"}\\\"\\n\\n  ui.tsx:1:2:', file=sys.stderr); sys.exit(1)", 'Expected "}"'),
        ("sys.exit(2)", "esbuild failed"),
    ],
)
async def test_error_of_esbuild_is_reported(folder, then, error):
    install(folder / "node_modules" / ".bin", then=then)
    with pytest.raises(NotFound) as caught:
        await bundles(folder / "ui.tsx").files("my-ui")
    assert caught.value.message == f"The UI of 'my-ui' cannot be bundled: {error}"


async def test_error_without_esbuild_says_what_to_do(folder):
    with pytest.raises(NotFound) as caught:
        await bundles(folder / "ui.tsx").files("my-ui")
    assert caught.value.message == (
        "The UI of 'my-ui' cannot be bundled: esbuild is neither in node_modules/.bin nor on PATH."
        " Install it, or configure a folder with entrypoint.js instead of ui.tsx."
    )


async def test_missing_source_is_named(folder):
    with pytest.raises(NotFound, match=r"The UI of 'my-ui' cannot be bundled: nothing\.tsx does not exist"):
        await bundles(folder / "nothing.tsx").files("my-ui")
