"""The connection to a Ray cluster, and connection errors."""

import os
import socket
from typing import Any

import ray

from fetchmill.errors import TemporaryError, UsageError

_CLIENT = "ray://"
_AUTH = "RAY_AUTH_MODE"
_LISTENS_SECONDS = 10.0


def connect() -> str:
    """Connect to the cluster at RAY_ADDRESS. If it is not set, use a cluster on this machine, or start a local one.

    Returns:
        A human-readable line that describes the cluster.

    Raises:
        UsageError: RAY_ADDRESS cannot be used.
        TemporaryError: the cluster does not answer.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith(_CLIENT):
        raise UsageError(
            f"RAY_ADDRESS={address}: Ray Client is not supported; run the command on a node of the "
            "cluster, for example: ray job submit -- fetchmill get ... --on ray"
        )
    if address == "local":
        return _start_local()
    _check_listens(address)
    try:
        _init(address or "auto")
    except Exception as error:
        if not address and isinstance(error, ConnectionError):
            return _start_local()
        raise _refusal(address or "the cluster on this machine", error) from error
    count = len(nodes())
    return f"Ray cluster at {ray.get_runtime_context().gcs_address}, {count} node{'' if count == 1 else 's'} with CPUs"


def disconnect() -> None:
    """Close the connection. Stop the local Ray if `connect` started it. This may wait for nodes that do not answer."""
    ray.shutdown()


def nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster that are alive and have CPUs."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def free_cpus() -> float:
    """Return the number of CPUs in the cluster that are not reserved."""
    return float(ray.available_resources().get("CPU", 0.0))


def _check_listens(address: str) -> None:
    """Refuse an address at which no process listens, because Ray would keep trying it for minutes."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _LISTENS_SECONDS).close()
    except OSError as error:
        raise _refusal(address, error) from error


def _start_local() -> str:
    # Turn off usage statistics, because this Ray is only for this job and the user has not agreed to them.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        _init("local", include_dashboard=False)
    except Exception as error:
        raise _refusal("a local Ray", error) from error
    return "found no Ray cluster (RAY_ADDRESS is not set); started a local Ray on this machine"


def _init(address: str, **options: Any) -> None:  # noqa: ANN401 - arguments of ray.init
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)


def _refusal(where: str, error: Exception) -> Exception:
    text = str(error)
    said = text.strip().splitlines()[0][:300] if text.strip() else type(error).__name__
    if "auth" in type(error).__name__.lower() or "InvalidAuthToken" in text:
        return UsageError(
            f"{where} rejected this process ({said}); set {_AUTH} to the value used on the cluster's nodes"
        )
    return TemporaryError(f"{where} does not respond ({said}); check RAY_ADDRESS and that Ray is running (ray status)")
