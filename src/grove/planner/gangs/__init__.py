"""PodGangs: their content, scheduling gates of their pods, and the objects that schedulers keep for them."""
