"""The embedded API without a past, until its input ends: `python -m tests.clients.forgetful KUBECONFIG`."""

import asyncio
import sys
from pathlib import Path

from grove.cluster.http.kubeconfig_writer import write_kubeconfig
from tests.conformance.embedded import Embedded


async def serve(kubeconfig: Path) -> None:
    server = Embedded()
    access = await server.start()
    server.forget()
    assert access.certificate_authority is not None
    write_kubeconfig(kubeconfig, url=access.server, ca=access.certificate_authority, token=access.token)
    print("serving", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
