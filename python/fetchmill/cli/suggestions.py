"""Suggests the command or option that a user probably meant."""

from collections.abc import Collection

from fetchmill._options.nearest import nearest, nearest_value

# Commands of other programs and the corresponding fetchmill commands.
_COMMANDS = {
    **dict.fromkeys(("download", "fetch", "mirror", "crawl", "wget", "curl", "cp", "copy", "pull", "run"), "get"),
    **dict.fromkeys(("rsync", "update"), "sync"),
    **dict.fromkeys(("ping", "probe", "test"), "check"),
    **dict.fromkeys(("estimate", "dry-run"), "plan"),
    **dict.fromkeys(("info", "progress", "failures", "show", "watch"), "status"),
    **dict.fromkeys(("validate", "repair", "fsck"), "verify"),
    **dict.fromkeys(("convert", "unpack", "extract"), "export"),
    **dict.fromkeys(("read", "print"), "cat"),
    **dict.fromkeys(("server", "http"), "serve"),
    **dict.fromkeys(("docs", "man"), "help"),
}
_OPTIONS = {
    **dict.fromkeys(("workers", "parallel", "parallelism", "jobs", "connections", "max-concurrency"), "concurrency"),
    **dict.fromkeys(("retries", "retry", "tries", "max-retries", "max-attempts"), "attempts"),
    **dict.fromkeys(("url-col", "url-column", "url_col", "urls", "col"), "column"),
    **dict.fromkeys(("headers", "accept-language", "referer"), "header"),
    **dict.fromkeys(("output-format", "output_format", "type"), "format"),
    **dict.fromkeys(("input-format", "input_format"), "list-format"),
    **dict.fromkeys(("max-time",), "total-timeout"),
    **dict.fromkeys(("rps", "qps", "rate-limit", "max-rate"), "rate"),
    **dict.fromkeys(("limit-rate", "bandwidth", "max-bandwidth"), "bwlimit"),
    **dict.fromkeys(("token", "api-key"), "bearer"),
    **dict.fromkeys(("user", "basic", "password"), "auth"),
    **dict.fromkeys(("insecure", "no-check-certificate", "no-verify"), "insecure-host"),
    **dict.fromkeys(("filter", "match", "pattern", "glob"), "include"),
    **dict.fromkeys(("skip", "ignore", "reject"), "exclude"),
    **dict.fromkeys(("all-rows", "warc-all", "on-error"), "keep-failed"),
    **dict.fromkeys(("follow", "max-redirs", "max-redirects", "location"), "redirects"),
    **dict.fromkeys(("endpoint",), "endpoint-url"),
    **dict.fromkeys(("no-sign", "anonymous", "anon"), "no-sign-request"),
    **dict.fromkeys(("silent", "no-progress"), "quiet"),
    **dict.fromkeys(("agent", "useragent"), "user-agent"),
    **dict.fromkeys(("body", "post-data"), "data"),
    **dict.fromkeys(("request",), "method"),
}

_DESTINATION = ("names", "the destination is the second argument: fetchmill get SOURCE DEST")
_RESUME = ("retry-failed", "run the same command again to resume a job, or: fetchmill resume DEST")
_VERBOSE = ("log-file", "progress is shown by default; --log-file FILE writes a log")
# Hints about unknown options. Each value is a pair: an option that the command must accept, and the hint.
_EXPLAINED = {
    **dict.fromkeys(("o", "output", "out", "output-dir", "dest", "destination"), _DESTINATION),
    **dict.fromkeys(("resume", "continue", "c"), _RESUME),
    **dict.fromkeys(("head", "n", "max", "count", "take"), ("first", "--first N fetches only the first N targets")),
    **dict.fromkeys(("v", "verbose", "debug"), _VERBOSE),
    "limit": (
        "concurrency",
        "--concurrency N limits the requests in flight; --first N fetches only the first N targets",
    ),
}


def suggest_value(value: str, choices: Collection[str]) -> str | None:
    """Return a hint about the value that the user probably meant."""
    meant = nearest_value(value, choices)
    return f"did you mean {meant}?" if meant else None


def suggest_command(name: str, known: Collection[str]) -> str | None:
    """Return the command that the user probably meant."""
    return nearest(name, known, _COMMANDS)


def suggest_option(name: str, known: Collection[str]) -> str | None:
    """Return a hint about the option that the user probably meant.

    Args:
        name: the option that the user typed, without dashes.
        known: the command's options, without dashes.
    """
    if name in _EXPLAINED and _EXPLAINED[name][0] in known:
        return _EXPLAINED[name][1]
    meant = nearest(name, known, _OPTIONS)
    return f"did you mean --{meant}?" if meant else None
