"""Converts names of options in Python to names on the command line."""


def written(name: str) -> str:
    """Return the option for a Python name: `--rate-per-host` for `rate_per_host`, `--header` for `headers`."""
    return f"--{'header' if name == 'headers' else name.replace('_', '-')}"
