/* SPDX-License-Identifier: BSD-3-Clause */
/* Cairn for C++17 and later: a session that closes itself, regions from containers, exceptions.
 *
 *     #include <cairn/cairn_mpi.h> // before this one, for programs with MPI
 *     #include <cairn/cairn.hpp>
 *
 *     auto s = cairn::session::open_mpi(MPI_COMM_WORLD);
 *     s.protect("temperature", t);                      // a std::vector<double>
 *     std::int64_t step = s.restart("heat").value_or(0); // no value: there is nothing to restore
 *     for (bool stop = false; step < last && !stop;) {
 *         compute(t);
 *         step++;
 *         stop = s.should_stop();
 *         if (s.should_checkpoint("heat"))
 *             s.checkpoint("heat", step);
 *     }
 *     s.close();                                        // waits until all is on the file system
 *
 * Every member is the function of cairn.h with its name; that file says what it promises. A failure
 * throws cairn::error, whose what() is cairn_last_error(). The destructor closes the session too,
 * but cannot report a failure: call close(). */
#ifndef CAIRN_HPP
#define CAIRN_HPP

#include "cairn.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif
#ifdef __cpp_lib_expected
#include <expected>
#endif

namespace cairn {

class error : public std::runtime_error {
public:
    error(cairn_err code, const char *what) : std::runtime_error(what), code_(code) {}
    cairn_err code() const noexcept { return code_; }
    const char *name() const noexcept { return cairn_error_name(code_); }

private:
    cairn_err code_;
};

inline void check(cairn_err rc)
{
    if (rc != CAIRN_OK)
        throw error(rc, cairn_last_error());
}

/* The cairn_type of a C++ type; any other trivially copyable type counts as bytes. */
template <class T> constexpr cairn_type type_of()
{
    using U = std::remove_cv_t<T>;
    static_assert(std::is_trivially_copyable_v<U>, "only trivially copyable types can be protected");
    if constexpr (std::is_same_v<U, float>)
        return CAIRN_F32;
    else if constexpr (std::is_same_v<U, double>)
        return CAIRN_F64;
    else if constexpr (std::is_same_v<U, std::complex<float>>)
        return CAIRN_C64;
    else if constexpr (std::is_same_v<U, std::complex<double>>)
        return CAIRN_C128;
    else if constexpr (std::is_same_v<U, bool>)
        return CAIRN_BOOL;
    else if constexpr (!std::is_integral_v<U>)
        return CAIRN_BYTES;
    else if constexpr (sizeof(U) == 1)
        return std::is_signed_v<U> ? CAIRN_I8 : CAIRN_U8;
    else if constexpr (sizeof(U) == 2)
        return std::is_signed_v<U> ? CAIRN_I16 : CAIRN_U16;
    else if constexpr (sizeof(U) == 4)
        return std::is_signed_v<U> ? CAIRN_I32 : CAIRN_U32;
    else
        return std::is_signed_v<U> ? CAIRN_I64 : CAIRN_U64;
}

using stats = ::cairn_stats_t;
using version_info = ::cairn_version_info_t;
using array = ::cairn_array;

/* Where a block lies in a global array. Without global, the block is this rank's own array. */
struct shape {
    std::vector<std::uint64_t> dims, global, offset;
};

class session {
public:
    using settings = std::initializer_list<std::string>; /* "key=value" */

    explicit session(settings list = {}, const char *config_file = nullptr)
    {
        with_options(list, config_file, [this](const cairn_options *o) { return cairn_open(o, &s_); });
    }
    explicit session(cairn_session *owned) noexcept : s_(owned) {}
#ifdef CAIRN_MPI_H
    static session open_mpi(MPI_Comm comm, settings list = {}, const char *config_file = nullptr)
    {
        cairn_session *s = nullptr;

        with_options(list, config_file,
                     [&](const cairn_options *o) { return cairn_open_mpi(comm, o, &s); });
        return session(s);
    }
#endif
    session(session &&other) noexcept : s_(std::exchange(other.s_, nullptr)) {}
    session &operator=(session &&other) noexcept
    {
        if (this != &other) {
            (void)cairn_close(s_);
            s_ = std::exchange(other.s_, nullptr);
        }
        return *this;
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() { (void)cairn_close(s_); }

    void close() { check(cairn_close(std::exchange(s_, nullptr))); }
    cairn_session *handle() const noexcept { return s_; }
    int rank() const noexcept { return cairn_rank(s_); }
    int ranks() const noexcept { return cairn_ranks(s_); }

    /* Regions. */
    template <class T> void protect(const char *region, T *data, std::size_t count)
    {
        constexpr cairn_type type = type_of<T>();
        const std::size_t n = type == CAIRN_BYTES ? count * sizeof(T) : count;

        check(cairn_protect(s_, region, data, type, n));
    }
    /* std::vector, std::array, std::span, a C array: what has std::data and std::size. The memory
     * must stay where it is: protect again after a resize. */
    template <class Container, class = decltype(std::data(std::declval<Container &>()))>
    void protect(const char *region, Container &&container)
    {
        protect(region, std::data(container), std::size(container));
    }
    template <class T> void protect(const char *region, T *data, const shape &where)
    {
        const cairn_array a = block_of<T>(where);

        check(cairn_protect_array(s_, region, data, &a));
    }
    /* Data of these dimensions that all ranks hold alike. */
    template <class T>
    void protect_replicated(const char *region, T *data, const std::vector<std::uint64_t> &dims)
    {
        const cairn_array a = block_of<T>(shape{dims, {}, {}});

        check(cairn_protect_replicated(s_, region, data, &a));
    }
#ifdef __cpp_lib_mdspan
    template <class T, class Extents>
    void protect(const char *region, std::mdspan<T, Extents, std::layout_right> block)
    {
        shape where;

        for (std::size_t d = 0; d < Extents::rank(); d++)
            where.dims.push_back(static_cast<std::uint64_t>(block.extent(d)));
        protect(region, block.data_handle(), where);
    }
#endif
    void unprotect(const char *region) { check(cairn_unprotect(s_, region)); }
    void gpu_stream(void *stream) { check(cairn_gpu_stream(s_, stream)); }

    /* Checkpoints. regions: all if empty. */
    using names = std::initializer_list<const char *>;
    void checkpoint(const char *name, std::int64_t version, names regions = {})
    {
        check(cairn_checkpoint(s_, name, version, list(regions).get()));
    }
    /* regions replaces options.regions, and options.size is set here. */
    void checkpoint_with(const char *name, std::int64_t version, cairn_checkpoint_options options,
                         names regions = {})
    {
        const auto chosen = list(regions);

        options.size = sizeof(options);
        options.regions = chosen.get();
        check(cairn_checkpoint_with(s_, name, version, &options));
    }
    void source_free() { check(cairn_source_free(s_)); }
    void capture(const char *name, std::int64_t version, names regions = {})
    {
        check(cairn_capture(s_, name, version, list(regions).get()));
    }
    void submit() { check(cairn_submit(s_)); }
    void abandon(const char *name, std::int64_t version, const char *reason = nullptr)
    {
        check(cairn_abandon(s_, name, version, reason));
    }
    bool test(const char *name, std::int64_t version, cairn_level level)
    {
        int reached = 0;

        check(cairn_test(s_, name, version, level, &reached));
        return reached != 0;
    }
    void wait(const char *name, std::int64_t version, cairn_level level = CAIRN_PERSISTENT,
              std::int64_t timeout_ms = CAIRN_WAIT_CONFIG)
    {
        check(cairn_wait(s_, name, version, level, timeout_ms));
    }
    void wait_all(cairn_level level = CAIRN_PERSISTENT, std::int64_t timeout_ms = CAIRN_WAIT_CONFIG)
    {
        check(cairn_wait_all(s_, level, timeout_ms));
    }
    /* Readable when the state of a checkpoint has changed; for poll() and event loops. */
    int event_fd() const noexcept { return cairn_event_fd(s_); }
    cairn::stats stats(const char *name, std::int64_t version)
    {
        cairn::stats st = {};

        st.size = sizeof(st);
        check(cairn_stats(s_, name, version, &st));
        return st;
    }

    /* Restart. No value: there is no version, start from the beginning. */
    std::optional<std::int64_t> restart(const char *name, names regions = {})
    {
        std::int64_t version = -1;

        return found(cairn_restart(s_, name, list(regions).get(), &version), version);
    }
    std::optional<std::int64_t> find(const char *name, std::int64_t not_newer_than = CAIRN_NEWEST)
    {
        std::int64_t version = -1;

        return found(cairn_find(s_, name, not_newer_than, &version), version);
    }
    bool find_version(const char *name, std::int64_t version)
    {
        return found(cairn_find_version(s_, name, version), version).has_value();
    }
    void verify(const char *name, std::int64_t version)
    {
        check(cairn_verify(s_, name, version));
    }
    void restore(const char *name, std::int64_t version, names regions = {})
    {
        check(cairn_restore(s_, name, version, list(regions).get()));
    }
    void restore_from(const char *name, std::int64_t version, int old_rank, names regions = {})
    {
        check(cairn_restore_from(s_, name, version, old_rank, list(regions).get()));
    }
    std::vector<std::int64_t> list_versions(const char *name)
    {
        std::vector<std::int64_t> versions;
        std::size_t n = 0;

        check(cairn_list(s_, name, nullptr, 0, &n));
        versions.resize(n);
        check(cairn_list(s_, name, versions.data(), versions.size(), &n));
        versions.resize(n < versions.size() ? n : versions.size());
        return versions;
    }
    void remove(const char *name, std::int64_t version) { check(cairn_remove(s_, name, version)); }
    void drop_local(const char *name) { check(cairn_drop_local(s_, name)); }
    void reject(const char *name, std::int64_t version, const char *reason = nullptr)
    {
        check(cairn_reject(s_, name, version, reason));
    }
#ifdef __cpp_lib_expected
    /* restart() without exceptions; the error may be CAIRN_ENOENT. */
    std::expected<std::int64_t, error> try_restart(const char *name, names regions = {})
    {
        std::int64_t version = -1;
        cairn_err rc = cairn_restart(s_, name, list(regions).get(), &version);

        if (rc != CAIRN_OK)
            return std::unexpected(error(rc, cairn_last_error()));
        return version;
    }
#endif
    cairn::version_info version_info(const char *name, std::int64_t version)
    {
        cairn::version_info info = {};

        info.size = sizeof(info);
        check(cairn_version_info(s_, name, version, &info));
        return info;
    }
    cairn::array region_info(const char *name, std::int64_t version, const char *region,
                             int old_rank = CAIRN_OWN_RANK)
    {
        cairn::array a = {};

        a.size = sizeof(a);
        check(cairn_region_info(s_, name, version, old_rank, region, &a));
        return a;
    }
    /* The index-th memory region of an old rank, from 0; no value after the last one. */
    std::optional<std::pair<std::string, cairn::array>>
    region_at(const char *name, std::int64_t version, std::uint32_t index,
              int old_rank = CAIRN_OWN_RANK)
    {
        char region[CAIRN_MAX_NAME] = "";
        cairn::array a = {};
        cairn_err rc;

        a.size = sizeof(a);
        rc = cairn_region_at(s_, name, version, old_rank, index, region, sizeof(region), &a);
        if (rc == CAIRN_ENOENT)
            return std::nullopt;
        check(rc);
        return std::pair<std::string, cairn::array>(region, a);
    }
    int repairs() const noexcept { return cairn_repairs(s_); }

    /* Prefetching. */
    void prefetch_enqueue(const char *name, std::int64_t version)
    {
        check(cairn_prefetch_enqueue(s_, name, version));
    }
    void prefetch_start() { check(cairn_prefetch_start(s_)); }
    void prefetch_cancel(const char *name, std::int64_t version)
    {
        check(cairn_prefetch_cancel(s_, name, version));
    }
    void prefetch_clear() { check(cairn_prefetch_clear(s_)); }

    /* Files. */
    std::string file_route(const char *name, std::int64_t version, const char *file)
    {
        std::string path(4096, '\0');

        check(cairn_file_route(s_, name, version, file, path.data(), path.size()));
        path.resize(std::char_traits<char>::length(path.data()));
        return path;
    }
    std::string file_restore(const char *name, std::int64_t version, const char *file,
                             int old_rank = CAIRN_OWN_RANK)
    {
        std::string path(4096, '\0');

        check(cairn_file_restore(s_, name, version, old_rank, file, path.data(), path.size()));
        path.resize(std::char_traits<char>::length(path.data()));
        return path;
    }

    /* Advice. */
    bool should_checkpoint(const char *name)
    {
        int yes = 0;

        check(cairn_should_checkpoint(s_, name, &yes));
        return yes != 0;
    }
    bool should_stop()
    {
        int yes = 0;

        check(cairn_should_stop(s_, &yes));
        return yes != 0;
    }
    void phase(cairn_phase_kind kind) { check(cairn_phase(s_, kind)); }

private:
    template <class T> static cairn_array block_of(const shape &where)
    {
        cairn_array a = {};

        static_assert(type_of<T>() != CAIRN_BYTES, "an array has elements of a number type");
        if (where.dims.empty() || where.dims.size() > CAIRN_MAX_DIMS ||
            (!where.global.empty() && (where.global.size() != where.dims.size() ||
                                       where.offset.size() != where.dims.size())))
            throw error(CAIRN_EINVAL, "cairn: dims, global and offset must have one length, 1 to 8");
        a.size = sizeof(a);
        a.type = type_of<T>();
        a.ndims = static_cast<std::int32_t>(where.dims.size());
        for (std::size_t d = 0; d < where.dims.size(); d++) {
            a.dims[d] = where.dims[d];
            a.global_dims[d] = where.global.empty() ? 0 : where.global[d];
            a.offset[d] = where.global.empty() ? 0 : where.offset[d];
        }
        return a;
    }
    /* A NULL-terminated list; NULL if it is empty. */
    struct word_list {
        std::vector<const char *> words;
        const char *const *get() const { return words.size() > 1 ? words.data() : nullptr; }
    };
    static word_list list(names regions)
    {
        word_list l{{regions.begin(), regions.end()}};

        l.words.push_back(nullptr);
        return l;
    }
    template <class Open>
    static void with_options(settings list, const char *config_file, Open open)
    {
        std::vector<const char *> words;
        cairn_options o = {};

        for (const std::string &s : list)
            words.push_back(s.c_str());
        words.push_back(nullptr);
        o.size = sizeof(o);
        o.config_file = config_file;
        o.settings = words.data();
        check(open(&o));
    }
    static std::optional<std::int64_t> found(cairn_err rc, const std::int64_t &version)
    {
        if (rc == CAIRN_ENOENT)
            return std::nullopt;
        check(rc);
        return version;
    }

    cairn_session *s_ = nullptr;
};

} // namespace cairn
#endif
