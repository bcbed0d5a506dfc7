# %% [markdown]
# # A set from Python
#
# Run it as a script, or cell by cell in an editor or notebook. It starts a cluster in this process, so it needs no
# other one. With a cluster of yours, replace `local()` by `Client()`.

# %%
from grove.sdk import PodCliqueSet, WaitTimeout, clique, group, local, pod_clique_set, to_yaml

# %% [markdown]
# A model served in two stages: a router, and instances of a leader and a worker that are placed together.


# %%
def build(version: str) -> PodCliqueSet:
    return pod_clique_set(
        "chat",
        [
            clique("router", image="example/router:1.0", replicas=2, min_available=1),
            clique("leader", image=f"example/engine:{version}", cpu=4, memory="32Gi", gpus=4),
            clique("worker", image=f"example/engine:{version}", cpu=4, memory="32Gi", gpus=4),
        ],
        groups=[group("decode", ["leader", "worker"], replicas=2)],
    )


chat = build("1.0")
print(to_yaml(chat))

# %% [markdown]
# Submit it, and wait until every pod is ready.

# %%
cluster = local(nodes=4)
client = cluster.__enter__()
client.submit(chat)
client.wait(chat, "ready", timeout=60, on_progress=print)

# %% [markdown]
# Scale one group, then read the last line of every pod.

# %%
client.scale("pcsg/chat-0-decode", 3)
client.wait(chat, "ready", timeout=60)
for line in client.logs(chat, tail=1):
    print(line)

# %% [markdown]
# Update it, then undo the update.

# %%
client.submit(build("2.0"))
client.wait(chat, "updated", timeout=120)
undone = client.undo(chat)
client.wait(chat, "updated", timeout=120)
print(f"revision {undone.from_revision} -> {undone.to_revision}")

# %% [markdown]
# Ask for more than the cluster has, and ask why it does not run.

# %%
client.scale("pcsg/chat-0-decode", 9)
try:
    client.wait(chat, "ready", timeout=3)
except WaitTimeout as error:
    print(error)
for sentence in client.why(chat):
    print(sentence.text)

# %% [markdown]
# Delete it with all its pods, and end the cluster.

# %%
client.delete(chat, timeout=60)
cluster.__exit__(None, None, None)
