"""`python -m bench`: every figure, in one run."""

from bench import admission, cli_start, creation, durable, http, pod_event, rollout, waiting
from bench.table import show


def main() -> None:
    show("One pod event", pod_event.measure())
    show("From nothing to ready", creation.measure())
    show("Writes", creation.measure_writes())
    show("A rolling update, early and late", rollout.measure_in_process())
    show("Memory", creation.measure_memory())
    show("The API over HTTP", http.measure())
    show("Starting a command", cli_start.measure())
    show("Pods that wait for a leader", waiting.measure())
    show("A cluster that is kept on disk", durable.measure())
    show("Admission of the largest bodies", admission.measure_rules())
    show("Where the time of 1,000 pods goes", creation.measure_rooms())


if __name__ == "__main__":
    main()
