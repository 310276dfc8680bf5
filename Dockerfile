# An image with Threadwire and what PostgreSQL and Redis need, serving the example agents.
# For a project of your own: threadwire dockerfile Dockerfile
FROM python:3.11-slim

WORKDIR /threadwire
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[postgres,examples]'

COPY examples /deps/examples
WORKDIR /deps/examples

# Not root, and with a fixed number, so that Kubernetes can check it.
RUN useradd --create-home --uid 10001 threadwire
USER 10001

ENV THREADWIRE_CONFIG=/deps/examples/langgraph.json THREADWIRE_HOST=0.0.0.0 THREADWIRE_PORT=2024 THREADWIRE_DATA=/home/threadwire/data
EXPOSE 2024
CMD ["threadwire", "serve"]
