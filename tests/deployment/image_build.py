"""Reads a Dockerfile without Docker: what it copies, sets and runs, in a folder that stands for the image."""

import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = frozenset({"FROM", "RUN", "COPY", "WORKDIR", "ENV", "EXPOSE", "USER", "CMD", "ARG", "LABEL"})


@dataclass
class ImageBuild:
    """The result of the instructions that do not need Docker. `RUN` lines are collected."""

    context: Path
    root: Path
    """The folder that stands for `/` of the image."""
    base: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    user: str = "root"
    working_directory: str = "/"
    command: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)

    def inside(self, path: str) -> Path:
        return self.root / str(Path("/", self.working_directory, path)).lstrip("/")


def build(dockerfile: Path, context: Path, root: Path) -> ImageBuild:
    """Follow every instruction. Raises `AssertionError` for one that Docker would reject, as far as we can tell."""
    image = ImageBuild(context, root)
    for name, text in instructions(dockerfile.read_text()):
        assert name in KNOWN, f"unknown instruction {name}"
        assert image.base or name in ("FROM", "ARG"), f"{name} before FROM"
        _apply(image, name, text)
    return image


def instructions(text: str) -> list[tuple[str, str]]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [(name, rest) for line in joined.splitlines() if line.strip() for name, _, rest in [line.partition(" ")]]


def _apply(image: ImageBuild, name: str, text: str) -> None:
    match name:
        case "FROM":
            image.base.append(text)
        case "RUN":
            image.commands.append(text)
        case "WORKDIR":
            image.working_directory = text
            image.inside(".").mkdir(parents=True, exist_ok=True)
        case "ENV":
            image.env.update(dict(part.split("=", 1) for part in shlex.split(text)))
        case "USER":
            image.user = text
        case "EXPOSE":
            image.ports.append(int(text))
        case "CMD":
            image.command = json.loads(text)
        case "COPY":
            _copy(image, text)


def _copy(image: ImageBuild, text: str) -> None:
    *sources, target = json.loads(text) if text.startswith("[") else [p for p in text.split() if not p.startswith("--")]
    if "--from=" in text:
        return
    for source in sources:
        path = (image.context / source).resolve()
        assert path.is_relative_to(image.context.resolve()), f"{source} is outside of the build context"
        assert path.exists(), f"{source} does not exist"
        destination = image.inside(target)
        if path.is_dir():
            shutil.copytree(path, destination, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_ignored(image)))
        else:
            destination = destination / path.name if target.endswith("/") else destination
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, destination)


def _ignored(image: ImageBuild) -> list[str]:
    file = image.context / ".dockerignore"
    lines = file.read_text().splitlines() if file.is_file() else []
    # A file that excludes everything names what it includes; those are the paths that a Dockerfile copies.
    return [line.removeprefix("**/") for line in lines if line and line != "*" and not line.startswith(("#", "!"))]
