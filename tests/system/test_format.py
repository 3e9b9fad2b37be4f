"""The style that the whole tree keeps."""

import pathlib
import re
import subprocess

import pytest

from conftest import ROOT

FOLDERS = ("core", "server", "client", "tests")
SOURCES = sorted(p for folder in FOLDERS for kind in ("*.cc", "*.h") for p in (ROOT / folder).rglob(kind))


def test_clang_format():
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *SOURCES], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_every_message_and_field_has_a_comment():
    declares = re.compile(r"\s*((message|enum|service|rpc|optional|repeated)\b|map<|\w[\w.]* \w+ = \d+)")
    bare = []
    for path in sorted((ROOT / "proto/accel").rglob("*.proto")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if declares.match(line) and "//" not in line and not lines[number - 1].strip().startswith("//"):
                bare.append(f"{path.relative_to(ROOT)}:{number + 1}: {line.strip()}")
    assert not bare


def test_headers_are_guarded_by_their_path():
    for path in SOURCES:
        if path.suffix == ".h":
            guard = "ACCEL_" + re.sub(r"[/.]", "_", str(path.relative_to(ROOT))).upper() + "_"
            assert f"#ifndef {guard}\n#define {guard}\n" in path.read_text(), path


@pytest.mark.parametrize("layer, forbidden", [
    ("proto", ("core/", "server/", "client/")),
    ("core", ("server/", "client/")),
    ("client", ("server/", "core/record", "core/tracking", "core/engine")),
    ("server", ("client/",)),
    ("core/config", ("torch/", "ATen/", "c10/", "core/engine", "core/record")),
    ("core/record", ("torch/", "ATen/", "c10/", "core/engine", "core/config")),
    ("core/tracking", ("torch/", "ATen/", "c10/", "core/engine", "grpcpp/")),
    ("server/daemon", ("torch/", "ATen/", "c10/", "core/engine")),
    ("server/supervisor", ("torch/", "ATen/", "c10/", "core/engine", "grpcpp/")),
])
def test_arrows_between_folders_go_one_way(layer, forbidden):
    for path in (ROOT / layer).rglob("*.*"):
        if path.suffix in (".cc", ".h"):
            for include in re.findall(r'#include ["<]([^">]+)', path.read_text()):
                assert not include.startswith(forbidden), f"{path} includes {include}"


@pytest.mark.parametrize("program, libraries", [
    ("acceld", ("torch", "c10")), ("accel-supervisor", ("torch", "c10", "grpc")), ("accel-worker", ("grpc",)),
    ("accelctl", ("torch", "c10")),
])
def test_programs_do_not_load(program, libraries):
    from conftest import BIN

    loaded = subprocess.run(["ldd", BIN / program], capture_output=True, text=True, check=True).stdout
    for library in libraries:
        assert f"lib{library}" not in loaded, (program, library)
