"""The settings of the server and of its protocols are one class."""

from typing import Any

import pytest
from fastapi import APIRouter

from threadwire.environment import EnvironmentSettings
from threadwire.errors import ConfigError
from threadwire.http.protocol import Protocol
from threadwire.server.combined_settings import combined_settings, reject_unknown_variables
from threadwire.server.protocols import PROTOCOLS
from threadwire.settings import Settings


class Lamp(EnvironmentSettings):
    brightness: int = 3


class Lantern(Lamp):
    oil: str = "whale"


class Sun(EnvironmentSettings):
    brightness: int = 9


class Door(EnvironmentSettings):
    port: int = 1


def protocol(settings: type[EnvironmentSettings] | None) -> Protocol[Any]:
    return Protocol(name="any", router=lambda context: APIRouter(), settings=settings)


def combined(*classes: type[EnvironmentSettings] | None) -> Any:
    return combined_settings([protocol(each) for each in classes])


def test_the_combined_settings_have_the_fields_of_all_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADWIRE_BRIGHTNESS", "5")
    settings = combined(Lamp, None)(concurrency=7)
    assert (settings.brightness, settings.concurrency) == (5, 7)
    assert isinstance(settings, Lamp)
    assert isinstance(settings, Settings)


@pytest.mark.parametrize("classes", [(Lamp, Lamp), (Lamp, Lantern), (Lantern, Lamp)])
def test_protocols_may_share_a_class_or_extend_it(classes: tuple[type[Lamp], type[Lamp]]) -> None:
    assert combined(*classes)(brightness=4).brightness == 4


@pytest.mark.parametrize(("classes", "name"), [((Lantern, Sun), "brightness"), ((Lamp, Door), "port")])
def test_two_unrelated_settings_with_the_same_name_are_rejected(
    classes: tuple[type[EnvironmentSettings], ...], name: str
) -> None:
    with pytest.raises(TypeError, match=f"both define the setting {name}"):
        combined(*classes)


def test_the_variables_of_protocols_and_clients_are_known() -> None:
    reject_unknown_variables({"THREADWIRE_WHEN_BUSY": "", "THREADWIRE_URL": "", "THREADWIRE_EXAMPLE_X": "", "HOME": ""})
    with pytest.raises(ConfigError, match="THREADWIRE_WHEN_BUZY is not a Threadwire setting"):
        reject_unknown_variables({"THREADWIRE_WHEN_BUZY": ""})


def test_the_names_of_protocols_are_unique() -> None:
    names = [each.name for each in PROTOCOLS]
    assert len(set(names)) == len(names)
