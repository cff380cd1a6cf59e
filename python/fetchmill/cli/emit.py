"""`fetchmill emit`: writes a job definition with which a scheduler starts workers for a shared job."""

import json
import re
import shlex
import sys

import click

from fetchmill.cli.help_texts import CliCommand
from fetchmill.cli.parameter_types import COUNT, Choice
from fetchmill.cli.streams import write_line

_EXAMPLES = """
fetchmill emit slurm /lustre/run --workers 50 | sbatch
fetchmill emit kubernetes /data/run --workers 50 --image IMAGE \\
    --claim data | kubectl apply -f -
fetchmill emit kubernetes s3://bucket/run --workers 50 --image IMAGE \\
    | kubectl apply -f -
fetchmill emit aws-batch /efs/run --workers 50 --queue QUEUE \\
    --definition NAME > job.json
aws batch submit-job --cli-input-json file://job.json
"""
# Seconds from SIGTERM until Kubernetes kills a worker. A worker needs up to 25 s to end after SIGTERM.
_GRACE_SECONDS = 30
# Minimum number of slashes in a path below a folder that can be mounted.
_PARTS_MIN = 2


@click.command(
    "emit", cls=CliCommand, examples=_EXAMPLES, short_help="Write a scheduler's job definition for the workers."
)
@click.argument("scheduler", type=Choice(["slurm", "kubernetes", "aws-batch"]))
@click.argument("job", metavar="JOB", type=click.Path())
@click.option("--workers", type=COUNT, required=True, help="Number of workers to run at the same time.")
@click.option("--image", help="Container image that contains fetchmill (kubernetes).")
@click.option("--claim", help="Persistent volume claim that contains JOB (kubernetes, if JOB is a folder).")
@click.option("--queue", help="Job queue (aws-batch).")
@click.option("--definition", help="Job definition with fetchmill in its image and JOB mounted (aws-batch).")
def command(scheduler: str, job: str, workers: int, **settings: str | None) -> int:
    """Write a job definition that SCHEDULER can use to start workers for the shared job JOB. Nothing is started.

    The workers run `fetchmill join JOB`. First create the job with `fetchmill get SOURCE JOB --shared`.
    """
    in_bucket = job.startswith("s3://")
    for name in _NEEDED[scheduler]:
        if not settings[name] and not (in_bucket and name == "claim"):
            raise click.UsageError(f"{scheduler} needs --{name}")
    if in_bucket and settings["claim"]:
        raise click.UsageError("--claim needs a JOB in a folder; leave out --claim for a bucket")
    if not in_bucket and (not job.startswith("/") or job.rstrip("/").count("/") < _PARTS_MIN):
        raise click.UsageError(
            f"JOB must be a path below the mounted folder, such as /data/run, or s3://BUCKET/PREFIX, not {job}"
        )
    if scheduler == "slurm":
        text = _slurm(job, workers)
    elif scheduler == "kubernetes":
        text = json.dumps(_kubernetes(job, workers, settings), indent=2)
    else:
        text = json.dumps(_aws_batch(job, workers, settings), indent=2)
    write_line(sys.stdout, text)
    return 0


_NEEDED = {"slurm": (), "kubernetes": ("image", "claim"), "aws-batch": ("queue", "definition")}


def _name(job: str) -> str:
    """Return a name that schedulers accept: lower-case letters, digits and hyphens."""
    kept = re.sub(r"[^a-z0-9]+", "-", job.rstrip("/").rpartition("/")[2].lower()).strip("-")
    return f"fetchmill-{kept or 'job'}"[:60].rstrip("-")


def _slurm(job: str, workers: int) -> str:
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={_name(job)}",
        f"#SBATCH --array=1-{workers}",
        "#SBATCH --cpus-per-task=2",
        "# Workers end within 25 s of SIGTERM; other workers take over their ranges.",
        "#SBATCH --signal=B:TERM@60",
        f"exec fetchmill join {shlex.quote(job)}",
    ]
    return "\n".join(lines)


def _kubernetes(job: str, workers: int, settings: dict[str, str | None]) -> dict[str, object]:
    """Return a job without a completion count, so that Kubernetes starts no further workers after one succeeds."""
    container: dict[str, object] = {
        "name": "worker",
        "image": settings["image"],
        "command": ["fetchmill", "join", job],
    }
    pod: dict[str, object] = {
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [container],
    }
    if settings["claim"]:
        container["volumeMounts"] = [{"name": "job", "mountPath": job.rstrip("/").rpartition("/")[0] or "/"}]
        pod["volumes"] = [{"name": "job", "persistentVolumeClaim": {"claimName": settings["claim"]}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _name(job)},
        "spec": {"parallelism": workers, "template": {"spec": pod}},
    }


def _aws_batch(job: str, workers: int, settings: dict[str, str | None]) -> dict[str, object]:
    return {
        "jobName": _name(job),
        "jobQueue": settings["queue"],
        "jobDefinition": settings["definition"],
        # The size of an array job must be at least 2.
        **({"arrayProperties": {"size": workers}} if workers > 1 else {}),
        "containerOverrides": {"command": ["fetchmill", "join", job]},
        "retryStrategy": {"attempts": 3},
    }
