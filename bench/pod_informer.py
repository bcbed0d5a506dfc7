"""Wait for a leader as the init container of the Go implementation does: by an informer of all pods of the gang.

`python -m bench.pod_informer NAMESPACE LEADER SELECTOR`. It has the reflector and the transport of `grove wait`, and
imports no more, so that both can be compared.
"""

import asyncio
import os
import sys
from random import Random

from grove.api.resources import PODS
from grove.api.types.pod import Pod
from grove.clock import LoopClock
from grove.kube.client import Client
from grove.kube.kubeconfig import find_access
from grove.kube.light_transport import LightTransport
from grove.kube.reflector import Reflector
from grove.kube.store import Store


async def wait(namespace: str, leader: str, selector: str) -> None:
    clock = LoopClock.starting_now()
    access = find_access(os.environ)
    assert access is not None
    pods: Store[Pod] = Store()
    changed = asyncio.Event()
    pods.subscribe(lambda *_: changed.set())
    async with LightTransport(access, clock, stays_light=True) as transport:
        client = Client(transport, clock)
        reflector = Reflector(client, PODS, pods, clock, Random(1), namespace=namespace, label_selector=selector)
        running = asyncio.create_task(reflector.run())
        await reflector.listed.wait()
        sys.stdout.write(f"waiting for {leader}\n")
        sys.stdout.flush()
        while not (found := pods.by_name(namespace, leader)) or not found.is_ready:
            changed.clear()
            await changed.wait()
        running.cancel()


if __name__ == "__main__":
    asyncio.run(wait(*sys.argv[1:]))
