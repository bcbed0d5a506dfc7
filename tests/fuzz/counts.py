"""How many hostile requests `make test-all` sends, by the way they take."""

IN_PROCESS = 8_000
# The quick tier has the first.
IN_PROCESS_RUNS = 8
ON_SOCKETS = 600
# By a state machine that knows what it has stored.
BY_MACHINE = 1_000
# Made by schemathesis from what the server says of itself.
BY_DOCUMENT = 400
ALL = 10_000
