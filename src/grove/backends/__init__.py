"""What a gang and its pods look like to a scheduler: one file per scheduler, all of them pure."""
