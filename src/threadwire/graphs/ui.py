"""UI components that clients load for a graph: the `ui` section of langgraph.json.

A bundle is a script that defines a global with a `render` function, and optionally a style sheet. It is either a folder
with a ready-made bundle, or built from a source by esbuild. Bundles are built on demand, and rebuilt when one of their
inputs has changed.

The script gets React from the page (`LGUI_REQUIRE`) and passes the component back to it (`LGUI_EXT_STORE`). The page
gets both from `LoadExternalComponent` of the JavaScript SDK.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import structlog
from anyio import to_thread

from threadwire.errors import NotFound

ENTRY = "entrypoint.js"
STYLE = "entrypoint.css"
BUILD_TIMEOUT = 60.0

_PROVIDED_BY_PAGE = ("react", "react-dom", "@langchain/langgraph-sdk", "@langchain/langgraph-sdk/react-ui")
_ENTRY = """\
import components from %s;
export function render(name, id) {
  const root = document.getElementById(id).shadowRoot;
  const place = root.appendChild(document.createElement("div"));
  window[Symbol.for("LGUI_EXT_STORE")].respond(id, components[name], place);
}
"""

logger = structlog.get_logger("threadwire.ui")


@dataclass(frozen=True)
class UiConfig:
    sources: Mapping[str, Path]
    """Absolute paths: a source file, or a folder with a bundle."""
    shared: Sequence[str] = ()
    """Modules that the page provides in addition to React."""


@dataclass(frozen=True)
class Bundle:
    files: Mapping[str, bytes]
    inputs: Mapping[Path, int]
    """The mtime of each input when the bundle was built."""

    @property
    def is_fresh(self) -> bool:
        return all(_mtime(path) == mtime for path, mtime in self.inputs.items())


class UiBundles:
    def __init__(self, config: UiConfig) -> None:
        self._config = config
        self._built: dict[str, Bundle] = {}
        self._locks = {name: anyio.Lock() for name in config.sources}

    def __contains__(self, name: object) -> bool:
        return name in self._config.sources

    async def files(self, name: str) -> Mapping[str, bytes]:
        """The files of the bundle by name. Raises `NotFound` with the reason if there is no bundle."""
        source = self._config.sources[name]
        if await to_thread.run_sync(source.is_dir):
            return await to_thread.run_sync(_read_folder, source)
        async with self._locks[name]:  # concurrent requests share one build
            return (await to_thread.run_sync(self._fresh, name, source)).files

    def _fresh(self, name: str, source: Path) -> Bundle:
        bundle = self._built.get(name)
        if bundle is None or not bundle.is_fresh:
            bundle = self._built[name] = _build(name, source, [*_PROVIDED_BY_PAGE, *self._config.shared])
        return bundle


def global_name(name: str) -> str:
    """The global that the bundle's script defines."""
    return "__LGUI_" + re.sub(r"\W", "_", name, flags=re.ASCII)


def _read_folder(folder: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if ENTRY not in files:
        raise NotFound(f"{folder.name} is not a UI bundle: it contains no {ENTRY}")
    return files


def _build(name: str, source: Path, external: Sequence[str]) -> Bundle:
    if not source.is_file():
        raise NotFound(f"The UI of '{name}' cannot be bundled: {source.name} does not exist")
    if (esbuild := _find_esbuild(source.parent)) is None:
        raise NotFound(
            f"The UI of '{name}' cannot be bundled: esbuild is neither in node_modules/.bin nor on PATH."
            f" Install it, or configure a folder with {ENTRY} instead of {source.name}."
        )
    with TemporaryDirectory(prefix="threadwire-ui-") as folder:
        command = _command(esbuild, name, Path(folder), external)
        try:
            completed = subprocess.run(
                command,
                input=_ENTRY % json.dumps(str(source)),
                cwd=source.parent,
                capture_output=True,
                text=True,
                timeout=BUILD_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotFound(f"The UI of '{name}' cannot be bundled: {type(error).__name__}") from error
        if completed.returncode != 0:
            logger.warning("ui_bundling_failed", ui=name, source=str(source), error=completed.stderr)
            raise NotFound(f"The UI of '{name}' cannot be bundled: {_first_error(completed.stderr)}")
        return _read_built(name, Path(folder), source.parent)


def _find_esbuild(folder: Path) -> str | None:
    for parent in (folder, *folder.parents):
        if local := shutil.which("esbuild", path=str(parent / "node_modules" / ".bin")):
            return local
    return shutil.which("esbuild")


def _command(esbuild: str, name: str, folder: Path, external: Sequence[str]) -> list[str]:
    return [
        esbuild,
        "--bundle",
        "--platform=browser",
        "--target=es2020",
        "--format=iife",
        f"--global-name={global_name(name)}",
        "--jsx=automatic",
        "--log-level=error",
        f"--outfile={folder / 'bundle' / ENTRY}",
        f"--metafile={folder / 'meta.json'}",
        *(f"--external:{module}" for module in external),
    ]


def _read_built(name: str, folder: Path, base: Path) -> Bundle:
    files = {path.name: path.read_bytes() for path in (folder / "bundle").iterdir()}
    script, variable = files[ENTRY].decode(), global_name(name)
    # External modules are loaded with `require`. Passing it as a parameter keeps it out of the page's globals.
    files[ENTRY] = (
        f"var {variable} = (function (require) {{\n{script}\nreturn {variable};\n"
        f'}})(globalThis[Symbol.for("LGUI_REQUIRE")]);\n'
    ).encode()
    inputs = [base / path for path in json.loads((folder / "meta.json").read_text())["inputs"] if path != "<stdin>"]
    return Bundle(files, {path: _mtime(path) for path in inputs})


def _mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _first_error(text: str) -> str:
    found = re.search(r"\[ERROR\] (.+)", text)
    return found[1].strip() if found else "esbuild failed"
