"""Runs the graphs without a server: reads commands as JSON lines from stdin, and prints how long each took."""

import asyncio
import json
import sys
import time
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import uvloop
from langgraph.checkpoint.memory import InMemorySaver

from bench import graphs
from bench.clients import STAMP


def _config(**more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": str(uuid4())}, **more}


def _with_saver(graph: Any) -> Any:
    return graph.copy(update={"checkpointer": InMemorySaver()})


async def _stream_tokens(graph: Any, inputs: dict[str, Any]) -> int:
    count = 0
    async for _ in graph.astream(inputs, _config(), stream_mode="messages"):
        count += 1
    return count


async def tokens(inputs: dict[str, Any], streams: int, at_once: bool) -> dict[str, Any]:
    graph = _with_saver(graphs.tokens)
    cpu, start = time.process_time(), time.perf_counter()
    if at_once:
        counts = await asyncio.gather(*(_stream_tokens(graph, inputs) for _ in range(streams)))
    else:
        counts = [await _stream_tokens(graph, inputs) for _ in range(streams)]
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "tokens": sum(counts)}


async def trivial(times: int) -> dict[str, Any]:
    graph = _with_saver(graphs.trivial)
    each = []
    for _ in range(times):
        start = time.perf_counter()
        async for _ in graph.astream({"text": "hi"}, _config(), stream_mode="values"):
            pass
        each.append(time.perf_counter() - start)
    return {"each": each}


async def steps(goal: int) -> dict[str, Any]:
    graph = _with_saver(graphs.steps)
    start = time.perf_counter()
    config = _config(recursion_limit=goal + 10)
    async for _ in graph.astream({"done": 0, "goal": goal}, config, stream_mode="updates"):
        pass
    return {"seconds": time.perf_counter() - start}


async def latency(inputs: dict[str, Any], streams: int) -> dict[str, Any]:
    """Measure the seconds from creating a token to receiving it from the stream."""
    graph = _with_saver(graphs.tokens)
    found: list[float] = []

    async def watch() -> None:
        async for chunk, _ in graph.astream(inputs, _config(), stream_mode="messages"):
            if stamp := STAMP.search(chunk.content.encode()):
                found.append((time.time_ns() - int(stamp[1])) / 1e9)

    await asyncio.gather(*(watch() for _ in range(streams)))
    return {"each": found}


async def ag_ui(count: int) -> dict[str, Any]:
    """Encode the same tokens in process with `ag-ui-langgraph`; `bytes` is None if it is not installed."""
    if find_spec("ag_ui_langgraph") is None:
        return {"bytes": None}
    from ag_ui.core import RunAgentInput
    from ag_ui.encoder import EventEncoder
    from ag_ui_langgraph import LangGraphAgent

    agent = LangGraphAgent(name="tokens", graph=_with_saver(graphs.tokens))
    messages = [{"id": "u", "role": "user", "content": "hi"}]
    empty: dict[str, Any] = {"tools": [], "context": [], "forwardedProps": {}}
    inputs = RunAgentInput(threadId=str(uuid4()), runId="r", messages=messages, state={"count": count}, **empty)
    encoder, size, start = EventEncoder(), 0, time.perf_counter()
    async for event in agent.run(inputs):
        size += len(encoder.encode(event))
    return {"bytes": size, "seconds": time.perf_counter() - start}


_WORK = {"ag_ui": ag_ui, "tokens": tokens, "trivial": trivial, "steps": steps, "latency": latency}


async def main() -> None:
    # Warm up imports, caches and compiled validators: they are not measured.
    await tokens({"messages": "hi", "count": 200}, 1, False)
    await trivial(20)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        print(json.dumps(await _WORK[command.pop("do")](**command)), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
