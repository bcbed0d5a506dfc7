"""What each key of the OperatorConfiguration means, for its reference page."""

MEANINGS = {
    "runtimeClientConnection.qps": (
        "writes per second; 0 or less: the operator sets no limit and follows the answers of the API server. Reads are "
        "never limited"
    ),
    "runtimeClientConnection.burst": "writes that may leave at once after a pause; 0: as many as `qps`",
    "runtimeClientConnection.contentType": "empty or `application/json`; any other value is rejected",
    "runtimeClientConnection.acceptContentTypes": "empty or `application/json`; any other value is rejected",
    "leaderElection.enabled": "wait for a Lease before the first write; needed with more than one replica",
    "leaderElection.leaseDuration": (
        "how long the other replicas wait after the last renewal that they saw; longer than `renewDeadline`. Written "
        "in whole seconds, rounded up"
    ),
    "leaderElection.renewDeadline": (
        "a leader that could not renew its Lease for this long stops writing; longer than `retryPeriod`"
    ),
    "leaderElection.retryPeriod": "how often the leader renews the Lease, and how often the others read it",
    "leaderElection.resourceLock": "only `leases`",
    "leaderElection.resourceName": "the name of the Lease",
    "leaderElection.resourceNamespace": (
        "the namespace of the Lease; empty: that of the pod, or of the context of the kubeconfig"
    ),
    "server.webhooks.bindAddress": "see [addresses](../how-to/operate.md#addresses)",
    "server.webhooks.port": "the port of the webhooks; the port of `--webhook-url` takes precedence",
    "server.webhooks.serverCertDir": "the directory of `tls.crt` and `tls.key`, with `certProvisionMode: manual`",
    "server.webhooks.secretName": "the Secret with the certificates, with `certProvisionMode: auto`",
    "server.webhooks.certProvisionMode": (
        "`auto`: the operator has its own CA and issues its certificates; `manual`: another program does, such as "
        "cert-manager"
    ),
    "server.healthProbes.bindAddress": "see [addresses](../how-to/operate.md#addresses)",
    "server.healthProbes.port": "`/healthz` and `/readyz`, plain HTTP",
    "server.metrics.bindAddress": "see [addresses](../how-to/operate.md#addresses)",
    "server.metrics.port": "`/metrics`, plain HTTP: [metrics](metrics.md)",
    "debugging.enableProfiling": (
        "serve `/debug/tasks`, `/debug/profile?seconds=5` and `/debug/memory`, for developers"
    ),
    "debugging.pprofBindHost": "only a loopback address; reach it with `kubectl port-forward`",
    "debugging.pprofBindPort": "the port of the profiles",
    "controllers.podCliqueSet.concurrentSyncs": (
        "one reconciler does the work of all four controllers: the largest of the four numbers is the number of sets "
        "that it reconciles at the same time"
    ),
    "controllers.podClique.concurrentSyncs": "see `controllers.podCliqueSet.concurrentSyncs`",
    "controllers.podCliqueScalingGroup.concurrentSyncs": "see `controllers.podCliqueSet.concurrentSyncs`",
    "controllers.podGang.concurrentSyncs": "see `controllers.podCliqueSet.concurrentSyncs`",
    "logLevel": "`debug`, `info` or `error`. Warnings are logged at `info`",
    "logFormat": "`json`: one object per line on stderr; `text`: for people",
    "authorizer.enabled": (
        "allow only the operator to change the objects that it manages ([authorizer](webhooks.md#the-authorizer)); "
        "needs webhooks and the environment variable `GROVE_OPERATOR_SERVICE_ACCOUNT_NAME`"
    ),
    "authorizer.exemptServiceAccountUserNames": "users that may change these objects too",
    "gangTermination.massOutage.enabled": (
        "tear no gang down while most nodes are not ready: "
        "[mass outage](../explanation/gang-termination.md#mass-outage)"
    ),
    "gangTermination.massOutage.threshold": (
        '"most nodes" means more than this percentage of the nodes, and at least 3 nodes'
    ),
    "gangTermination.massOutage.maxHold": (
        "the longest time that teardowns are held back, from the moment the threshold was exceeded"
    ),
    "gangTermination.holdInMassOutage": "of an earlier version: `false` means `massOutage.enabled: false`",
    "gangTermination.defaultDelay": (
        "the `terminationDelay` that the defaulting webhook writes into new Inference sets that have none; `4h` is the "
        "default of the Go implementation. Absent: gang termination is off in sets without a `terminationDelay`"
    ),
    "topologyAwareScheduling.enabled": (
        "accept sets with [topology constraints](../how-to/pack-by-topology.md) and apply them"
    ),
    "topologyAwareScheduling.onMissingBinding": (
        "what happens to new gangs of a set whose ClusterTopologyBinding, or a level of it, "
        "[was deleted](../how-to/pack-by-topology.md#when-something-is-missing): `Ignore` places them without the "
        "constraint, `Wait` creates no pod of them until it exists again"
    ),
    "initContainer.image": (
        "the image of the init container that waits for other cliques (see "
        "[start-up order](../how-to/start-up-order.md)); empty: the value of `GROVE_INIT_CONTAINER_IMAGE`"
    ),
    "limits.objectsPerSet": (
        "the number of pods, PodCliques, PodCliqueScalingGroups, PodGangs and Services that "
        "[one set may have](validation.md#objects-and-bytes)"
    ),
    "network.autoMNNVLEnabled": "`true` is rejected: compute domains are not supported yet",
    "scheduler.profiles[].name": (
        "a scheduler that sets may name: `default-scheduler` (always enabled), `kai-scheduler`, `volcano`, "
        "`lpx-scheduler`"
    ),
    "scheduler.profiles[].config": "rejected: no scheduler has settings",
    "scheduler.defaultProfileName": "the scheduler of sets that name none; it needs a profile",
}
