"""Groundrows: questions in, grounded rows out."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
QUERY = ["duckdb>=1.3", "polars>=1.30", "polars-avro>=0.6"]
REPORT = [*QUERY, "jinja2>=3.1,<4", "markupsafe>=3", "vl-convert-python>=1.7,<2", "xlsxwriter>=3.2,<4"]

setup(
    name="groundrows",
    version="0.1.0",
    description="Ask the Grounded Generation API a hundred thousand questions; get rows you can query.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    # groundrows/ links to pipeline, transforms, schemas and templates: all is installed under one name.
    packages=find_packages(include=["groundrows*"]),
    package_data={
        "groundrows": ["py.typed"],
        "groundrows.schemas": ["*.avsc"],
        "groundrows.schemas.released": ["*/*.avsc"],
        "groundrows.pipeline": ["samples/*.jsonl", "samples/*.json"],
        "groundrows.pipeline.emulator.answering": ["texts/*.txt"],
        "groundrows.pipeline.pages": ["page/*.html", "page/*.css", "page/*.js"],
        "groundrows.pipeline.browse": ["page/*.html", "page/*.css", "page/*.js"],
        "groundrows.pipeline.report": ["page/*.html", "page/*.css", "page/*.js"],
        "groundrows.templates.sql": ["*.sql"],
    },
    install_requires=[
        "apache-beam[gcp]==2.77.*",
        "google-cloud-pubsub>=2.30,<3",
        "google-cloud-discoveryengine>=0.20.5,<0.21",
        "grpcio>=1.70",
        "protobuf>=6.33,<7",
        "googleapis-common-protos>=1.70",
        "google-auth>=2.30",
        "aiohttp>=3.11,<4",
        "yarl>=1.18,<2",
        "ijson>=3.3,<4",
        "fastavro>=1.12,<2",
        "pyarrow>=18",
        "cramjam>=2.9",
        "backports.zstd>=1",
        "zstandard>=0.23",
        "redis>=6,<9",
        "datasketches>=5.2,<6",
        "rank-bm25>=0.2.2,<0.3",
        "rich>=14",
        "shtab>=1.7,<2",
    ],
    extras_require={
        "query": QUERY,
        "report": REPORT,
        "dev": [
            *REPORT,
            "axe-playwright-python>=0.1.4",
            "gcp-storage-emulator>=2024.8",
            "google-genai>=2.34",
            "hypothesis>=6.100",
            "openpyxl>=3.1,<4",
            "mypy>=1.15",
            "pandas>=3,<4",
            "playwright>=1.50",
            "pytest>=8.3",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.6",
            "ruff>=0.11",
            "setuptools>=77,<82",
            "types-grpcio",
            "types-protobuf",
        ],
    },
    entry_points={"console_scripts": ["groundrows=groundrows.pipeline.cli:main"]},
)
