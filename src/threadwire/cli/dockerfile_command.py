"""`threadwire dockerfile`: write a Dockerfile for a project, and the files to run it with Compose."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from threadwire import __version__
from threadwire.errors import ConfigError
from threadwire.graphs.image_config import ImageConfig, read_image_config

DEPS = "/deps"
PORT = 2024

_NODE = "apt-get update && apt-get install --yes --no-install-recommends nodejs npm && rm -rf /var/lib/apt/lists/*"

DOCKERIGNORE = """\
# Files that the image does not need or must not contain.
.git
.venv
.env
.env.*
.threadwire
__pycache__
*.pyc
node_modules
Dockerfile
.dockerignore
docker-compose.yml
"""

_COMPOSE = """\
# PostgreSQL, Redis and one server. https://docs.docker.com/compose/
services:
  postgres:
    image: postgres:16
    environment:
      POSTGRES_USER: threadwire
      POSTGRES_PASSWORD: threadwire
      POSTGRES_DB: threadwire
    volumes:
      - threadwire-postgres:/var/lib/postgresql/data
    healthcheck:
      test: pg_isready --username threadwire
      interval: 5s
      timeout: 2s
      retries: 10
  redis:
    image: redis:7
    command: redis-server --save "" --appendonly no
    healthcheck:
      test: redis-cli ping
      interval: 5s
      timeout: 2s
      retries: 10
  threadwire:
    build:
      context: .
      dockerfile: {dockerfile}
    env_file: .env
    environment:
      THREADWIRE_STORAGE: postgresql://threadwire:threadwire@postgres:5432/threadwire
      THREADWIRE_REDIS: redis://redis:6379
      # Clients are not authenticated. The port is published on loopback only.
      THREADWIRE_INSECURE_NO_AUTH: "true"
    ports:
      - "127.0.0.1:{port}:{port}"
    depends_on:
      postgres:
        condition: service_healthy
      redis:
        condition: service_healthy
    stop_grace_period: 30s
volumes:
  threadwire-postgres:
"""


def write_dockerfile(target: Path, config: Path, console: Console, *, base_image: str | None, compose: bool) -> None:
    """Write `target` and, with `compose`, the files that Compose needs beside it. An existing file is never replaced,
    except `target` itself."""
    config = config.absolute()
    image = read_image_config(config)
    _write(target, dockerfile(image, config, base_image), console)
    folder = target.absolute().parent
    files = {".dockerignore": DOCKERIGNORE}
    if compose:
        files["docker-compose.yml"] = _COMPOSE.format(dockerfile=target.name, port=PORT)
        files[".env"] = "# Environment variables for the server, such as the API keys of models: NAME=value\n"
    for name, text in files.items():
        if (folder / name).exists():
            console.print(f"{name} already exists and was not changed")
        else:
            _write(folder / name, text, console)


def _write(path: Path, text: str, console: Console) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}.") from None
    console.print(f"{path.name} written")


def dockerfile(image: ImageConfig, config: Path, base_image: str | None = None) -> str:
    """Return a Dockerfile that is built in the folder of the project file. Raises `ConfigError`."""
    base = base_image or image.base_image or f"python:{image.python_version}-slim"
    folder = f"{DEPS}/{config.parent.name}"
    blocks = [
        [f"FROM {base}"],
        image.dockerfile_lines,
        [f"RUN {_NODE}"] if image.ui else [],
        _pip_config(image, config.parent),
        [_install("threadwire[postgres]==" + __version__, *_packages(image, config.parent))],
        [f"COPY {_json('.', folder)}", f"WORKDIR {folder}"],
        [f"RUN pip install --no-cache-dir {each}" for each in _local_installs(image, config.parent)],
        [
            "RUN useradd --create-home --uid 10001 threadwire",
            "USER 10001",
            f"ENV THREADWIRE_CONFIG={_quoted(f'{folder}/{config.name}')} THREADWIRE_HOST=0.0.0.0 "
            f"THREADWIRE_PORT={PORT} THREADWIRE_DATA=/home/threadwire/data",
            f"EXPOSE {PORT}",
            'CMD ["threadwire", "serve"]',
        ],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _pip_config(image: ImageConfig, root: Path) -> list[str]:
    if image.pip_config_file is None:
        return []
    name = _inside(image.pip_config_file, root)
    if not (root / name).is_file():
        raise ConfigError(f'"pip_config_file": the file "{image.pip_config_file}" does not exist.')
    return [f"COPY {_json(name, '/pipconfig.txt')}", "ENV PIP_CONFIG_FILE=/pipconfig.txt"]


def _packages(image: ImageConfig, root: Path) -> list[str]:
    return [name for name in image.dependencies if not _is_folder(name, root)]


def _local_installs(image: ImageConfig, root: Path) -> Iterator[str]:
    """What to pass to pip for each folder. Nothing is passed for a folder that has none of the files below: the project
    imports modules directly from it."""
    for name in (each for each in image.dependencies if _is_folder(each, root)):
        folder = _inside(name, root)
        if any((root / folder / each).is_file() for each in ("pyproject.toml", "setup.py")):
            yield f"--editable {shlex.quote(f'./{folder}' if folder != '.' else '.')}"
        elif (root / folder / "requirements.txt").is_file():
            yield f"--requirement {shlex.quote(str(Path(folder) / 'requirements.txt'))}"


def _is_folder(name: str, root: Path) -> bool:
    return name.startswith((".", "/")) or (root / name).is_dir()


def _inside(name: str, root: Path) -> str:
    """The path relative to the project's folder: only what is in it can be copied into the image."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ConfigError(f'"{name}" is outside of {root}. An image can contain only files of that folder.')
    return str(path.relative_to(root.resolve()))


def _install(*packages: str) -> str:
    return "RUN pip install --no-cache-dir " + " ".join(map(shlex.quote, packages))


def _json(*paths: str) -> str:
    """The form of COPY that allows spaces."""
    return json.dumps(paths)


def _quoted(value: str) -> str:
    return json.dumps(value)
