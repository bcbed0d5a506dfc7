# The image of the operator: `docker build -t grove-operator:VERSION .`
# Built in one stage, run in another: neither pip nor a compiler is in the result.
# For a build that can be repeated, pin the base image: --build-arg BASE=python:3.13-slim@sha256:...
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /source
RUN python -m venv --without-pip /opt/grove
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# Only what is published as a wheel, in the versions that the tests run with.
RUN pip --python /opt/grove/bin/python install --no-cache-dir --only-binary :all: --no-binary grove-operator \
    --constraint constraints.txt .

FROM ${BASE}
COPY --from=build /opt/grove /opt/grove
ENV PATH=/opt/grove/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can tell that it is not root; `grove manifests` names the same.
USER 65532:65532
ENTRYPOINT ["grove"]
CMD ["operator"]
