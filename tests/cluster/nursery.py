"""`python -m tests.cluster.nursery`: starts API servers that are kept in a folder, as processes that can be killed.

For every line on standard input, a folder, a process is forked that serves it; its answer is a line with its process id
and port. Programs are loaded once, so that a life costs milliseconds.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random

from grove.clock import LoopClock
from grove.cluster.apiserver.api_server import ApiServer
from grove.cluster.http.https_server import HttpApi
from grove.cluster.http.loopback_certificates import Certificates
from grove.cluster.storage.data_dir import DataDir, open_data_dir
from grove.cluster.storage.group_commit import GroupCommit


def main() -> None:
    # The dead are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    token, certificates = sys.argv[1], _read(Path(sys.argv[2]))
    for line in sys.stdin:
        if os.fork() == 0:
            with open_data_dir(Path(line.strip())) as data_dir:
                asyncio.run(_serve(data_dir, token, certificates))
            os._exit(0)


async def _serve(data_dir: DataDir, token: str, certificates: Certificates) -> None:
    GroupCommit(data_dir.store, data_dir.log)
    server = ApiServer(LoopClock.starting_now(), Random(os.urandom(16)), store=data_dir.store)
    api = HttpApi(server, token=token, certificates=certificates)
    await api.start()
    sys.stdout.write(f"{os.getpid()} {api.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _read(folder: Path) -> Certificates:
    parts = {name: (folder / name).read_bytes() for name in ("ca", "certificate", "key")}
    return Certificates(**parts)


if __name__ == "__main__":
    main()
