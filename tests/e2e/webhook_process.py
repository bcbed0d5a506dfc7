"""The webhooks of the operator alone, as a process. Arguments: KUBECONFIG URL NAMESPACE USER.

Says "ready" once it is. Ends well on SIGTERM; a test may also kill it.
"""

import asyncio
import signal
import sys
from datetime import timedelta
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import structlog

from grove.admission.authorizer import AuthorizerOptions
from grove.admission.webhook_app import WebhookApp, WebhookOptions
from grove.admission.webhook_certificates import Lifetimes
from grove.clock import LoopClock
from grove.kube.client import Client
from grove.kube.http_transport import HttpTransport
from grove.kube.kubeconfig import find_access

# Longer than an API server takes to hear of a change, also on a busy machine.
SETTLING = timedelta(seconds=5)


def options_for(url: str, namespace: str, operator_user: str) -> WebhookOptions:
    """With an authorizer if there is an operator to be told from others."""
    return WebhookOptions(
        host="127.0.0.1",
        port=urlsplit(url).port or 0,
        namespace=namespace,
        secret_name="grove-webhook-server-cert",
        url=url,
        authorizer=AuthorizerOptions(operator_user=operator_user) if operator_user else None,
        lifetimes=Lifetimes(settling=SETTLING),
    )


async def serve(kubeconfig: Path, options: WebhookOptions) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    clock = LoopClock.starting_now()
    async with HttpTransport(find_access({}, kubeconfig=kubeconfig), clock) as transport:
        webhooks = WebhookApp(Client(transport, clock), clock, Random(1), options)
        task = asyncio.create_task(webhooks.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        while not webhooks.is_ready and not task.done():
            await clock.sleep(0.01)
        print("ready", flush=True)
        await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), options_for(sys.argv[2], sys.argv[3], sys.argv[4])))
