"""Converts Python option names to command-line options."""


def written(name: str) -> str:
    """Return the option for a Python name: `--rate-per-host` for `rate_per_host`, `--header` for `headers`."""
    return f"--{'header' if name == 'headers' else name.replace('_', '-')}"
