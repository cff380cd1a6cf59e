"""Workers of a shared job in a Ray cluster.

`RayJob` runs in the caller's process and reads the job directory; it never imports Ray. It starts `launcher`, a process
that communicates with Ray and keeps the workers running. If Ray hangs or ends that process, the job directory still
shows which ranges are final.
"""
