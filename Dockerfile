# The API or the paper trader in a container: pacesetter serve | paper. Build: docker build -t pacesetter .
FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93 AS build
WORKDIR /app
COPY locks/serve.txt locks/files.sha256 locks/
# Without torch, which only making a bundle needs: what is served is ONNX.
RUN grep == locks/serve.txt | LC_ALL=C sort | LC_ALL=C join - locks/files.sha256 > hashed.txt \
    && python -m venv /venv && /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r hashed.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /venv/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93
RUN useradd --system --uid 10001 --create-home pacesetter && install -d -o pacesetter /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 NUMBA_CACHE_DIR=/tmp/numba
USER pacesetter
WORKDIR /data
EXPOSE 8000
ENTRYPOINT ["pacesetter"]
CMD ["serve", "bundles", "--host", "0.0.0.0", "--keys", "/run/secrets/api_keys"]
