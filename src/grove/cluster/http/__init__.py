"""The embedded API over HTTP: for kubectl and everybody else on this machine, and for nobody beyond it."""
