"""Request the service account tokens that projected volumes of a pod contain."""

from collections.abc import Iterator, Mapping

from grove.cluster.kubelet.process.pod_spec import LocalPod, NotRunnable, RunnablePodSpec, TokenProjection, Volume
from grove.kube.api_errors import ApiError
from grove.kube.client import Client

# A token is renewed when this share of its lifetime has passed, as by a real kubelet.
RENEWAL_SHARE = 0.8

Tokens = Mapping[TokenProjection, bytes]


def token_projections(volumes: tuple[Volume, ...]) -> Iterator[TokenProjection]:
    for volume in volumes:
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.service_account_token is not None:
                yield source.service_account_token


def renewal_seconds(volumes: tuple[Volume, ...]) -> float | None:
    """Return after how many seconds the first token must be renewed; None: the pod has no token."""
    return min((one.expiration_seconds * RENEWAL_SHARE for one in token_projections(volumes)), default=None)


async def request_tokens(client: Client, pod: LocalPod, spec: RunnablePodSpec) -> Tokens:
    """Return the tokens of all volumes. Raises `NotRunnable` if the API server rejects one."""
    metadata, account = pod.metadata, spec.service_account_name or "default"
    tokens: dict[TokenProjection, bytes] = {}
    for projection in token_projections(spec.volumes):
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [projection.audience] if projection.audience else [],
                "expirationSeconds": projection.expiration_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata.name,
                    "uid": metadata.uid,
                },
            },
        }
        try:
            token = await client.create_token(metadata.namespace, account, request)
        except ApiError as error:
            raise NotRunnable(f"token of serviceaccount {account}: {error.message}") from error
        tokens[projection] = token.encode()
    return tokens
