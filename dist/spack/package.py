# SPDX-License-Identifier: BSD-3-Clause
"""Spack package: copy it to a repository's packages/cairn/package.py."""
from spack.package import *


class Cairn(CMakePackage):
    """Checkpoints at memory speed for MPI and GPU applications."""

    license("BSD-3-Clause")
    version("main", branch="main")

    variant("mpi", default=True, description="Sessions of MPI programs")
    variant("ucx", default=False, description="Sessions of several processes without MPI")
    variant("hdf5", default=True, description="cairn extract writes HDF5; ingest reads it")
    variant("broker", default=True, description="cairn-broker")
    variant("munge", default=False, when="+broker", description="Logins at the broker by MUNGE")
    variant("compression", default=True, description="zstd, lz4 and zlib")
    variant("floats", default=False, description="fpzip and zfp, for floating-point data")
    variant("isal", default=True, when="target=x86_64:", description="Faster Reed-Solomon parity")

    depends_on("c", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("inih")
    depends_on("xxhash")
    depends_on("mpi", when="+mpi")
    depends_on("ucx@1.11:", when="+ucx")
    depends_on("hdf5", when="+hdf5")
    depends_on("libevent@2.1:", when="+broker")
    depends_on("libsodium", when="+broker")
    depends_on("munge", when="+munge")
    for library in ("zstd", "lz4", "zlib-api"):
        depends_on(library, when="+compression")
    for library in ("fpzip", "zfp"):
        depends_on(library, when="+floats")
    depends_on("isa-l", when="+isal")

    generator("ninja")

    # What the variants do not ask for stays off, whatever the machine has.
    options = {"MPI": "mpi", "UCX": "ucx", "HDF5": "hdf5", "BROKER": "broker", "SODIUM": "broker",
               "MUNGE": "munge", "ZSTD": "compression", "LZ4": "compression", "ZLIB": "compression",
               "FPZIP": "floats", "ZFP": "floats", "ISAL": "isal"}

    def cmake_args(self):
        args = [self.define("CAIRN_TESTS", False), self.define("CAIRN_BENCH", False),
                self.define("CAIRN_WITH_FORTRAN", "OFF"), self.define("CAIRN_WITH_PHDF5", "OFF")]
        for option, variant in self.options.items():
            args.append(self.define(f"CAIRN_WITH_{option}",
                                    "ON" if self.spec.satisfies(f"+{variant}") else "OFF"))
        return args
