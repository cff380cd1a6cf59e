# An image with the command `fetchmill`, made of a wheel in dist/ (`make wheel`, or `make wheels` for aarch64 too):
#
#     docker build --tag fetchmill .
#     docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/data" fetchmill get https://example.org/data/ out/
#
# In a container the system calls that `fetchmill torture` needs are usually forbidden. Everything else works.
FROM python:3.13-slim

RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir --no-index --find-links /dist --no-deps fetchmill \
    && pip install --no-cache-dir fetchmill

WORKDIR /data
ENTRYPOINT ["fetchmill"]
