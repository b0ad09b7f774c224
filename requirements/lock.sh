#!/bin/sh
# Renews the locked versions: every package with its hash, for all platforms and Python >= 3.11.
# Needs uv. Run from the project's top folder, then read the diff before you commit it.
set -eu
compile="uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links"
$compile --output-file requirements/run.txt pyproject.toml requirements/build.in
$compile --output-file requirements/test.txt --constraint requirements/run.txt --group test pyproject.toml requirements/build.in
$compile --output-file requirements/adapters.txt --constraint requirements/test.txt --extra bm25s --extra langchain --extra langgraph --extra mcp --extra mem0 --extra otel --extra parquet --extra upload --group adapters pyproject.toml
$compile --output-file requirements/lint.txt --constraint requirements/adapters.txt --constraint requirements/test.txt --group test --group lint pyproject.toml requirements/build.in
$compile --output-file requirements/llama.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --group llama pyproject.toml
$compile --output-file requirements/inspect.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --extra inspect pyproject.toml
$compile --output-file requirements/ray.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --extra ray pyproject.toml
$compile --output-file requirements/frames.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --extra pandas --extra polars pyproject.toml
$compile --output-file requirements/s3.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --extra upload --group s3 pyproject.toml
$compile --output-file requirements/release.txt --constraint requirements/lint.txt --constraint requirements/adapters.txt --group release requirements/build.in
$compile --output-file requirements/docs.txt --constraint requirements/adapters.txt --constraint requirements/lint.txt --group docs pyproject.toml requirements/build.in
