"""The base class of the settings of the server and of each protocol. Settings come from the environment."""

from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "THREADWIRE_"


class EnvironmentSettings(BaseSettings):
    """Settings that are read from environment variables: `PREFIX` followed by the name of the field.

    The docstring of each field is its description in `docs/reference/settings.md`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, use_attribute_docstrings=True)
