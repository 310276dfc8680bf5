"""The health checks `/ok` and `/ready`, and `/info`."""

from importlib.metadata import version

from fastapi import APIRouter

from threadwire.engine.lifecycle import Engine
from threadwire.http.problems import JsonResponse, error_responses, problem
from threadwire.http.protocol import Tag

SYSTEM = Tag("system", "Health, version and metrics of the server.")


def system_routes(engine: Engine) -> APIRouter:
    router = APIRouter(default_response_class=JsonResponse, tags=[SYSTEM.name])

    @router.get("/", responses=error_responses(503))
    @router.get("/ok", responses=error_responses(503))
    async def ok() -> JsonResponse:
        if (fatal_error := engine.fatal_error) is not None:
            return problem(503, fatal_error.message)
        return JsonResponse({"ok": True, "services": {}})

    @router.get("/ready", responses=error_responses(503))
    async def ready() -> JsonResponse:
        """Whether the process can do its work now. In contrast to `/ok`, this may change without a restart. It is
        degraded while hints of other processes do not arrive: everything works, but followers are slower."""
        if (error := engine.fatal_error or engine.storage.write_error) is not None:
            return problem(503, error.message)
        if not engine.worker.is_ready:
            return problem(503, "No worker can start runs now.")
        degraded = engine.runs.counters().hints_connected is False
        return JsonResponse(
            {"ready": True, "degraded": degraded, "slots": engine.worker.capacity, "runs": engine.worker.active}
        )

    @router.get("/info")
    async def info() -> JsonResponse:
        return JsonResponse(
            {
                "version": version("threadwire"),
                "langgraph_py_version": version("langgraph"),
                "flags": {
                    "assistants": True,
                    "crons": True,
                    "langsmith": False,
                    "langsmith_tracing_replicas": False,
                    "langsmith_tracing_session_on_runs": False,
                    "strict_resume": True,
                },
                "host": {
                    "kind": "self-hosted",
                    "project_id": None,
                    "host_revision_id": None,
                    "revision_id": None,
                    "tenant_id": None,
                },
            }
        )

    return router
