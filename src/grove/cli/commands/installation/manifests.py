"""`grove manifests`: print the objects of an installation."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grove import __version__
from grove.cli.commands.installation.manifest_options import (
    optional_objects_options,
    parse_namespaces,
    parse_resources,
    write_kustomization,
)
from grove.cli.common.object_printer import ObjectFormat, object_output_option, object_yaml, print_objects
from grove.cli.common.options import FILE, UsageError
from grove.cli.common.output import print_error, print_line
from grove.errors import UserError

if TYPE_CHECKING:
    from grove.api.types.meta import JsonObject
    from grove.installation.install_options import OptionalObjects

PEM = "-----BEGIN CERTIFICATE-----"

operator_namespace_option = click.option(
    "--namespace",
    "-n",
    default="grove-system",
    show_default=True,
    help="The namespace of the operator.",
    metavar="NAME",
)


@click.command()
@operator_namespace_option
@click.option(
    "--image",
    default="",
    help="The image of the operator. Default: grove-operator, tagged with the version of grove.",
    metavar="IMAGE",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of operator pods. One of them is the leader.",
    metavar="N",
)
@click.option(
    "--config",
    type=FILE,
    help="The OperatorConfiguration to install. Default: leader election, ports 9443 to 9445.",
    metavar="FILE",
)
@click.option(
    "--ca-bundle",
    type=FILE,
    help="CA of the webhook certificates, in PEM; only with certProvisionMode: manual.",
    metavar="FILE",
)
@click.option(
    "--priority-class",
    default="system-cluster-critical",
    show_default=True,
    help="The priority class of the operator's pods. Empty: none.",
    metavar="NAME",
)
@click.option("--requests", default="", help="CPU and memory that the pods request.", metavar="K=V,...")
@click.option("--limits", default="", help="CPU and memory limits of the pods.", metavar="K=V,...")
@click.option(
    "--watch-namespaces",
    default="",
    help="Manage sets in these namespaces only, with Roles in them. Default: all.",
    metavar="NAME,...",
)
@optional_objects_options
@click.option("--kustomize", type=FILE, help="Write the manifests and a kustomization.yaml into DIR.", metavar="DIR")
@object_output_option
def manifests(
    namespace: str,
    image: str,
    replicas: int,
    config: Path | None,
    ca_bundle: Path | None,
    priority_class: str,
    requests: str,
    limits: str,
    watch_namespaces: str,
    optional: "OptionalObjects",
    kustomize: Path | None,
    output: ObjectFormat,
) -> None:
    """Print the manifests of an installation.

    Install with: grove manifests | kubectl apply --server-side -f -
    """
    from grove.api.types.operatorconfiguration import ConfigurationError
    from grove.api.validation.syntax import check_dns_label
    from grove.installation.install_options import DEFAULT_CONFIGURATION, plan_installation
    from grove.installation.manifests import installation_objects

    if check_dns_label(namespace):
        raise UsageError(f"--namespace {namespace}: is not a valid namespace; write for example grove-system")
    bundle = _read(ca_bundle) if ca_bundle else ""
    try:
        installation, warnings = plan_installation(
            namespace=namespace,
            image=image or f"grove-operator:{__version__}",
            replicas=replicas,
            priority_class=priority_class,
            ca_bundle=base64.b64encode(bundle.encode()).decode(),
            configuration_text=_read(config) if config else DEFAULT_CONFIGURATION,
            watch_namespaces=parse_namespaces(watch_namespaces),
            resources=parse_resources(requests, limits),
            optional=optional,
        )
    except ConfigurationError as error:
        raise UsageError(f"{config}: {error}") from error
    if ca_bundle and PEM not in bundle:
        raise UserError(f"{ca_bundle}: has no PEM certificate; give the certificate of the CA, or omit --ca-bundle")
    for warning in warnings:
        print_error(f"grove: warning: {config}: {warning}")
    if kustomize is not None:
        _write_files(kustomize, installation_objects(installation))
        return
    print_objects(
        installation_objects(installation),
        output,
        f"Grove {__version__}. Apply with: kubectl apply --server-side -f FILE",
        "What each object is for, upgrades and removal: docs/how-to/install.md",
    )


def _write_files(folder: Path, objects: "Sequence[JsonObject]") -> None:
    """Write the objects into one file for each kind, in the order in which they are applied."""
    files: dict[str, str] = {}
    for one in objects:
        name = f"{one['kind'].lower()}.yaml"
        files[name] = (f"{files[name]}---\n" if name in files else "") + object_yaml(one)
    try:
        write_kustomization(folder, files)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another --kustomize") from error
    print_line(f"{len(objects)} objects in {folder}. Apply them with: kubectl apply --server-side -k {folder}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not a text file; check the path") from error
