"""Where kubectl rightly ends otherwise on the embedded cluster: the only list of it, with the words, and why.

`tests/conformance/known_differences.py` is the list of what differs in the API itself.
"""

import msgspec


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    # The lines that are said on the embedded cluster only, all of them, made comparable; none: it only says less.
    says: str = ""
    # A part of what is said on the real cluster only.
    lacks: str = ""
    because: str


_NO_KINDS = "kinds that nobody here would act on are not served, and clients say so"
_MEASURED = "the usage of pods is measured here; the real control plane of the tests has no metrics server"
_NO_PROCESS = "no process runs in a simulated pod, and those of a pod that is a process are yours"
_INSIDE = "simulated pods have no processes, and other pods run as local processes without containers"
_NO_UPGRADE = "error: unable to upgrade connection: the embedded cluster does not support"
_NO_KUBELET = "the real control plane of the tests has no kubelet that could be asked"
_NO_WORDS = "the words of `explain` are Kubernetes' own; the structure was taken from an API server"
_NO_ACCOUNT = "pods do not need a service account here"
_ADMISSION = "our own admission is inside of this server, and speaks before its rules do"
_GANGS = "the scheduler here places gangs and knows topology; that of this real cluster does neither"
_FORBIDDEN = "the server names what may change; a real one appends the difference in Go's words"
_NO_SUCH = "Error from server (NotFound): the server could not find the requested resource\n"


def _not_served(kind: str, resource: str) -> Difference:
    suffix = f" (post {resource})" if resource else ""
    return Difference(
        says=f"error: failed to create {kind}: the server could not find the requested resource{suffix}\n",
        lacks=" created",
        because=_NO_KINDS,
    )


DIFFERENCES: dict[str, Difference] = {
    # Kinds that are not served.
    "create-deployment": _not_served("deployment", ""),
    "create-job": _not_served("job", "jobs.batch"),
    "create-cronjob": _not_served("cronjob", "cronjobs.batch"),
    "create-ingress": _not_served("ingress", "ingresses.networking.k8s.io"),
    "no-deployment": Difference(
        says='error: the server doesn\'t have a resource type "deployment"\n', lacks="not found", because=_NO_KINDS
    ),
    "no-deployments": Difference(
        says='error: the server doesn\'t have a resource type "deployments"\n',
        lacks="No resources found",
        because=_NO_KINDS,
    ),
    "no-certificate-requests": Difference(
        says='error: the server doesn\'t have a resource type "certificatesigningrequests"\n',
        lacks="not found",
        because=_NO_KINDS,
    ),
    "prune-kinds": Difference(
        says="error: error retrieving RESTMappings to prune: invalid resource /v1, Kind=Endpoints, Namespaced=true: "
        'no matches for kind "Endpoints" in version "v1"\n',
        lacks="Warning: v1 Endpoints is deprecated",
        because="by default kubectl prunes kinds that are not served here; --prune-allowlist names others",
    ),
    "fewer-kinds": Difference(
        says="nodes  metrics.k8s.io/v1beta1  false  NodeMetrics\npods  metrics.k8s.io/v1beta1  true  PodMetrics\n",
        lacks="deployments  deploy  apps/v1  true  Deployment",
        because=f"{_NO_KINDS}; {_MEASURED}",
    ),
    "fewer-versions": Difference(
        says="metrics.k8s.io/v1beta1\n", lacks="batch/v1", because=f"{_NO_KINDS}; {_MEASURED}"
    ),
    "measured-nodes": Difference(
        says="NAME  CPU(cores)  CPU(%)  MEMORY(bytes)  MEMORY(%)\n" + 3 * "NODE  AGE  0%  0Mi  0%\n",
        lacks="error: Metrics API not available",
        because=_MEASURED,
    ),
    "no-pods-to-measure": Difference(
        says="No resources found\n", lacks="error: Metrics API not available", because=_MEASURED
    ),
    "no-limit-ranges": Difference(lacks="No LimitRange resource.", because=_NO_KINDS),
    "no-dump": Difference(
        says='"items": []\n' + _NO_SUCH,
        lacks='"kind": "ReplicationControllerList"',
        because="a dump asks for kinds that are not served",
    ),
    # What runs in a pod.
    "no-exec": Difference(
        says=f"{_NO_UPGRADE} pods/exec: {_INSIDE}\n", lacks="connection refused", because=_NO_PROCESS
    ),
    "no-attach": Difference(
        says=f"{_NO_UPGRADE} pods/attach: {_INSIDE}\n", lacks="connection refused", because=_NO_PROCESS
    ),
    "no-cp": Difference(says=f"{_NO_UPGRADE} pods/exec: {_INSIDE}\n", lacks="connection refused", because=_NO_PROCESS),
    "no-port-forward": Difference(
        says="error: error upgrading connection: unable to upgrade connection: the embedded cluster does not support "
        f"pods/portforward: {_INSIDE}\n",
        lacks="connection refused",
        because=_NO_PROCESS,
    ),
    "no-debug": Difference(
        says="error: ephemeral containers are disabled for this cluster (error from server: "
        '"the embedded cluster does not support pods/ephemeralcontainers: ephemeral containers are not supported; '
        f'{_INSIDE}")\n',
        because=_NO_PROCESS,
    ),
    "no-resize": Difference(
        says="Error from server (NotFound): the embedded cluster does not support pods/resize: in-place resize is "
        "not supported; delete the pod, so that its controller recreates it\n",
        because="resources of a running pod do not change here",
    ),
    "simulated-logs": Difference(
        says="container main started (simulated: no process runs)\ncontainer main is ready\n",
        lacks="connection refused",
        because=_NO_KUBELET,
    ),
    # What others would have done.
    "no-account": Difference(lacks="serviceAccountName: default", because=_NO_ACCOUNT),
    "no-account-described": Difference(lacks="Service Account:  default", because=_NO_ACCOUNT),
    "no-scheduled-event": Difference(
        says="Events:  <none>\n",
        lacks="Normal  Scheduled  AGE  default-scheduler  Successfully assigned",
        because="where a pod went stands in the pod: the scheduler here saves the write",
    ),
    "no-node-controller-words": Difference(
        says="Annotations:  <none>\n",
        lacks="node.alpha.kubernetes.io/ttl: 0",
        because="nodes get no notes from controllers here",
    ),
    "no-endpoints": Difference(
        says="Endpoints:  <none>\n", lacks="Endpoints:  ADDRESS:8443", because="nothing routes packets here"
    ),
    "no-gang-warning": Difference(
        says="message: the set has no topology constraints\nobservedGeneration: 1\n"
        'reason: AllClusterTopologyLevelsAvailable\nstatus: "False"\ntype: TopologyLevelsUnavailable\n',
        lacks="reason: NoGangScheduling",
        because=_GANGS,
    ),
    "no-gang-warning-described": Difference(
        says="Message:  the set has no topology constraints\nObserved Generation:  1\n"
        "Reason:  AllClusterTopologyLevelsAvailable\nStatus:  False\nType:  TopologyLevelsUnavailable\n",
        lacks="Reason:  NoGangScheduling",
        because=_GANGS,
    ),
    # Words.
    "pod-spec-diff": Difference(lacks="@@", because=_FORBIDDEN),
    "ours-speak-first": Difference(
        says='The PodCliqueSet "wrong" is invalid: spec.replicas: Invalid value: -1: must be at least 0\n',
        lacks="should be a non-negative integer",
        because=_ADMISSION,
    ),
    "ours-type-first": Difference(
        says='The PodCliqueSet "b" is invalid: spec.replicas: Invalid value: "x": must be of type integer\n',
        lacks='spec.replicas in body must be of type integer: "string"',
        because=_ADMISSION,
    ),
    "ours-label-first": Difference(
        says='The PodCliqueSet "b" is invalid: metadata.labels: Invalid value: "in valid": must have at most 63 '
        "letters, digits and -_., after an optional prefix such as example.com/\n",
        lacks="regex used for validation",
        because=_ADMISSION,
    ),
    "ours-annotate-first": Difference(
        says='The PodCliqueSet "b" is invalid: metadata.annotations: Invalid value: "in valid": must have at most '
        "63 letters, digits and -_., after an optional prefix such as example.com/\n",
        lacks="regex used for validation",
        because=_ADMISSION,
    ),
    "long-values": Difference(
        says='The request is invalid: patch: Invalid value: "{\\"kind\\":\\"ConfigMap\\",\\"apiVersion\\":\\"v1\\",'
        '\\"data\\":{\\"x\\":1},\\"metadata\\":{\\"name\\":\\"a\\",\\"...: json: Expected `str`, got `int` - at '
        "`$.data[...]`\n",
        lacks="json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        because="values of more than 100 characters are cut in messages, and the words of Go's decoder are Go's",
    ),
    "few-words": Difference(
        says="Ports that the container listens on; for information.\n" + "<no description>\n" * 5,
        lacks="List of ports to expose from the container.",
        because=_NO_WORDS,
    ),
    "few-words-of-metadata": Difference(
        says="Version of this representation of the object.\nKind of the object.\nStandard object's metadata.\n",
        lacks="APIVersion defines the versioned schema",
        because=_NO_WORDS,
    ),
    # What the server tells of itself.
    "another-version": Difference(
        says="Server Version: v1.37.1+grove\n", lacks="Server Version: v1.37.1", because="it is not that release"
    ),
    "another-version-in-full": Difference(
        says='{"major":"1","minor":"37","gitVersion":"v1.37.1+grove","gitCommit":"","gitTreeState":"",'
        '"buildDate":"TIME","goVersion":"","compiler":"","platform":"python"}\n',
        lacks='"gitVersion": "v1.37.1"',
        because="it is not that release",
    ),
    "nothing-to-tell-of-readiness": Difference(says="ok\n", lacks="[+]etcd ok", because="it has no parts to tell of"),
    "no-older-explanation": Difference(
        says="error: couldn't find resource for \"/v1, Kind=Pod\"\n",
        lacks="KIND:  Pod",
        because="OpenAPI v3 is served, and kubectl needs no other",
    ),
    "no-metrics-page": Difference(says=_NO_SUCH, lacks="# HELP", because="the operator has metrics, the server none"),
    "more-probes": Difference(
        says="[/readyz/*]  []  [get]\n", because="whoever is told that gangs are placed here may ask about it"
    ),
    "another-administrator": Difference(
        says="Username  grove-admin\n", lacks="Username  admin", because="who owns this cluster has this name"
    ),
}  # fmt: skip
