# SPDX-License-Identifier: BSD-3-Clause
"""The build backend of the package (PEP 517): a wheel by the standard library alone, so that pip
installs it without a network and into environments that lack setuptools."""
import base64
import hashlib
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "cairn"


def _value(file, key):
    return re.search(f'^{key} = "(.*)"', (HERE / file).read_text(), re.M).group(1)


def _version():
    return _value("cairn/_declarations.py", "VERSION")


def _metadata():
    summary = _value("pyproject.toml", "description")
    python = _value("pyproject.toml", "requires-python")
    return (f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {_version()}\nSummary: {summary}\n"
            f"License: BSD-3-Clause\nRequires-Python: {python}\n").encode()


def _sources():
    return sorted((HERE / PACKAGE).glob("*.py"))


def _write(path, files):
    """A wheel of these files (name -> bytes) and their hashes, the same bytes every time."""
    info = f"{PACKAGE}-{_version()}.dist-info"
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = (b"Wheel-Version: 1.0\nGenerator: cairn\nRoot-Is-Purelib: true\n"
                              b"Tag: py3-none-any\n")
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980-01-01
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return pathlib.Path(path).name


def _wheel_name(directory):
    return pathlib.Path(directory) / f"{PACKAGE}-{_version()}-py3-none-any.whl"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(_wheel_name(wheel_directory),
                  {f"{PACKAGE}/{p.name}": p.read_bytes() for p in _sources()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """pip install --editable: a wheel that names this folder."""
    return _write(_wheel_name(wheel_directory), {f"{PACKAGE}.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    root = f"{PACKAGE}-{_version()}"
    path = pathlib.Path(sdist_directory) / f"{root}.tar.gz"
    files = [HERE / "pyproject.toml", HERE / "README.md", pathlib.Path(__file__), *_sources()]
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            archive.add(file, f"{root}/{file.relative_to(HERE)}")
        (pathlib.Path(sdist_directory) / "PKG-INFO").write_bytes(_metadata())
        archive.add(pathlib.Path(sdist_directory) / "PKG-INFO", f"{root}/PKG-INFO")
    (pathlib.Path(sdist_directory) / "PKG-INFO").unlink()
    return path.name
