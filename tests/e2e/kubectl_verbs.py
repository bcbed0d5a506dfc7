"""One kubectl command on the embedded cluster and on a real one, side by side, and what it said on each compared.

Not here: what rightly differs (`kubectl_verbs_differences.py`), and the commands (`test_kubectl_verbs*.py`).
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from difflib import SequenceMatcher, unified_diff
from itertools import count
from pathlib import Path
from time import monotonic, sleep

import msgspec
import yaml

from grove.api.types.meta import JsonObject
from tests.e2e.installation import Installation
from tests.e2e.kubectl_verbs_differences import DIFFERENCES
from tests.e2e.served import Kubectl, Ran, grove_up
from tests.kube.controlplane.build import DEFAULT_VERSION, build
from tests.kube.controlplane.nodes import RESOURCES, running_nodes
from tests.kube.controlplane.plane import running_plane

NODES = 3
# A safety net, far above what anything takes.
SECONDS = 120.0


class Pair(msgspec.Struct, frozen=True):
    """A word of a command that is another one on each cluster: the name of a pod that the operator made."""

    embedded: str
    real: str


class Outcomes(msgspec.Struct, frozen=True):
    """How a command ended on each cluster, as it came."""

    embedded: Ran
    real: Ran


Word = str | Pair


class Clusters:
    """`grove up` and a real control plane with the operator installed, both with the same nodes."""

    def __init__(self, embedded: Kubectl, real: Kubectl) -> None:
        self.embedded = embedded
        self.real = real
        self._numbers = count()
        self._side_by_side = ThreadPoolExecutor(2)

    def on_each(self, act: Callable[[Kubectl, str], Ran]) -> Outcomes:
        """`act(kubectl, side)` on both at once."""
        embedded = self._side_by_side.submit(act, self.embedded, "embedded")
        real = self._side_by_side.submit(act, self.real, "real")
        return Outcomes(embedded.result(), real.result())

    def new_namespace(self) -> "Both":
        """An empty one, of the same name on both."""
        both = Both(self, f"verbs-{next(self._numbers)}")
        both("create", "namespace", both.namespace)
        # A pod of the real cluster needs the one, and lists show the other.
        for furniture in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
            both("wait", furniture, "--for=create", "--timeout=120s")
        return both

    def close(self) -> None:
        self._side_by_side.shutdown()


@contextmanager
def both_clusters(folder: Path) -> Iterator[Clusters]:
    # Always of the release that is the model: others say other words.
    command = (str(build(DEFAULT_VERSION)), "kubectl")
    resources = ",".join(f"{name}={amount}" for name, amount in RESOURCES.items())
    with ExitStack() as stack:
        plane = stack.enter_context(running_plane(folder, version=DEFAULT_VERSION))
        installation = Installation(plane)
        stack.enter_context(running_nodes(plane.kubeconfig, NODES))
        stack.enter_context(installation.pod_like_operator()).await_ready()
        homes = [folder / "home-embedded", folder / "home-real"]
        for home in homes:
            home.mkdir()
        resource_info = stack.enter_context(grove_up(homes[0], "--nodes", str(NODES), "--node-resources", resources))
        configs = (resource_info.kubeconfig, plane.kubeconfig)
        clusters = Clusters(
            *(
                Kubectl(config, home, command, KUBECTL_APPLYSET="true")
                for config, home in zip(configs, homes, strict=True)
            )
        )
        yield clusters
        clusters.close()


class Both:
    """kubectl in a namespace of the same name on both: `both("get", "pods")` demands that it says the same."""

    def __init__(self, clusters: Clusters, namespace: str) -> None:
        self.clusters = clusters
        self.namespace = namespace

    def __call__(
        self,
        *words: Word,
        stdin: str = "",
        editor: str = "",
        code: int = 0,
        differs: str = "",
        in_any_order: bool = False,
    ) -> Ran:
        """What was said on the embedded cluster, made comparable.

        `differs` names a known difference: then there must be this one, and no other.
        """
        ran = self.clusters.on_each(lambda kubectl, side: self._run(kubectl, side, words, stdin, editor))
        embedded, real = (_comparable_outcome(each, in_any_order) for each in (ran.embedded, ran.real))
        told = f"kubectl {' '.join(map(str, words))}"
        if differs:
            _assert_difference(told, differs, embedded, real)
        else:
            assert embedded == real, f"{told}\n{_beside(embedded, real)}"
        assert embedded.code == code, f"{told}\nended with {embedded.code}\n{embedded.out}{embedded.err}"
        return embedded

    def apply(self, *manifests: JsonObject, options: tuple[str, ...] = (), code: int = 0, differs: str = "") -> Ran:
        return self("apply", "-f", "-", *options, stdin=yaml.safe_dump_all(manifests), code=code, differs=differs)

    def create(self, *manifests: JsonObject) -> Ran:
        return self("create", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def running_pod(self, name: str, **spec: object) -> None:
        self.create(a_pod(name, **spec))
        self("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")

    def running_set(self, name: str) -> None:
        self.create(a_set(name))
        self.await_set(name)

    def await_set(self, name: str) -> None:
        """Until it is available, and every status says so: each is written by itself."""
        for part, status in (
            (f"pcs/{name}", "{.status.availableReplicas}=1"),
            (f"pcsg/{name}-0-sg", "{.status.availableReplicas}=1"),
            (f"pclq/{name}-0-web", "{.status.readyReplicas}=2"),
            (f"pclq/{name}-0-sg-0-work", "{.status.readyReplicas}=1"),
            (f"pg/{name}-0", "{.status.phase}=Running"),
        ):
            self("wait", part, f"--for=jsonpath={status}", "--timeout=120s")

    def await_real(self, *words: str, says: str = "") -> None:
        """Until the real cluster says so, or anything: some of its controllers tell later what ours knows at once."""
        deadline = monotonic() + SECONDS
        while True:
            ran = self._run(self.clusters.real, "real", words, "", "")
            if ran.out.strip() and says in ran.out:
                return
            assert monotonic() < deadline, f"kubectl {' '.join(words)}\nnever said {says}\n{ran.out}{ran.err}"
            sleep(0.1)

    def each(self, *words: Word, stdin: str = "") -> Outcomes:
        """A step that must succeed on both, and whose words do not matter."""
        ran = self.clusters.on_each(lambda kubectl, side: self._run(kubectl, side, words, stdin, ""))
        for side, one in (("embedded", ran.embedded), ("real", ran.real)):
            assert one.code == 0, f"{side}: kubectl {' '.join(map(str, words))}\n{one.out}{one.err}"
        return ran

    def named(self, *words: str) -> Pair:
        """What a command says on each cluster, as a word for the next one."""
        ran = self.each(*words)
        return Pair(ran.embedded.out.strip(), ran.real.out.strip())

    def _run(self, kubectl: Kubectl, side: str, words: tuple[Word, ...], stdin: str, editor: str) -> Ran:
        plain = [word if isinstance(word, str) else str(getattr(word, side)) for word in words]
        # Behind `--` stands what is meant for a container.
        return kubectl.attempt(f"--namespace={self.namespace}", *plain, stdin=stdin, editor=editor)


# What is the same on both


def a_pod(name: str, **spec: object) -> JsonObject:
    """Without a token, which only the real cluster would mount, and quickly gone."""
    container = {"name": "main", "image": "example/web:1", "ports": [{"containerPort": 80}]}
    quiet = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container]}
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**quiet, **spec}}


def a_config(name: str, labels: JsonObject | None = None, /, **data: str) -> JsonObject:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def a_set(name: str, *, replicas: int = 1, labels: JsonObject | None = None) -> JsonObject:
    """One clique of two pods, and a group of one."""
    resources = {"requests": {"cpu": "1"}}
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "example/web:1", "resources": resources}],
    }
    cliques = [
        {"name": role, "spec": {"roleName": role, "replicas": number, "podSpec": pod}}
        for role, number in (("web", 2), ("work", 1))
    ]
    template = {"cliques": cliques, "podCliqueScalingGroups": [{"name": "sg", "cliqueNames": ["work"]}]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"replicas": replicas, "template": template},
    }


# What no two clusters have in common. The order matters: a time holds what looks like an age, and so may a drawn name.
_RULES = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"https://127\.0\.0\.1:\d+", "SERVER"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| [+-]\d{4})", "TIME"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r'(resourceVersion"?: ?")\d+', r"\1VERSION"),
        (r"(Resource Version: +)\d+", r"\1VERSION"),
        (r"^[IWEF]\d{4} [\d:.]+ +\d+ ", "LOG "),
        # What the library of kubectl says, or not, when its time is up during a watch.
        (r"^LOG reflector\.go.*(?:very short watch|context deadline exceeded).*\n", ""),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "ADDRESS"),
        (r"\b(\d+):3[0-2]\d{3}/", r"\1:NODEPORT/"),
        (r"(nodePort: |NodePort:.* )3[0-2]\d{3}\b", r"\1NODEPORT"),
        # Files of kubectl, of diff, of a home.
        (r"/\S*/home-(?:embedded|real)\b", "HOME"),
        (r"/\S*/(LIVE|MERGED|kubectl-edit)-\d+", r"\1"),
        # Names that a server, kubectl or the operator completes.
        (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-SUFFIX"),
        (r"\b(\S+)\.[0-9a-f]{16}\b", r"\1.EVENT"),
        (r"\b(?:\d+[dhms]){1,2}\b", "AGE"),
        (r" \(x\d+ over AGE\)", ""),
        (r"\bnode-\d\b", "NODE"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
        # Who writes what controllers write.
        (r"\bmanager: (?:grove|kube-controller-manager)$", "manager: CONTROLLER"),
        # Go writes times that nobody set; nobody can tell them from those that are not there.
        (r'^ *"?last(?:Probe|Heartbeat)Time"?: null,?\n', ""),
        (r"- lastProbeTime: null\n +", "- "),
        # Columns are as wide as what stands in them.
        (r"(?<=\S) {2,}", "  "),
        (r" +$", ""),
    )
)


# Who owns what, in YAML: a server lists them by the second in which they wrote.
_OWNERS = re.compile(r"^( *)managedFields:\n(?:\1- .*\n(?:\1  .*\n)*)+", re.MULTILINE)


def comparable(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _OWNERS.sub(_in_order, text)


def _in_order(owners: re.Match[str]) -> str:
    head, *entries = re.split(rf"^{owners[1]}(?=- )", owners[0], flags=re.MULTILINE)
    return head + owners[1] + owners[1].join(sorted(entries))


def _comparable_outcome(ran: Ran, in_any_order: bool) -> Ran:
    out = comparable(ran.out)
    if in_any_order:
        out = "".join(sorted(out.splitlines(keepends=True)))
    return Ran(ran.code, out, comparable(ran.err))


def _assert_difference(told: str, name: str, embedded: Ran, real: Ran) -> None:
    known = DIFFERENCES[name]
    says, lacks = _only_here(embedded, real), _only_here(real, embedded)
    assert says or lacks or embedded.code != real.code, f"{told}\nno longer differs: {name}"
    assert says == _stripped(known.says), f"{told}\nsays, besides what is the same:\n{says}\n{_beside(embedded, real)}"
    assert _stripped(known.lacks) in lacks, f"{told}\nlacks:\n{lacks}"


def _only_here(one: Ran, other: Ran) -> str:
    """The lines of one outcome that the other does not have. Indentation depends on others, and does not count."""
    lines, others = (_stripped(ran.out + ran.err).splitlines() for ran in (one, other))
    matcher = SequenceMatcher(None, lines, others, autojunk=False)
    found = [line for tag, first, last, _, _ in matcher.get_opcodes() if tag != "equal" for line in lines[first:last]]
    return "\n".join(found)


def _stripped(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())


def _beside(embedded: Ran, real: Ran) -> str:
    one, other = (f"{ran.out}{ran.err}ended with {ran.code}".splitlines() for ran in (embedded, real))
    return "\n".join(unified_diff(one, other, "embedded", "real", lineterm=""))
