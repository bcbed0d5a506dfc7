"""Options of `grove manifests` that choose what is installed besides the operator itself."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from grove.cli.common.options import UsageError

if TYPE_CHECKING:
    from grove.installation.install_options import OptionalObjects

R = TypeVar("R")

_OPTIONS = (
    click.option("--user-roles/--no-user-roles", default=True, help="Roles that extend view, edit and admin."),
    click.option("--network-policy", is_flag=True, help="Add a NetworkPolicy for the operator's pods."),
    click.option("--service-monitor", is_flag=True, help="Add a ServiceMonitor of the Prometheus operator."),
    click.option("--prometheus-rule", is_flag=True, help="Add a PrometheusRule with alerts."),
    click.option("--grafana-dashboard", is_flag=True, help="Add a ConfigMap with a Grafana dashboard."),
    click.option(
        "--cert-manager-issuer",
        default="",
        help="Let cert-manager create the webhook certificate; only with certProvisionMode: manual. "
        "Write ClusterIssuer/NAME or Issuer/NAME.",
        metavar="ISSUER",
    ),
)


def optional_objects_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options to a command, which gets them as one argument `optional`."""

    @wraps(command)
    def with_optional(**values: Any) -> R:
        names = ("user_roles", "network_policy", "service_monitor", "prometheus_rule", "grafana_dashboard")
        flags = {f"has_{name}": values.pop(name) for name in names}
        return command(optional=_build(flags, values.pop("cert_manager_issuer")), **values)

    decorated: Callable[..., R] = with_optional
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _build(flags: dict[str, bool], issuer: str) -> "OptionalObjects":
    from grove.installation.install_options import Issuer, OptionalObjects

    optional = msgspec.convert(flags, OptionalObjects)
    if not issuer:
        return optional
    kind, _, name = issuer.partition("/")
    if kind not in ("ClusterIssuer", "Issuer") or not name:
        raise UsageError(f"--cert-manager-issuer {issuer}: write ClusterIssuer/NAME or Issuer/NAME")
    return msgspec.structs.replace(optional, issuer=Issuer(kind=kind, name=name))


def parse_namespaces(text: str) -> tuple[str, ...]:
    """Return the namespaces of `--watch-namespaces`, without repeats. Raises `UsageError`."""
    from grove.api.validation.syntax import check_dns_label

    names = tuple(dict.fromkeys(name.strip() for name in text.split(","))) if text else ()
    for name in names:
        if check_dns_label(name):
            raise UsageError(f"--watch-namespaces {text}: {name!r} is not a valid namespace; write for example a,b")
    return names


def parse_resources(requests: str, limits: str) -> dict[str, dict[str, str]]:
    """Return the resources of the container. What is not named has its default. Raises `UsageError`."""
    from grove.installation.install_options import DEFAULT_RESOURCES

    parts = {"requests": _parse_amounts("--requests", requests), "limits": _parse_amounts("--limits", limits)}
    return {name: {**DEFAULT_RESOURCES[name], **amounts} for name, amounts in parts.items()}


def _parse_amounts(option: str, text: str) -> dict[str, str]:
    from grove.api.values.quantities import QuantityError, parse_milli

    found: dict[str, str] = {}
    for item in text.split(",") if text else ():
        name, _, amount = item.partition("=")
        try:
            parse_milli(amount)
        except QuantityError as error:
            raise UsageError(f"{option} {text}: write for example cpu=500m,memory=1Gi") from error
        found[name] = amount
    return found


def write_kustomization(folder: Path, files: dict[str, str]) -> None:
    """Write the files and a kustomization.yaml that lists them. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    listed = "".join(f"  - {name}\n" for name in files)
    head = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
    (folder / "kustomization.yaml").write_text(head + listed)
