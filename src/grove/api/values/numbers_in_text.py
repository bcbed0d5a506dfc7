"""Read numbers from labels and annotations. Any user who may edit the object can write any text there."""

# Every such number fits into 64 bits. Python rejects the conversion of some thousand digits with an exception.
_MOST_DIGITS = 18


def is_number(text: str) -> bool:
    """Return whether the text is a number as Grove writes it: at most 18 decimal digits."""
    return len(text) <= _MOST_DIGITS and text.isdecimal()


def parse_number(text: str, default: int = -1) -> int:
    """Return the number in a label or annotation, or `default` if the text is none."""
    return int(text) if is_number(text) else default
