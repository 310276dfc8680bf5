"""`threadwire watch` in its own process, with its output in a pipe."""

import codecs
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import anyio
import pytest
from clients import TIMEOUT, fresh_id, human, open_async, wait_for_start

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio


class Watch:
    """The output of a `threadwire watch` process."""

    def __init__(self, process):
        self.process = process
        self.text = ""
        self._grew = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        decoder = codecs.getincrementaldecoder("utf-8")()
        while piece := os.read(self.process.stdout.fileno(), 4096):
            with self._grew:
                self.text += decoder.decode(piece)
                self._grew.notify_all()

    def until(self, pattern):
        deadline = time.monotonic() + TIMEOUT
        with self._grew:
            while not re.search(pattern, self.text):
                assert self._grew.wait(max(0, deadline - time.monotonic())), f"no {pattern!r} in:\n{self.text}"

    async def wait_for(self, pattern):
        await anyio.to_thread.run_sync(self.until, pattern)


@contextmanager
def watching(thread_id, url, *options, before=None, **env):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THREADWIRE_")}
    with subprocess.Popen(
        [sys.executable, "-m", "threadwire", "watch", thread_id, *([] if url is None else ["--url", url]), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "PYTHONUNBUFFERED": "1", **env},
        preexec_fn=before,
    ) as process:
        watch = Watch(process)
        try:
            yield watch
        finally:
            process.kill()
            watch.reader.join(TIMEOUT)


def interrupt(watch):
    """Send Ctrl-C, and return the exit code and stderr."""
    watch.process.send_signal(signal.SIGINT)
    ended = watch.process.wait(TIMEOUT)
    watch.reader.join(TIMEOUT)
    return ended, watch.process.stderr.read()


def error_of(thread_id, url):
    ended = subprocess.run(
        [sys.executable, "-m", "threadwire", "watch", thread_id, "--url", url],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    return ended.stderr


async def test_several_runs_are_shown_as_they_happen_and_ctrl_c_ends_it(server):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        with watching(thread_id, server.url) as watch:
            await watch.wait_for(rf"^thread {thread_id} · idle\n")
            await sdk.runs.wait(thread_id, "tools", input=human("add, please"))
            await sdk.runs.wait(thread_id, "nested", input={})
            await sdk.runs.wait(thread_id, "fails", input={}, raise_error=False)
            await sdk.runs.wait(thread_id, "approve", input={})
            await watch.wait_for("waiting for an answer\n")
            assert await anyio.to_thread.run_sync(interrupt, watch) == (0, b"")
    blocks = re.split(r"^run \S+ · ", watch.text, flags=re.MULTILINE)
    assert [block.partition("\n")[0] for block in blocks[1:]] == ["tools", "nested", "fails", "approve"]
    assert blocks[1] == (
        "tools\n"
        "  model: Let me add that.\n"
        '  → add {"a": 20, "b": 22}\n'
        "  ✓ model (messages)\n"
        "  ← add 42\n"
        "  ✓ tools (messages)\n"
        "  model: The sum is 42.\n"
        "  ✓ model (messages)\n"
        "── success\n"
    )
    assert '  ✎ {"at":"before"}\n' in blocks[2]
    assert "  ✗ ValueError: boom!\n── error\n" in blocks[3]
    assert '  ? {"question":"ok?"' in blocks[4]
    assert "\x1b" not in watch.text, "colours are for terminals"


@pytest.mark.parametrize("situation", ["during a run", "idle", "server down"])
async def test_one_ctrl_c_ends_it_at_any_time(project, tmp_path, gate, situation):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        async with open_async(server.url) as sdk:
            thread_id = await sdk.thread()
            if situation != "idle":
                await wait_for_start(sdk, await sdk.runs.create(thread_id, "slow", input={"until": str(gate)}))
        with watching(thread_id, server.url) as watch:
            await watch.wait_for("idle\n" if situation == "idle" else r"✓ begin \(steps\)\n")
            if situation == "server down":
                await anyio.to_thread.run_sync(server.kill)
                await watch.wait_for("connection lost")
            assert await anyio.to_thread.run_sync(interrupt, watch) == (0, b"")
    assert watch.text.endswith("\n")


async def test_ctrl_c_ends_it_even_if_the_shell_ignores_the_signal(server):
    """Shells without job control ignore it for background processes."""
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
    with watching(thread_id, server.url, before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as watch:
        await watch.wait_for("idle\n")
        assert await anyio.to_thread.run_sync(interrupt, watch) == (0, b"")


async def test_tokens_of_a_running_run_are_shown_one_by_one(server):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        words = " ".join(f"w{number}" for number in range(40))
        await sdk.runs.create(thread_id, "chat", input={**human(words), "delay": 0.05})
        with watching(thread_id, server.url) as watch:
            await watch.wait_for("w2 ")
            early = watch.text
            await watch.wait_for("── success\n")
        assert "w39" not in early
        assert f"model: You said: {words}\n" in watch.text


async def test_it_starts_with_the_last_run_and_catches_up_after_the_server_was_down(project, tmp_path, gate):
    with running_server(project, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        async with open_async(server.url) as sdk:
            thread_id = await sdk.thread()
            for text in ("first", "second"):
                await sdk.runs.wait(thread_id, "chat", input=human(text, text))
            run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
            await wait_for_start(sdk, run)
            with watching(thread_id, server.url) as watch:
                await watch.wait_for(r"✓ begin \(steps\)\n")
                for attempt, stop in {2: server.terminate, 3: server.kill}.items():
                    await anyio.to_thread.run_sync(stop)
                    await anyio.to_thread.run_sync(server.start)
                    await watch.wait_for(f"attempt {attempt}, resuming from the last checkpoint\n")
                gate.touch()
                await watch.wait_for("── success\n")
                async with open_async(server.url) as again:
                    await again.runs.wait(thread_id, "chat", input=human("third", "third"))
                await watch.wait_for("You said: third\n")
    assert "connection lost" in watch.text
    assert "first" not in watch.text
    assert "second" not in watch.text
    assert watch.text.count("✓ begin") == watch.text.count("✓ wait") == 1


async def test_a_rolled_back_run_is_shown(server, gate):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        await wait_for_start(sdk, run)
        with watching(thread_id, server.url) as watch:
            await watch.wait_for("✓ begin")
            await sdk.runs.cancel(thread_id, run["run_id"], action="rollback", wait=True)
            await watch.wait_for("── rolled back or deleted\n")


async def test_a_delayed_run_does_not_delay_the_others(server):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        await sdk.runs.create(thread_id, "echo", input={}, after_seconds=3600)
        with watching(thread_id, server.url) as watch:
            await watch.wait_for("busy")
            await sdk.runs.create(thread_id, "chat", input=human("now"), multitask_strategy="interrupt")
            await watch.wait_for("You said: now\n")


async def test_a_closed_pipe_ends_it_quietly(server):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
        await sdk.runs.wait(thread_id, "echo", input={"text": "on"})
    command = f"{sys.executable} -m threadwire watch {thread_id} --url {server.url} | head -n 1"
    ended = await anyio.run_process(command)
    assert (ended.stdout.decode(), ended.stderr) == (f"thread {thread_id} · idle\n", b"")


async def test_the_address_and_the_key_can_come_from_the_environment(server):
    async with open_async(server.url) as sdk:
        thread_id = await sdk.thread()
    with watching(thread_id, None, THREADWIRE_URL=server.url, THREADWIRE_API_KEY="k") as watch:
        await watch.wait_for("idle\n")


def test_an_unknown_thread_or_server_is_reported_in_one_line_with_exit_code_1(server):
    missing = fresh_id()
    assert error_of(missing, server.url) == f"threadwire: Thread with ID {missing} not found\n"
    assert error_of("nonsense", server.url) == "threadwire: Invalid thread ID: must be a UUID\n"
    assert error_of(missing, "http://127.0.0.1:1").startswith("threadwire: Cannot reach http://127.0.0.1:1: ")
    assert error_of(missing, "no url").startswith("threadwire: Cannot reach no%20url")
