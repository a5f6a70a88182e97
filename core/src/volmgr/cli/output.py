"""Printing: JSON as it came, tables with rich on a terminal and in plain columns elsewhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import click


def decode(body: bytes) -> object:
    """Read an answer: objects become namespaces, which callers cast to the report they asked for."""
    result: object = json.loads(body, object_hook=lambda item: SimpleNamespace(**item))
    return result


def print_json(body: bytes) -> None:
    """Print an answer as JSON, indented."""
    print_value(json.loads(body))


def print_value(value: object) -> None:
    """Print what json can say, likewise."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_rich(headings, rows)
        return
    lines = [[heading.upper() for heading in headings], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_rich(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)
