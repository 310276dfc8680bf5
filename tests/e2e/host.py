"""A host application that mounts Threadwire, with the command line of `threadwire serve`: for `running_server`."""

import argparse
import os
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from threadwire import create_app

PREFIX = "/agents"


def host(agents):
    """The application of the how-to guide: its own lifespan around Threadwire's."""

    @asynccontextmanager
    async def lifespan(app):
        app.state.greeting = "hello"
        async with agents.lifespan(app):
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount(PREFIX, agents)

    @app.get("/ok")
    async def ok():
        return app.state.greeting

    return app


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    agents = create_app(arguments.config, data=arguments.data)
    app = agents if os.environ.get("HOST_ALONE") else host(agents)
    with socket.create_server(("127.0.0.1", arguments.port)) as listener:
        print(f"Threadwire is listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)  # noqa: T201
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
