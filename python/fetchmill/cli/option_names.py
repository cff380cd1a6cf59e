"""How the command line writes the names that options have in Python."""


def written(name: str) -> str:
    """`--rate-per-host` for `rate_per_host`; the fields of a request are given one by one."""
    return f"--{'header' if name == 'headers' else name.replace('_', '-')}"
