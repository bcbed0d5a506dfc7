"""Operations on sets that the command line and the SDK share: apply, scale, restart, undo, logs, explanations."""
