# A small image that runs the gateway as an unprivileged user. See docs/install.md.
FROM python:3.12-slim AS build
WORKDIR /src
COPY requirements/run.lock requirements/
RUN python -m venv /opt/tieline \
    && /opt/tieline/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src src
# Optional requirements, such as `--build-arg EXTRAS=postgres`. They are not locked.
ARG EXTRAS=
RUN /opt/tieline/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && if [ -n "$EXTRAS" ]; then \
        /opt/tieline/bin/pip install --no-cache-dir --only-binary=:all: --no-build-isolation ".[$EXTRAS]"; \
    fi \
    && /opt/tieline/bin/pip uninstall --yes pip flit_core

FROM python:3.12-slim
RUN useradd --uid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin tieline
COPY --from=build /opt/tieline /opt/tieline
ENV PATH=/opt/tieline/bin:$PATH \
    HOME=/data \
    XDG_CONFIG_HOME=/data/config \
    XDG_STATE_HOME=/data/state \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
# Logins, sessions and stored responses.
VOLUME /data
EXPOSE 18741
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:18741/healthz', timeout=3)"]
ENTRYPOINT ["tieline"]
# The gateway refuses to listen on this address without a key: set TIELINE_KEY.
CMD ["serve", "--host", "0.0.0.0"]
