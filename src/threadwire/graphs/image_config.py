"""The keys of `langgraph.json` that `threadwire dockerfile` needs for an image. The server ignores most of them."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadwire.errors import ConfigError
from threadwire.graphs.config import load_config, read_json_object

DEFAULT_PYTHON = "3.11"


class ImageConfig(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    dependencies: list[str] = Field(default_factory=list)
    """Folders and packages to install."""
    python_version: str = Field(DEFAULT_PYTHON, pattern=r"^3\.\d+$")
    pip_config_file: str | None = None
    """A file in the project's folder that configures pip."""
    dockerfile_lines: list[str] = Field(default_factory=list)
    """Lines to insert after the base image."""
    base_image: str | None = None
    ui: dict[str, str] = Field(default_factory=dict)
    """Components that have to be bundled, which needs Node."""


def read_image_config(path: Path) -> ImageConfig:
    """Read the keys for building an image. The rest of the file must be valid for the server. Raises `ConfigError`."""
    load_config(path)
    try:
        return ImageConfig.model_validate(read_json_object(path))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(f'"{part}"' for part in first["loc"])
        raise ConfigError(f"{path}: {name}: {first['msg']}.") from None
