"""Descriptions of Kubernetes fields inside Grove's CRDs, for `kubectl explain`: what each field means for a gang.

Only the top levels have descriptions; the structure is in `kubernetes_schemas.py`.
"""

_POD = {
    "activeDeadlineSeconds": "Maximum runtime of a pod; then it fails.",
    "affinity": "Affinity and anti-affinity to nodes and pods.",
    "automountServiceAccountToken": "Whether a token of the service account is mounted.",
    "containers": "Containers of each pod; at least one.",
    "dnsConfig": "Name servers, search domains and options in addition to dnsPolicy.",
    "dnsPolicy": "DNS policy of the pods.",
    "enableServiceLinks": "Whether the Services of the namespace become environment variables.",
    "ephemeralContainers": "Containers for debugging of running pods; not allowed in a new pod.",
    "evictionResponders": "Controllers that respond to an eviction of the pod.",
    "hostAliases": "Lines for the hosts file of a pod.",
    "hostIPC": "Share the node's IPC namespace.",
    "hostNetwork": "Share the node's network.",
    "hostPID": "Share the node's process ids.",
    "hostUsers": "Whether users inside a pod are users of the node.",
    "hostname": "Replaced by the host name that the clique gives each pod.",
    "hostnameOverride": "Host name inside a pod, without a DNS entry.",
    "imagePullSecrets": "Secrets with credentials for private registries.",
    "initContainers": "Containers that run to completion, one after the other, before the containers start.",
    "nodeName": "Rejected: a scheduler places the gang.",
    "nodeSelector": "Labels that a node must have.",
    "os": "Operating system of the pods.",
    "overhead": "Resources that a pod needs in addition to its containers.",
    "preemptionPolicy": "Whether pods may preempt pods of lower priority.",
    "priority": "Set by Kubernetes, from the priority class.",
    "priorityClassName": "Priority class of the pods; template.priorityClassName of the set overrides it.",
    "readinessGates": "Additional conditions for the readiness of a pod.",
    "resourceClaims": "Devices that containers may refer to by name.",
    "resources": "Requests and limits of a whole pod.",
    "restartPolicy": "When the containers of a pod are restarted; a training set needs OnFailure or Never.",
    "runtimeClassName": "The container runtime to use.",
    "schedulerName": "The scheduler that places the gang; the same in all cliques of a set.",
    "schedulingGates": "Additional scheduling gates; the operator adds its own.",
    "schedulingGroup": "The PodGroup of kube-scheduler that a pod belongs to.",
    "securityContext": "Users, groups and profiles of all containers.",
    "serviceAccount": "Deprecated: write serviceAccountName.",
    "serviceAccountName": "The service account that pods run as.",
    "setHostnameAsFQDN": "Whether the host name inside a pod includes the domain.",
    "shareProcessNamespace": "Whether the containers of a pod see each other's processes.",
    "subdomain": "Replaced by the name of the headless Service of the replica.",
    "terminationGracePeriodSeconds": "How long a pod may take to end before it is killed.",
    "tolerations": "Taints of nodes that pods tolerate.",
    "topologySpreadConstraints": "Rejected: topologyConstraint packs the gang.",
    "volumes": "Volumes that containers can mount.",
}

_CONTAINER = {
    "args": "Arguments of the command.",
    "command": "Command instead of the entry point of the image.",
    "env": "Environment variables; the operator adds those of Grove.",
    "envFrom": "ConfigMaps and Secrets whose entries become environment variables.",
    "image": "The image to run.",
    "imagePullPolicy": "When the image is pulled.",
    "lifecycle": "Hooks after the start and before the end.",
    "livenessProbe": "Restarts the container when it fails.",
    "name": "Name of the container, unique in its pod.",
    "ports": "Ports that the container listens on; for information.",
    "readinessProbe": "Decides whether the pod is ready; minAvailable counts ready pods.",
    "resizePolicy": "Which resources may change without a restart.",
    "resources": "Requests and limits of the container.",
    "restartPolicy": "When this container is restarted; Always makes an init container a sidecar.",
    "restartPolicyRules": "Exit codes that decide whether the container is restarted.",
    "securityContext": "User, capabilities and profiles of this container.",
    "startupProbe": "Disables the other probes until it succeeds.",
    "stdin": "Whether standard input stays open.",
    "stdinOnce": "Whether standard input closes after the first reader.",
    "terminationMessagePath": "File with the termination message.",
    "terminationMessagePolicy": "Source of the termination message.",
    "tty": "Whether a terminal is allocated.",
    "volumeDevices": "Block devices in the container.",
    "volumeMounts": "Where volumes appear in the container.",
    "workingDir": "The working directory.",
}

_METRIC = {
    "containerResource": "A resource of one container in each pod.",
    "external": "A metric from outside of the cluster.",
    "object": "A metric of another object.",
    "pods": "A metric of each pod; the average counts.",
    "resource": "A resource that pods request; the average counts.",
    "type": "Which of the other fields is set.",
}

_SCALING_RULES = {
    "policies": "How many replicas may be added or removed within a period.",
    "selectPolicy": "Which policy counts: Max, Min, or Disabled for no scaling in this direction.",
    "stabilizationWindowSeconds": "For how long earlier recommendations are considered.",
    "tolerance": "How far a metric may be off its target without a change.",
}

_BEHAVIOR = {"scaleDown": "Rules for scaling in.", "scaleUp": "Rules for scaling out."}

_CLAIM_TEMPLATE = {
    "metadata": "Labels and annotations of the claims.",
    "spec": "Requested devices.",
}

DESCRIPTIONS: dict[str, dict[str, str]] = {
    "PodSpec": _POD,
    "Container": _CONTAINER,
    "MetricSpec": _METRIC,
    "HorizontalPodAutoscalerBehavior": _BEHAVIOR,
    "HPAScalingRules": _SCALING_RULES,
    "ResourceClaimTemplateSpec": _CLAIM_TEMPLATE,
}
