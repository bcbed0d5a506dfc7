"""`grove manifests`: an installation of the operator, as objects to apply."""

import base64
from pathlib import Path
from typing import Annotated

import typer

from grove.cli.options import UsageError
from grove.cli.output import say_error
from grove.cli.printing import Notation, NotationOption, print_objects
from grove.errors import UserError

Home = Annotated[str, typer.Option("--namespace", "-n", help="Where the operator lives.", metavar="NAME")]
Image = Annotated[
    str, typer.Option("--image", help="Default: grove-operator, tagged with our version.", metavar="IMAGE")
]
Replicas = Annotated[int, typer.Option("--replicas", help="How many operators; one of them leads.", min=1, metavar="N")]
Config = Annotated[Path | None, typer.Option("--config", help="The OperatorConfiguration to install.", metavar="FILE")]
CaBundle = Annotated[
    Path | None,
    typer.Option("--ca-bundle", help="PEM; only with certProvisionMode: manual.", metavar="FILE"),
]
PriorityClass = Annotated[
    str, typer.Option("--priority-class", help="Of the operator's pods; empty: none.", metavar="NAME")
]

PEM = "-----BEGIN CERTIFICATE-----"


def manifests(
    namespace: Home = "grove-system",
    image: Image = "",
    replicas: Replicas = 2,
    config: Config = None,
    ca_bundle: CaBundle = None,
    priority_class: PriorityClass = "system-cluster-critical",
    output: NotationOption = Notation.YAML,
) -> None:
    """Print all that an installation needs: `grove manifests | kubectl apply --server-side -f -`."""
    from importlib.metadata import version

    from grove.api.operatorconfiguration import ConfigurationError
    from grove.api.validation.syntax import dns_label_complaint
    from grove.installation.objects import installation_objects
    from grove.installation.settings import DEFAULT_CONFIGURATION, plan_installation

    if dns_label_complaint(namespace):
        raise UsageError(f"--namespace {namespace}: not a name of a namespace; write for example grove-system")
    bundle = _read(ca_bundle) if ca_bundle else ""
    try:
        installation, warnings = plan_installation(
            namespace=namespace,
            image=image or f"grove-operator:{version('grove')}",
            replicas=replicas,
            priority_class=priority_class,
            ca_bundle=base64.b64encode(bundle.encode()).decode(),
            configuration_text=_read(config) if config else DEFAULT_CONFIGURATION,
        )
    except ConfigurationError as error:
        raise UsageError(f"{config}: {error}") from error
    if ca_bundle and PEM not in bundle:
        raise UserError(f"{ca_bundle}: holds no certificate in PEM; give that of the authority, or leave it out")
    for warning in warnings:
        say_error(f"grove: warning: {config}: {warning}")
    print_objects(
        installation_objects(installation),
        output,
        f"Grove {version('grove')}. Apply with: kubectl apply --server-side -f FILE",
        "What each object is for, upgrades and removal: docs/install.md",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not text") from error
