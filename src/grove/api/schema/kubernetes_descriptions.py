"""Descriptions of Kubernetes fields inside Grove's CRDs, for `kubectl explain`: what each field means for a gang.

Only the top levels have descriptions; the structure is in `kubernetes_schemas.py`.
"""

_POD = {
    "activeDeadlineSeconds": "A pod is failed when it has run for this long.",
    "affinity": "Which nodes, and which neighbours, a pod wants or shuns.",
    "automountServiceAccountToken": "Whether a token of the service account is mounted.",
    "containers": "What runs in each pod; at least one.",
    "dnsConfig": "Name servers, search domains and options besides those of dnsPolicy.",
    "dnsPolicy": "Where a pod looks names up.",
    "enableServiceLinks": "Whether the Services of the namespace become environment variables.",
    "ephemeralContainers": "Added to running pods for debugging; Kubernetes takes none in a new pod.",
    "evictionResponders": "Who is asked before a pod is evicted.",
    "hostAliases": "Lines for the hosts file of a pod.",
    "hostIPC": "Share the node's IPC namespace.",
    "hostNetwork": "Share the node's network.",
    "hostPID": "Share the node's process ids.",
    "hostUsers": "Whether users inside a pod are users of the node.",
    "hostname": "Host names are given by the clique; this one is replaced.",
    "hostnameOverride": "Another host name inside a pod, which DNS does not know.",
    "imagePullSecrets": "Secrets with credentials for private registries.",
    "initContainers": "Run one after the other, to the end, before the containers start.",
    "nodeName": "Refused: gangs are placed by a scheduler.",
    "nodeSelector": "Labels that a node must have.",
    "os": "The operating system that pods are made for.",
    "overhead": "Resources that running a pod costs besides its containers.",
    "preemptionPolicy": "Whether pods may push out others of lower priority.",
    "priority": "Set by Kubernetes, from the priority class.",
    "priorityClassName": "How important pods are; template.priorityClassName of the set wins over it.",
    "readinessGates": "Further conditions that must hold before a pod counts as ready.",
    "resourceClaims": "Devices that containers may refer to by name.",
    "resources": "Requests and limits of a whole pod.",
    "restartPolicy": "When the containers of a pod are started again; training needs OnFailure or Never.",
    "runtimeClassName": "The container runtime to use.",
    "schedulerName": "The scheduler that places the gang; the same in all cliques of a set.",
    "schedulingGates": "What else must happen before pods are scheduled; the gate of the gang is added to these.",
    "schedulingGroup": "The group by which Kubernetes itself schedules a pod.",
    "securityContext": "Users, groups and profiles of all containers.",
    "serviceAccount": "Deprecated: write serviceAccountName.",
    "serviceAccountName": "The service account that pods run as.",
    "setHostnameAsFQDN": "Whether the host name inside a pod includes the domain.",
    "shareProcessNamespace": "Whether the containers of a pod see each other's processes.",
    "subdomain": "Given by the headless Service of the replica; this one is replaced.",
    "terminationGracePeriodSeconds": "How long a pod may take to end before it is killed.",
    "tolerations": "Taints of nodes that do not keep pods away.",
    "topologySpreadConstraints": "Refused: gangs are packed by topologyConstraint.",
    "volumes": "What containers can mount.",
}

_CONTAINER = {
    "args": "Arguments of the command.",
    "command": "What is run instead of the entry point of the image.",
    "env": "Environment variables; those of Grove are added.",
    "envFrom": "ConfigMaps and Secrets whose entries become environment variables.",
    "image": "The image to run.",
    "imagePullPolicy": "When the image is pulled.",
    "lifecycle": "What happens right after the start and right before the end.",
    "livenessProbe": "Restarts the container when it fails.",
    "name": "Name of the container, unique in its pod.",
    "ports": "Ports that the container listens on, for others to read.",
    "readinessProbe": "Decides whether the pod is ready: what a clique counts.",
    "resizePolicy": "Which resources may change without a restart.",
    "resources": "Requests and limits: what a gang must find room for.",
    "restartPolicy": "When this container is started again; Always makes an init container a sidecar.",
    "restartPolicyRules": "Exit codes after which the container is started again, or not.",
    "securityContext": "User, capabilities and profiles of this container.",
    "startupProbe": "Holds the other probes back until it succeeds.",
    "stdin": "Whether standard input stays open.",
    "stdinOnce": "Whether standard input closes after the first reader.",
    "terminationMessagePath": "The file that holds a container's last words.",
    "terminationMessagePolicy": "Where the last words come from.",
    "tty": "Whether a terminal is allocated.",
    "volumeDevices": "Block devices in the container.",
    "volumeMounts": "Where volumes appear in the container.",
    "workingDir": "The working directory.",
}

_METRIC = {
    "containerResource": "A resource of one container in each pod.",
    "external": "A number from outside of the cluster.",
    "object": "A number that describes another object.",
    "pods": "A number that each pod has; the average counts.",
    "resource": "A resource that pods request; the average counts.",
    "type": "Which of the other fields is filled in.",
}

_CLAIM_TEMPLATE = {
    "metadata": "Labels and annotations of the claims.",
    "spec": "The devices that are asked for.",
}

WORDS: dict[str, dict[str, str]] = {
    "PodSpec": _POD,
    "Container": _CONTAINER,
    "MetricSpec": _METRIC,
    "ResourceClaimTemplateSpec": _CLAIM_TEMPLATE,
}
