"""`/metrics`, in the text format of Prometheus."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from threadwire.core.histogram import Histogram
from threadwire.core.records import LogCounters
from threadwire.engine.lifecycle import Engine
from threadwire.engine.worker_pool import WorkerPool
from threadwire.http.streaming import OpenStreams
from threadwire.server.health import SYSTEM
from threadwire.server.waiting_connections import Phase, WaitingConnections

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ENDINGS = ("success", "error", "interrupted", "timeout")

Samples = Iterable[tuple[Mapping[str, str], float]]


def metrics_route(engine: Engine, streams: OpenStreams, connections: WaitingConnections | None) -> APIRouter:
    router = APIRouter(tags=[SYSTEM.name])

    @router.get("/metrics")
    async def metrics() -> Response:
        active = await engine.runs.count_active()
        log = engine.runs.counters()
        ended = engine.worker.ended
        versions = {"version": version("threadwire"), "langgraph": version("langgraph")}
        families = [
            family("threadwire_info", "gauge", "The versions of Threadwire and LangGraph.", [(versions, 1)]),
            family(
                "threadwire_runs",
                "gauge",
                "Runs that have not ended: pending, including delayed ones, and running.",
                [({"status": status}, count) for status, count in active.items()],
            ),
            family(
                "threadwire_runs_ended_total",
                "counter",
                "Runs that have ended since the process started.",
                [({"status": status}, ended[status]) for status in ENDINGS],
            ),
            family(
                "threadwire_runs_executing", "gauge", "Runs that this process executes.", [({}, engine.worker.active)]
            ),
            family(
                "threadwire_run_slots",
                "gauge",
                "How many runs may execute at the same time.",
                [({}, engine.worker.capacity)],
            ),
            histogram(
                "threadwire_run_wait_seconds",
                "How long runs waited for their first attempt after they were due.",
                engine.worker.waited,
            ),
            family(
                "threadwire_leases_lost_total",
                "counter",
                "Attempts that were recovered from workers that had died or did not respond.",
                [({}, engine.leases.lost)],
            ),
            *(_worker_families(engine.worker) if isinstance(engine.worker, WorkerPool) else ()),
            family("threadwire_streams", "gauge", "Open streams and `wait` requests.", [({}, len(streams))]),
            *(() if connections is None else _connection_families(connections)),
            family(
                "threadwire_storage_writable",
                "gauge",
                "Whether the storage can write: 0 while its disk is full or the database is unreachable.",
                [({}, int(engine.storage.write_error is None))],
            ),
            family("threadwire_log_entries_total", "counter", "Entries written to the log.", [({}, log.entries)]),
            family("threadwire_log_commits_total", "counter", "Commits of log entries.", [({}, log.commits)]),
            *_cluster_families(log),
        ]
        return Response("".join(families), headers={"content-type": CONTENT_TYPE})

    return router


def _worker_families(pool: WorkerPool) -> list[str]:
    ready = [each for each in pool.connections if each.ready]
    return [
        family(
            "threadwire_workers",
            "gauge",
            "Worker processes: ready, starting, and ready but not responding.",
            [
                ({"state": "ready"}, sum(each.is_responsive for each in ready)),
                ({"state": "starting"}, len(pool.connections) - len(ready)),
                ({"state": "unresponsive"}, sum(not each.is_responsive for each in ready)),
            ],
        ),
        family("threadwire_workers_died_total", "counter", "Worker processes that died.", [({}, pool.deaths)]),
        family("threadwire_leases", "gauge", "Runs that worker processes have claimed.", [({}, pool.active)]),
    ]


def _connection_families(connections: WaitingConnections) -> list[str]:
    return [
        family("threadwire_connections", "gauge", "Open connections.", [({}, len(connections.connections))]),
        family(
            "threadwire_connections_limit",
            "gauge",
            "How many connections may be open.",
            [({}, connections.limits.max_connections)],
        ),
        family(
            "threadwire_connections_rejected_total",
            "counter",
            "Connections, and requests on them, that were rejected because too many were open.",
            [({}, connections.rejected)],
        ),
        family(
            "threadwire_connections_closed_total",
            "counter",
            "Connections that were closed while the server waited for the client.",
            [({"waiting_for": phase.value}, connections.closed[phase]) for phase in Phase],
        ),
    ]


def _cluster_families(log: LogCounters) -> list[str]:
    """Metrics that only a driver for several processes has."""
    found = []
    if log.append_seconds is not None:
        text = "The time from appending an entry until it was published."
        found.append(histogram("threadwire_append_seconds", text, log.append_seconds))
    if log.flush_seconds is not None:
        found.append(histogram("threadwire_flush_seconds", "How long commits of entries took.", log.flush_seconds))
    if log.hints_missed is not None:
        text = "Hints that could not be sent to other processes."
        found.append(family("threadwire_hints_missed_total", "counter", text, [({}, log.hints_missed)]))
    return found


def histogram(name: str, description: str, measured: Histogram) -> str:
    buckets = [({"le": f"{bound:g}"}, counted) for bound, counted in measured.cumulative()]
    count = measured.count  # last, so that it is not less than what the buckets count
    lines = [f"# HELP {name} {description}", f"# TYPE {name} histogram"]
    lines += [f"{name}_bucket{_labels(labels)} {counted}" for labels, counted in [*buckets, ({"le": "+Inf"}, count)]]
    return "\n".join([*lines, f"{name}_sum {measured.total}", f"{name}_count {count}"]) + "\n"


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
