"""The Dockerfile, compose.yaml and the Kubernetes manifests agree with the code. Nothing is built or deployed: there is
neither Docker nor Kubernetes where the tests run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from image_build import build

from threadwire.cli import app
from threadwire.environment import PREFIX
from threadwire.server.combined_settings import combined_settings
from threadwire.settings import Settings

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
SETTINGS = combined_settings().model_fields
SECONDS_AFTER_DRAINING = 10


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return loaded


def manifests() -> list[dict[str, Any]]:
    files = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    assert {f"{path.name}" for path in MANIFESTS.glob("*.yaml")} == {"kustomization.yaml", *files}
    return [each for name in files for each in yaml.safe_load_all((MANIFESTS / name).read_text())]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


def containers() -> list[dict[str, Any]]:
    """The containers that run Threadwire."""
    pods = [each["spec"]["template"]["spec"] for each in (*of_kind("Deployment"), *of_kind("Job"))]
    return [each for pod in pods for each in pod["containers"] if each["image"] == "threadwire"]


def environments() -> Iterator[dict[str, str]]:
    """The variables of every process, whatever starts it."""
    yield from (service["environment"] for service in compose()["services"].values() if "environment" in service)
    yield from (each["stringData"] for each in of_kind("Secret"))
    for container in containers():
        yield {each["name"]: each["value"] for each in container.get("env", [])}


def commands() -> Iterator[list[str]]:
    for service in compose()["services"].values():
        if service.get("image") == "threadwire":
            yield shlex.split(service["command"])
    yield from (container["command"] for container in containers())


@pytest.fixture
def image(tmp_path: Path) -> Any:
    return build(ROOT / "Dockerfile", ROOT, tmp_path)


def test_the_image_contains_the_package_and_the_project_it_serves(image: Any) -> None:
    assert image.inside("/threadwire/src/threadwire/cli/__init__.py").is_file()
    assert image.inside(image.env["THREADWIRE_CONFIG"]).is_file()
    assert image.user == "10001"
    assert image.command == ["threadwire", "serve"]
    assert {name.removeprefix(PREFIX).lower() for name in image.env} <= set(SETTINGS)
    install = next(command for command in image.commands if command.startswith("pip install"))
    assert "'.[postgres,examples]'" in install


def test_every_variable_is_a_setting_with_a_valid_value() -> None:
    for environment in environments():
        given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
        assert {name.removeprefix(PREFIX).lower() for name in given} <= set(SETTINGS)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, value)
            Settings()


def test_every_command_exists_with_its_options() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found = list(commands())
    assert len(found) > 5
    for program, name, *options in found:
        assert program == "threadwire"
        group.commands[name].make_context(name, options, resilient_parsing=False)


def test_compose_has_the_layout_that_the_documentation_describes() -> None:
    services = compose()["services"]
    roles = [shlex.split(service["command"]) for service in services.values() if service.get("image") == "threadwire"]
    assert roles.count(["threadwire", "serve", "--role", "api"]) == 2
    assert roles.count(["threadwire", "worker"]) == 2
    assert set(services) >= {"postgres", "redis", "nginx", "migrate"}
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:2024:80"]


def test_nginx_forwards_to_every_api_process_of_compose() -> None:
    config = (ROOT / "deploy" / "nginx.conf").read_text()
    services = compose()["services"]
    apis = {name for name, service in services.items() if "--role api" in service.get("command", "")}
    assert set(re.findall(r"server (\S+):2024", config)) == apis


def test_a_process_has_the_time_to_drain_before_it_is_killed() -> None:
    for service in compose()["services"].values():
        if service.get("image") == "threadwire":
            drain = float(service["environment"]["THREADWIRE_DRAIN_SECONDS"])
            assert int(service["stop_grace_period"].rstrip("s")) >= drain + SECONDS_AFTER_DRAINING
    for deployment in of_kind("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        for container in pod["containers"]:
            environment = {each["name"]: each["value"] for each in container.get("env", [])}
            if drain_seconds := environment.get("THREADWIRE_DRAIN_SECONDS"):
                waits = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
                least = float(drain_seconds) + waits + SECONDS_AFTER_DRAINING
                assert pod["terminationGracePeriodSeconds"] >= least


def test_manifests_select_the_pods_they_mean() -> None:
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment")]
    for deployment in of_kind("Deployment"):
        template = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == template
    selectors = [each["spec"]["selector"] for each in of_kind("Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind("PodDisruptionBudget")]
    assert len(selectors) == 4
    for selector in selectors:
        assert len([each for each in labels if selector.items() <= each.items()]) == 1


def test_probes_ask_for_routes_that_a_worker_serves_under_a_host_that_is_allowed() -> None:
    for container in containers():
        if "ports" not in container:
            continue
        paths = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert {name: probe["path"] for name, probe in paths.items()} == {
            "startupProbe": "/ok",
            "livenessProbe": "/ok",
            "readinessProbe": "/ready",
        }
        for probe in paths.values():
            assert probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_containers_run_as_the_user_of_the_image_without_privileges(image: Any) -> None:
    for deployment in of_kind("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        if any(each["image"] == "threadwire" for each in pod["containers"]):
            assert str(pod["securityContext"]["runAsUser"]) == image.user
