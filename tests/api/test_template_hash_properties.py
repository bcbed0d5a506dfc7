"""Templates in any order: what means the same hashes the same, and what does not, does not."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grove.api.template_hash import canonical_template, generation_hash, template_hash
from grove.api.types.meta import JsonObject
from tests.api.manifests import clique, decoded, manifest

WORDS = st.sampled_from(["a", "b", "c", "d"])
NUMBERS = st.integers(1, 4)


def unique(items: st.SearchStrategy[JsonObject], *keys: str) -> st.SearchStrategy[list[JsonObject]]:
    return st.lists(items, max_size=3, unique_by=lambda item: tuple(item.get(key, "") for key in keys))


PORTS = unique(
    st.fixed_dictionaries({"containerPort": NUMBERS}, optional={"protocol": st.sampled_from(["UDP", "SCTP"])}),
    "containerPort",
    "protocol",
)
CONTAINERS = st.fixed_dictionaries(
    {"name": WORDS, "image": WORDS},
    optional={
        "env": unique(st.fixed_dictionaries({"name": WORDS, "value": WORDS}), "name"),
        "ports": PORTS,
        "volumeMounts": unique(st.fixed_dictionaries({"mountPath": WORDS, "name": WORDS}), "mountPath"),
        "args": st.lists(WORDS, max_size=3),
    },
)
POD_SPECS = st.fixed_dictionaries(
    {"containers": unique(CONTAINERS, "name").filter(bool)},
    optional={
        "initContainers": unique(CONTAINERS, "name"),
        "volumes": unique(st.fixed_dictionaries({"name": WORDS, "emptyDir": st.just({})}), "name"),
        "imagePullSecrets": unique(st.fixed_dictionaries({"name": WORDS}), "name"),
        "nodeSelector": st.dictionaries(WORDS, WORDS, max_size=3),
        "tolerations": st.lists(st.fixed_dictionaries({"key": WORDS}), max_size=2),
    },
)
# Lists whose order means nothing; that of all others does.
MAPS = ("containers", "env", "ports", "volumeMounts", "volumes", "imagePullSecrets")


def hash_of(pod: JsonObject, **fields: Any) -> str:
    return template_hash(decoded(manifest(clique(pod=pod, **fields))).spec.template.cliques[0], "")


def shuffled(draw: st.DrawFn, value: Any, name: str = "") -> Any:
    """The same in another order of keys and list-maps, with nulls strewn in."""
    if isinstance(value, dict):
        keys = draw(st.permutations(sorted(value)))
        found = {key: shuffled(draw, value[key], key) for key in keys}
        return {**found, "nothing": None} if draw(st.booleans()) else found
    if isinstance(value, list):
        items = [shuffled(draw, item) for item in value]
        return draw(st.permutations(items)) if name in MAPS and name != "initContainers" else items
    return value


@given(POD_SPECS, st.data())
def test_the_order_of_keys_and_of_list_maps_and_nulls_are_no_change(pod: JsonObject, data: st.DataObject) -> None:
    other = shuffled(data.draw, pod)  # type: ignore[arg-type]
    assert hash_of(other) == hash_of(pod)


@given(POD_SPECS, POD_SPECS)
def test_equal_hashes_mean_equal_pods(one: JsonObject, other: JsonObject) -> None:
    """Up to the order of list-maps; everything else that differs shows."""
    assert (hash_of(one) == hash_of(other)) == (in_order(one) == in_order(other))


def in_order(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: in_order(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [in_order(item) for item in value]
        return sorted(items, key=repr) if name in MAPS else items
    return value


@given(st.lists(WORDS, min_size=2, max_size=4, unique=True), st.sampled_from(["args", "command"]))
def test_the_order_of_commands_and_arguments_is_a_change(words: list[str], field: str) -> None:
    one, other = ({"containers": [{"name": "m", field: list(order)}]} for order in (words, reversed(words)))
    assert hash_of(one) != hash_of(other)


@given(st.lists(WORDS, min_size=2, max_size=4, unique=True))
def test_the_order_of_init_containers_is_a_change_that_of_containers_is_not(names: list[str]) -> None:
    def pod(field: str, order: list[str]) -> JsonObject:
        return {"containers": [{"name": "m"}], field: [{"name": name} for name in order]}

    back = names[::-1]
    assert hash_of(pod("initContainers", names)) != hash_of(pod("initContainers", back))
    assert hash_of(pod("containers", names)) == hash_of(pod("containers", back))


@given(st.lists(WORDS, min_size=2, max_size=4, unique=True), st.booleans())
def test_the_order_of_variables_is_a_change_only_if_one_refers_to_another(names: list[str], refers: bool) -> None:
    variables = [{"name": name, "value": f"$({names[0]})" if refers else "x"} for name in names]
    one, other = ({"containers": [{"name": "m", "env": env}]} for env in (variables, variables[::-1]))
    assert (hash_of(one) != hash_of(other)) == refers


@given(st.permutations([clique("a"), clique("b", labels={"x": "y"}), clique("c", pod={"hostNetwork": True})]))
def test_the_order_of_cliques_is_no_change(cliques: list[JsonObject]) -> None:
    sorted_ = sorted(cliques, key=lambda one: str(one["name"]))
    found, expected = (generation_hash(decoded(manifest(*order)).spec.template) for order in (cliques, sorted_))
    assert found == expected


def test_two_entries_of_one_key_keep_their_order() -> None:
    """Somebody means something by it, even if an API server would refuse it."""
    one, other = {"name": "A", "value": "1"}, {"name": "A", "value": "2"}
    hashes = [hash_of({"containers": [{"name": "m", "env": list(env)}]}) for env in ([one, other], [other, one])]
    assert hashes[0] != hashes[1]


def test_the_canonical_form_is_pinned() -> None:
    pod = {
        "volumes": [{"name": "b", "emptyDir": {}}, {"name": "a", "emptyDir": None}],
        "containers": [{"name": "m", "ports": [{"containerPort": 9, "protocol": "TCP"}], "args": ["z", "a"]}],
    }
    (template,) = decoded(manifest(clique(pod=pod, labels={"y": "1", "x": "2"}))).spec.template.cliques
    assert canonical_template(template, "high").decode() == (
        '{"annotations":{},"labels":{"x":"2","y":"1"},"podSpec":{'
        '"containers":[{"args":["z","a"],"name":"m","ports":[{"containerPort":9}]}],'
        '"priorityClassName":"high",'
        '"volumes":[{"name":"a"},{"emptyDir":{},"name":"b"}]}}'
    )
