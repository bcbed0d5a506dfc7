"""What hostile requests are made of: texts, numbers, paths, options and bodies that somebody might send one day.

They are put together in `mischief.py`, and on the wire in `wire.py`.
"""

from typing import Any

from grove.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NASTY_TEXTS = (
    "", " ", "\x00", "\n", "é", "\U0001d518", "a" * 300, "../..", "%2e", "null", "true", "0", "-1", "1e400", "NaN",
    "$(X)",
    "a/b", "a=b", "A", "a_b", "a.b", "-a", "a-", "\u202ea", "a,b", "x y", "\ufeff", "\u2028", "*", "~", ".", "..",
    "'", '"',
    "\\", "{", "[]", "<a>", "k" * 70_000,
)  # fmt: skip
NASTY_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**31 - 1, -(2**31) - 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**64), 10**30, 10**400, 1e308,
    5e-324,
    0.1, -0.0, 1.0, 1e15, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO", "get")
TYPES = (
    JSON, MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH, APPLY_PATCH, PROTOBUF, "", "text/plain", "application/yaml",
    "a/b;c=d",
    "application/json; charset=utf-8", "application/cbor", "application/apply-patch+cbor", ";",
    "application/json-patch+json;x",
)  # fmt: skip
ACCEPTS = (
    "", "*/*", JSON, "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "text/plain", "application/yaml", ";;;", "a", "é",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=Nothing;g=x;v=y",
    "*/*;q=0",
    "application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2", "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;g=meta.k8s.io;v=v1, application/json",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
)  # fmt: skip
QUERY_VALUES: dict[str, tuple[str, ...]] = {
    "limit": ("0", "1", "2", "-1", "x", "9" * 30, "1.5", " 1", "\uff11"),
    "continue": (
        "x", "eyJ9", "e30=", "eyJyZXZpc2lvbiI6MSwibmFtZXNwYWNlIjoiYSIsIm5hbWUiOiJiIn0=", "%%%", "A" * 5000, "é",
    ),
    "resourceVersion": ("0", "1", "5", "999999999", "-1", "x", "9" * 5000, "01", "", " 1", "\uff11", "1.0"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x", ""),
    "timeoutSeconds": ("0", "1", "-5", "x", "9" * 40),
    "labelSelector": (
        "x=y", "x", "!x", "x in (y,z)", "x notin ()", "x>1", "x<" + "9" * 5000, "(", "x=" + "y" * 300, ",", "x in (",
        "=", "a/b/c",
        "x==y,x!=z", "é", "x>\uff11", "\x00", "!" * 50, "x in (" + "a," * 2000 + "b)",
    ),
    "fieldSelector": (
        "metadata.name=a", "metadata.namespace!=default", "spec.nodeName=node-0", "status.phase=Running", "x=y", "=",
        "a",
        "metadata.name=a\\,b", "\\", "metadata.name==a,metadata.name!=b", "spec.unschedulable=false", ",,,",
        "involvedObject.name=a",
    ),
    "dryRun": ("All", "", "x", "all"),
    "fieldManager": ("m", "", "k" * 129, "\x00", "é", "m n"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "", "x"),
    "force": ("true", "false", "x", ""),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x", ""),
    "orphanDependents": ("true", "false", "x"),
    "gracePeriodSeconds": ("0", "1", "-1", "x", "9" * 25, ""),
    "pretty": ("true", "1", "x"),
    "watch": ("true", "1", "false", "0", "x", ""),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "includeObject": ("None", "Metadata", "Object", "x"),
    "follow": ("true", "1", "x"),
    "tailLines": ("1", "0", "-1", "x", "9" * 30),
    "sinceSeconds": ("1", "0", "999999999", "x"),
    "sinceTime": ("2026-01-01T00:00:00Z", "x", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59+23:59"),
    "limitBytes": ("1", "0", "x"),
    "previous": ("true", "x"),
    "timestamps": ("true",),
    "container": ("main", "x", ""),
    "timeout": ("1s", "x"),
    "é": ("1",),
}  # fmt: skip
ODD_PATHS = (
    "/", "", "//", "/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/", "/apis/grove.io",
    "/apis/grove.io/v1alpha1",
    "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/grove.io/v1alpha1", "/version", "/healthz",
    "/readyz",
    "/livez", "/livez/ping", "/metrics", "/logs", "/api/v2/pods", "/api/v1/nothing", "/apis/x/y/z", "/apis//v1/pods",
    "/api/v1/namespaces//pods", "/api/v1/namespaces/default", "/api/v1/namespaces/default/", "/api/v1//pods",
    "/API/V1/PODS",
    "/api/v1/namespaces/default/pods/a/b/c/d", "/api/v1/pods/a", "/api/v1/namespaces/default/nodes/a",
    "/api/v1/../v1/pods",
    "/api/v1/namespaces/default/pods/..", "/api/v1/namespaces/default/pods/%2e%2e",
    "/api/v1/namespaces/default/pods/a%2fb",
    "/api/v1/namespaces/../pods", "/api/v1/namespaces/default/status", "/api/v1/namespaces/default/finalize",
    "/apis/authorization.k8s.io/v1/namespaces/", "/apis/authorization.k8s.io/v1/namespaces/default/pods",
    "/api/v1/watch/pods",
    "/api/v1/proxy/x", "/apis/events.k8s.io/v1/events", "/apis/events.k8s.io/v1/namespaces/default/events/a", "/\x00",
    "/é/é",
    "/api/v1/namespaces/default/pods/" + "a" * 3000, "/api/v1/componentstatuses", "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/api/v1/namespaces/default/pods;a=b", "/api/v1/namespaces/default/pods/a/log/x", "/apis/apps/v1/deployments",
    "/api/v1/namespaces/default/configmaps/log", "/apis/metrics.k8s.io/v1beta1/pods", "/api/v1/nodes/a/proxy/x", "*",
)  # fmt: skip
REVIEWS = (
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews", "/api/v1/namespaces/default/serviceaccounts/a/token",
)  # fmt: skip
YAMLS = (
    b"a: &a [*a]", b"a: !!int ''", b"a: !!float ''", b"a: !!bool x", b"a: !!timestamp x", b"a: !!binary '*'",
    b"!!set {a}",
    b"a: !!python/object:os.system x", b"a: 1\na: 2", b"---\n---\na: 1", b"? [a]\n: b", b"a: *b", b"a: \t",
    b"%YAML 9.9\n---\na",
    b"!!omap [a: b]", b"<<: {a: b}", b"<<: x", b"{<<: [1]}", b"a: 0b", b"a: 0x_", b"a: 1_000_", b"a: .inf",
    b"a: .nan", b"a: ~",
    b"a: 0o7", b"a: 1:1:1", b"a: !!int 1:1:1", b"\xff\xfe", b"\xef\xbb\xbfa: b", b"&a", b"a: |\n  x\n y",
    b"a: 2026-13-45", b"!x y",
    b"a: !!str 1", b"a: !!null x", b"'", b"a: {b: [c, {d: e}]}\n", b"a: 1e999", b"1: 2", b"true: 1", b"1.5: 2",
    b"? \n: 1", b"@", b"\x00",
)  # fmt: skip
BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{{', '.join(f'k{m}: *a{n - 1}' for m in range(9))}}}\n" for n in range(1, 9)
)
MERGE_BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join(f'*a{n - 1}' for _ in range(9))}]}}\n" for n in range(1, 9)
)
RULES = (
    "self.a > 1", "self == oldSelf", "self.", "true", "self.size() < 2", "1 / 0 > 1", "has(self.a)",
    "self.all(x, x > 0)",
    "self.spec.n < 5", "quantity(self) > 1", "self.matches('(a+)+$')",
    "[1,2,3].map(x, [1,2,3].map(y, x * y)).size() > 1",
    "self.metadata.name == 'a'", "duration('1h') > duration(self)", "oldSelf.orValue(1) == 1", "dyn(self) == 1",
    "self in [self]",
    "'a'.format([1]) == ''", "url(self).getHost() == ''", "self.split('')[0] == ''", "\x00", "(" * 200,
    "self" + ".a" * 300,
    "int(self) > 9223372036854775807", "-(-9223372036854775808) > 0", "ip('x').family() == 4", "cel.bind(x, 1, x > 0)",
    "self.exists_one(x, x)", "self[?'a'].hasValue()", "optional.none() == optional.of(1)", "type(self) == string",
    "self ? 1 : 2",
    "9223372036854775807 + 1 > 0", "self.lowerAscii() == ''", "'%d'.format([self]) != ''", "self.b.c.d.e",
    "{'a': 1}.a == 1",
)  # fmt: skip
FORMATS = ("int32", "int64", "date-time", "duration", "byte", "uuid", "ipv4", "cidr", "x", "double")
PATTERNS = (
    "^a$",
    "(",
    "[[:alpha:]]+",
    "(?i)x",
    "(a+)+$",
    "\\p{L}",
    "(?P<x>a)",
    "a{1001}",
    "\\Q.\\E",
    "(?=a)",
    "(a)\\1",
)
# Words that fields of Kubernetes objects hold.
WORDS = (
    "a", "b", "c", "main", "x", "y", "default", "Always", "Never", "Exists", "Equal", "In", "NotIn", "Gt", "5",
    "DoesNotExist", "NoSchedule", "NoExecute", "TCP", "UDP", "True", "False", "Running", "Failed", "Pending",
    "kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/x", "0", "50%", "cpu", "memory",
    "grove.io/gate", "Pod", "ConfigMap", "PodClique", "PodCliqueSet", "v1", "grove.io/v1alpha1", "10m", "-1s",
    "ClusterFirst", "", "A", "a b", "-", "é", "foregroundDeletion", "orphan", "Ready", "node-0", "http", "1Gi",
    "2026-01-01T00:00:00Z", "$(X)", "/etc", "127.0.0.1", "None", "ClusterIP", "OnFailure", "RollingUpdate",
)  # fmt: skip
