"""Components that a graph shows in its clients: the `ui` of langgraph.json.

A bundle is a script that defines a global with a function `render`, and perhaps a style sheet. It is what lies ready in
a folder, or what esbuild makes of a source; then it is made anew when something it was made from has changed. Only a
bundle that is asked for is made.

The script asks the page for React (`LGUI_REQUIRE`) and hands it the component (`LGUI_EXT_STORE`); both are put there by
`LoadExternalComponent` of the JavaScript SDK.
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
BUILD_WITHIN = 60.0

_FROM_THE_PAGE = ("react", "react-dom", "@langchain/langgraph-sdk", "@langchain/langgraph-sdk/react-ui")
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
    """Absolute: a source file, or a folder with a bundle."""
    shared: Sequence[str] = ()
    """Modules besides React that the page provides."""


@dataclass(frozen=True)
class Bundle:
    files: Mapping[str, bytes]
    made_from: Mapping[Path, int]
    """When each input was last changed, as it was read."""

    @property
    def is_fresh(self) -> bool:
        return all(_changed_at(path) == at for path, at in self.made_from.items())


class UiBundles:
    def __init__(self, config: UiConfig) -> None:
        self._config = config
        self._made: dict[str, Bundle] = {}
        self._locks = {name: anyio.Lock() for name in config.sources}

    def __contains__(self, name: object) -> bool:
        return name in self._config.sources

    async def files(self, name: str) -> Mapping[str, bytes]:
        """What the bundle consists of, by file name. Raises `NotFound` with the reason if there is none to be had."""
        source = self._config.sources[name]
        if await to_thread.run_sync(source.is_dir):
            return await to_thread.run_sync(_read_folder, source)
        async with self._locks[name]:  # those who ask meanwhile want the same
            return (await to_thread.run_sync(self._fresh, name, source)).files

    def _fresh(self, name: str, source: Path) -> Bundle:
        made = self._made.get(name)
        if made is None or not made.is_fresh:
            made = self._made[name] = _build(name, source, [*_FROM_THE_PAGE, *self._config.shared])
        return made


def global_name(name: str) -> str:
    """The global that the bundle's script defines."""
    return "__LGUI_" + re.sub(r"\W", "_", name, flags=re.ASCII)


def _read_folder(folder: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if ENTRY not in files:
        raise NotFound(f"There is no {ENTRY} in {folder.name}, so it is no bundle")
    return files


def _build(name: str, source: Path, external: Sequence[str]) -> Bundle:
    if not source.is_file():
        raise NotFound(f"The UI of '{name}' is not there: {source.name} does not exist")
    if (esbuild := _find_esbuild(source.parent)) is None:
        raise NotFound(
            f"The UI of '{name}' cannot be bundled: esbuild is neither in node_modules/.bin nor on the path."
            f" Install it, or name a folder with {ENTRY} in place of {source.name}."
        )
    with TemporaryDirectory(prefix="threadwire-ui-") as made:
        command = _command(esbuild, name, Path(made), external)
        try:
            ended = subprocess.run(
                command,
                input=_ENTRY % json.dumps(str(source)),
                cwd=source.parent,
                capture_output=True,
                text=True,
                timeout=BUILD_WITHIN,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotFound(f"The UI of '{name}' cannot be bundled: {type(error).__name__}") from error
        if ended.returncode != 0:
            logger.warning("ui_not_bundled", ui=name, source=str(source), esbuild=ended.stderr)
            raise NotFound(f"The UI of '{name}' cannot be bundled: {_first_error(ended.stderr)}")
        return _read_built(name, Path(made), source.parent)


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
    # What is not in the bundle is required by it; a parameter keeps that from the rest of the page.
    files[ENTRY] = (
        f"var {variable} = (function (require) {{\n{script}\nreturn {variable};\n"
        f'}})(globalThis[Symbol.for("LGUI_REQUIRE")]);\n'
    ).encode()
    inputs = [base / path for path in json.loads((folder / "meta.json").read_text())["inputs"] if path != "<stdin>"]
    return Bundle(files, {path: _changed_at(path) for path in inputs})


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _first_error(text: str) -> str:
    found = re.search(r"\[ERROR\] (.+)", text)
    return found[1].strip() if found else "esbuild failed"
