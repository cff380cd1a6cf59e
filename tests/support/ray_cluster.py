"""A Ray cluster of a head without CPUs and some nodes, for tests: `python ray_cluster.py FOLDER NODES CPUS`.

It prints `address HOST:PORT`. A line on standard input is the number of a node, which is killed with all its processes.
The end of the input ends the cluster. It runs in a network namespace that has only loopback.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    """Runs until the end of the input."""
    folder, count, cpus = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # /tmp/ray may belong to another cluster of this machine.
    os.environ["RAY_TMPDIR"] = str(folder)
    folder = folder / "ray"
    folder.mkdir()
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "temp_dir": str(folder)}
    )
    nodes = [cluster.add_node(num_cpus=cpus, temp_dir=str(folder)) for _ in range(count)]
    print("address", cluster.address, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
        print("killed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    main()
