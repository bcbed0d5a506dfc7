"""`grove webhook-certs`: print a certificate for an installation with `certProvisionMode: manual`."""

import asyncio
import base64
from datetime import datetime

import click

from grove.cli.commands.installation.manifests import operator_namespace_option
from grove.cli.common.object_printer import ObjectFormat, object_output_option, print_objects
from grove.cli.common.options import UsageError


@click.command()
@operator_namespace_option
@click.option(
    "--secret",
    default="grove-webhook-server-cert",
    show_default=True,
    help="The name of the Secret: server.webhooks.secretName of the configuration.",
    metavar="NAME",
)
@object_output_option
def webhook_certs(namespace: str, secret: str, output: ObjectFormat) -> None:
    """Print a Secret with a webhook certificate and its CA.

    Both are valid for a year. The private key of the CA is discarded.
    """
    from grove.admission.webhook_app import WebhookOptions, certificate_names
    from grove.admission.webhook_certificates import (
        AUTHORITY_KEY,
        KeyMaterial,
        Lifetimes,
        RotationStep,
        data_of,
        rotate,
    )
    from grove.api.validation.syntax import check_dns_label, check_dns_subdomain
    from grove.installation.labels import object_metadata

    if check_dns_label(namespace):
        raise UsageError(f"--namespace {namespace}: is not a valid namespace; write for example grove-system")
    if check_dns_subdomain(secret):
        raise UsageError(
            f"--secret {secret}: is not a valid name of a Secret; write for example grove-webhook-server-cert"
        )
    names = certificate_names(WebhookOptions(host="", port=0, namespace=namespace, secret_name=secret))
    nothing = KeyMaterial(certificate=b"", key=b"", authorities=b"")
    material = rotate(nothing, RotationStep.AUTHORITY, names, asyncio.run(_now()), Lifetimes())
    # The private key of the CA is discarded, so that no other certificate can be signed with it.
    data = {key: value for key, value in data_of(material).items() if key != AUTHORITY_KEY}
    print_objects(
        [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": object_metadata(secret, namespace),
                "type": "kubernetes.io/tls",
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
            }
        ],
        output,
        "This file contains the private key of the webhooks: keep it secret.",
        "Give ca.crt to `grove manifests --ca-bundle`.",
    )


async def _now() -> datetime:
    from grove.clock import LoopClock

    return LoopClock.starting_now().now()
