"""Workers of a shared job in a Ray cluster.

`RayJob` runs in the caller's process and reads the job directory; it never imports Ray. It starts `launcher`, a process
that talks to Ray and keeps the workers running. Ray may hang or end that process. The job directory still shows which
ranges are final.
"""
