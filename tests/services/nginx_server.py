"""nginx with the configuration of `deploy/`, in front of processes on this machine.

with running_nginx({"api-1:2024": "127.0.0.1:5001", "api-2:2024": "127.0.0.1:5002"}) as server:
    server.url
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from services.service_process import ServiceProcess

CONFIG = Path(__file__).parents[2] / "deploy" / "nginx.conf"


class NginxServer:
    def __init__(self, upstreams: Mapping[str, str]) -> None:
        self._process = ServiceProcess("nginx", ready="start worker process", account="www-data")
        self.config = self._process.folder / "nginx.conf"
        self.config.write_text(self._adapted(CONFIG.read_text(), upstreams))
        self.config.chmod(0o644)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._process.port}"

    def _adapted(self, config: str, upstreams: Mapping[str, str]) -> str:
        """Replace the addresses, and keep all files in the temporary folder."""
        for name, address in upstreams.items():
            assert name in config, f"deploy/nginx.conf does not mention {name}"
            config = config.replace(name, address)
        config = re.sub(r"listen 80;", f"listen 127.0.0.1:{self._process.port};", config)
        config = config.replace("worker_processes auto;", "worker_processes 1;")
        folder = self._process.folder
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        top = f"pid {folder}/nginx.pid;\ndaemon off;\nerror_log stderr notice;\n"
        return top + config.replace("http {\n", f"http {{\n{places}", 1)

    def start(self) -> None:
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        assert program is not None, "nginx is not installed: run `make setup`"
        self._process.start([program, "-e", "stderr", "-p", str(self._process.folder), "-c", str(self.config)])

    def remove(self) -> None:
        self._process.remove()


@contextmanager
def running_nginx(upstreams: Mapping[str, str]) -> Iterator[NginxServer]:
    server = NginxServer(upstreams)
    try:
        server.start()
        yield server
    finally:
        server.remove()
