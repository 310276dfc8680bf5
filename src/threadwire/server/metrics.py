"""`/metrics`, in the text format of Prometheus."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from threadwire.engine.lifecycle import Engine
from threadwire.http.streaming import OpenStreams
from threadwire.server.health import SYSTEM

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ENDINGS = ("success", "error", "interrupted", "timeout")

Samples = Iterable[tuple[Mapping[str, str], float]]


def metrics_route(engine: Engine, streams: OpenStreams) -> APIRouter:
    router = APIRouter(tags=[SYSTEM.name])

    @router.get("/metrics")
    async def metrics() -> Response:
        active = await engine.runs.count_active()
        log = engine.runs.counters()
        ended = engine.worker.ended
        versions = {"version": version("threadwire"), "langgraph": version("langgraph")}
        families = [
            family("threadwire_info", "gauge", "What is running.", [(versions, 1)]),
            family(
                "threadwire_runs",
                "gauge",
                "Runs that have not ended: waiting for their turn or time, and under way.",
                [({"status": status}, count) for status, count in active.items()],
            ),
            family(
                "threadwire_runs_ended_total",
                "counter",
                "Runs that ended since the start.",
                [({"status": status}, ended[status]) for status in ENDINGS],
            ),
            family(
                "threadwire_run_places", "gauge", "Runs that can be under way at once.", [({}, engine.worker.capacity)]
            ),
            family("threadwire_streams", "gauge", "Responses that are being sent as they come.", [({}, len(streams))]),
            family("threadwire_log_entries_total", "counter", "Entries kept since the start.", [({}, log.entries)]),
            family("threadwire_log_commits_total", "counter", "Commits since the start.", [({}, log.commits)]),
        ]
        return Response("".join(families), headers={"content-type": CONTENT_TYPE})

    return router


def family(name: str, kind: str, description: str, samples: Samples) -> str:
    lines = [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
