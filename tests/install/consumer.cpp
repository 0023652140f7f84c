/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn.hpp through the installed package: containers, blocks, exceptions, moves. */
#ifdef WITH_MPI
#include <cairn/cairn_mpi.h>
#endif
#ifdef STAND_IN
#include "stand-in/mdspan"
#endif
#include <cairn/cairn.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#ifdef __cpp_lib_span
#include <span>
#endif

static void require(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "consumer: %s\n", what);
        std::exit(1);
    }
}

struct particle {
    double x, v;
    int id;
};

static cairn::session open()
{
#ifdef WITH_MPI
    return cairn::session::open_mpi(MPI_COMM_WORLD, {"persistent=plusplus", "arena_bytes=1M"});
#else
    return cairn::session({"persistent=plusplus", "arena_bytes=1M"});
#endif
}

static void run()
{
    std::vector<double> field(100);
    std::array<std::int32_t, 8> small{};
    std::vector<particle> particles(5);
    std::vector<float> block(12);
    cairn::session first = open();
    cairn::session s = std::move(first);

    require(first.handle() == nullptr && s.rank() == 0 && s.ranks() == 1, "a moved session");
    require(!s.restart("none"), "nothing stored is no value");
    s.protect("field", field);
    s.protect("small", small);
    s.protect("particles", particles);
    s.protect("block", block.data(), cairn::shape{{3, 4}, {3, 4}, {0, 0}});
#ifdef __cpp_lib_span
    std::vector<std::complex<double>> waves(7, {1, 2});
    s.protect("waves", std::span(waves).subspan(2));
#endif
    std::iota(field.begin(), field.end(), 1.0);
    small[7] = -3;
    particles[4] = {1.5, 2.5, 42};
    block[11] = 0.25F;
    require(s.event_fd() >= 0, "a descriptor for poll");
    s.checkpoint("plusplus", 3);
    s.wait("plusplus", 3);
    require(s.test("plusplus", 3, CAIRN_PERSISTENT), "persistent");
    require(s.stats("plusplus", 3).bytes > 800, "statistics");
    cairn_checkpoint_options with{};
    with.level = CAIRN_PERSISTENT;
    s.checkpoint_with("options", 4, with, {"field"});
    s.wait("options", 4, CAIRN_PROTECTED);
    require((s.stats("options", 4).levels & CAIRN_LEVEL_BIT(CAIRN_LOCAL)) != 0, "a set of levels");
    with.flags = CAIRN_LAZY;
    s.checkpoint_with("options", 5, with);
    s.source_free();
    field[0] = -1;
    s.restore("options", 5);
    require(field[0] == 1, "a lazy checkpoint");
    require(s.version_info("plusplus", 3).ranks == 1, "information");
    require(s.region_info("plusplus", 3, "block").dims[1] == 4, "the shape of a block");
    std::string regions;
    for (std::uint32_t i = 0; auto r = s.region_at("plusplus", 3, i); i++)
        regions += r->first + (r->first == "block" ? std::to_string(r->second.dims[0]) : "") + " ";
    require(regions.find("field ") == 0 && regions.find("block3 ") != std::string::npos, "each region");
    require(s.find_version("plusplus", 3) && !s.find_version("plusplus", 4), "a version that exists");
    require(s.list_versions("plusplus") == std::vector<std::int64_t>{3}, "a list");

    field.assign(100, 0);
    small.fill(0);
    particles.assign(5, particle{});
    block.assign(12, 0);
    require(s.restart("plusplus").value() == 3, "restart");
    require(field[0] == 1 && field[99] == 100 && small[7] == -3, "numbers came back");
    require(particles[4].id == 42 && block[11] == 0.25F, "structs and blocks came back");
    small.fill(9);
    s.restore("plusplus", 3, {"small"});
    require(small[7] == -3, "one region");
    block.assign(12, 0);
    s.restore_from("plusplus", 3, 0, {"block"});
    require(block[11] == 0.25F, "of an old rank");
#ifdef __cpp_lib_mdspan
    std::vector<double> plane(6, 1.5);
    s.protect("plane", std::mdspan<double, std::dextents<int, 2>>(plane.data(), 2, 3));
    s.checkpoint("planes", 1, {"plane"});
    s.wait("planes", 1);
    require(s.region_info("planes", 1, "plane").dims[1] == 3, "the shape of an mdspan");
    s.unprotect("plane");
#endif
    std::vector<std::uint16_t> table(6, 7);
    s.protect_replicated("table", table.data(), {2, 3});
    s.checkpoint("alike", 1, {"table"});
    s.wait("alike", 1);
    table.assign(6, 0);
    s.restore("alike", 1, {"table"});
    require(table[5] == 7, "what all ranks hold alike");
    s.drop_local("alike");
    s.remove("alike", 1);
    require(s.list_versions("alike").empty(), "a removed version");
    s.unprotect("table");
#ifdef __cpp_lib_expected
    require(s.try_restart("plusplus").value() == 3, "expected");
    require(s.try_restart("none").error().code() == CAIRN_ENOENT, "unexpected");
#endif
    (void)s.should_checkpoint("plusplus");
    require(!s.should_stop(), "advice");
    try {
        s.checkpoint("bad name", 1);
        require(false, "a bad name throws");
    } catch (const cairn::error &e) {
        require(e.code() == CAIRN_EINVAL && std::string(e.what()).size() > 5, "the error says it");
    }
    s.close();
}

int main(int argc, char **argv)
{
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
#else
    (void)argc;
    (void)argv;
#endif
    run();
#ifdef WITH_MPI
    MPI_Finalize();
#endif
}
