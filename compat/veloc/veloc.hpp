/* SPDX-License-Identifier: BSD-3-Clause */
/* The C++ interface of VELOC over Cairn's veloc.h: header only, link -lveloc-client. C++11.
 *
 * Objects that serialise themselves are written into a buffer at checkpoint_mem, and read from one at
 * recover_mem. A process has one client; deleting it finalizes. */
#ifndef VELOC_HPP
#define VELOC_HPP

#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "veloc.h"

namespace veloc {

class client_t {
protected:
    static const char *default_mem_group()
    {
        return "default";
    }
    typedef std::function<void(std::ostream &)> serializer_t;
    typedef std::function<bool(std::istream &)> deserializer_t;
    typedef std::function<void(const std::string &name, int version)> observer_t;

public:
    virtual bool mem_protect(int id, void *ptr, size_t count, size_t base_size,
                             const std::string &name = default_mem_group()) = 0;
    virtual bool mem_protect(int id, const serializer_t &s, const deserializer_t &d,
                             const std::string &name = default_mem_group()) = 0;
    virtual bool mem_unprotect(int id, const std::string &name = default_mem_group()) = 0;
    virtual void mem_clear(const std::string &name = default_mem_group()) = 0;
    /* Called by checkpoint_end after a success, on the calling thread. */
    virtual bool register_observer(int type, const observer_t &obs) = 0;

    virtual std::string route_file(const std::string &original) = 0;
    virtual bool cleanup(const std::string &name) = 0;

    virtual bool checkpoint(const std::string &name, int version) = 0;
    virtual bool checkpoint_begin(const std::string &name, int version) = 0;
    virtual bool checkpoint_mem(int mode = VELOC_CKPT_ALL,
                                const std::set<int> &ids = std::set<int>()) = 0;
    virtual bool checkpoint_end(bool success) = 0;
    virtual bool checkpoint_wait() = 0;
    virtual bool checkpoint_finished() = 0;

    /* target_rank: only the process's own (or -1). */
    virtual int restart_test(const std::string &name, int version, int target_rank = -1) = 0;
    virtual bool restart(const std::string &name, int version, int target_rank = -1) = 0;
    virtual bool restart_begin(const std::string &name, int version, int target_rank = -1) = 0;
    virtual size_t recover_size(int id) = 0;
    virtual bool recover_mem(int mode = VELOC_RECOVER_ALL,
                             const std::set<int> &ids = std::set<int>()) = 0;
    virtual bool restart_end(bool success) = 0;

    virtual ~client_t()
    {
    }
};

namespace over_cairn {

class client : public client_t {
    struct object {
        serializer_t save;
        deserializer_t load;
        std::string bytes;
    };
    typedef std::map<int, object> objects;

    std::map<std::string, objects> groups; /* by checkpoint name; "": all names */
    std::vector<observer_t> observers;
    std::string name;
    int version;
    int rank;

    static std::string group_of(const std::string &group)
    {
        return group == default_mem_group() ? std::string() : group;
    }

    /* The objects of the checkpoint that is open, as VELOC chooses regions. */
    std::pair<const std::string, objects> *current()
    {
        std::map<std::string, objects>::iterator own = groups.find(name);

        if (own == groups.end() || own->second.empty())
            own = groups.find("");
        return own == groups.end() ? NULL : &*own;
    }

    static bool protect(int id, std::string &bytes, const std::string &group)
    {
        return VELOC_Region_protect(id, bytes.empty() ? &bytes : (void *)&bytes[0], bytes.size(),
                                    1, group.c_str()) == VELOC_SUCCESS;
    }

    static bool takes(int mode, const std::set<int> &ids, int id)
    {
        return mode == VELOC_CKPT_ALL || (ids.count(id) > 0) == (mode == VELOC_CKPT_SOME);
    }

    bool is_own(int target_rank) const
    {
        if (target_rank < 0 || target_rank == rank)
            return true;
        std::cerr << "veloc: a process restores what a process of its own rank wrote" << std::endl;
        return false;
    }

public:
    explicit client(int own_rank) : version(-1), rank(own_rank)
    {
    }
    ~client() override
    {
        (void)VELOC_Finalize(1);
    }
    client(const client &) = delete;
    client &operator=(const client &) = delete;

    bool mem_protect(int id, void *ptr, size_t count, size_t base_size,
                     const std::string &group) override
    {
        groups[group_of(group)].erase(id);
        return VELOC_Region_protect(id, ptr, count, base_size, group_of(group).c_str()) ==
               VELOC_SUCCESS;
    }

    bool mem_protect(int id, const serializer_t &s, const deserializer_t &d,
                     const std::string &group) override
    {
        object &o = groups[group_of(group)][id];

        o.save = s;
        o.load = d;
        return protect(id, o.bytes, group_of(group));
    }

    bool mem_unprotect(int id, const std::string &group) override
    {
        groups[group_of(group)].erase(id);
        return VELOC_Region_unprotect(id, group_of(group).c_str()) == VELOC_SUCCESS;
    }

    void mem_clear(const std::string &group) override
    {
        groups[group_of(group)].clear();
        (void)VELOC_Region_clear(group_of(group).c_str());
    }

    bool register_observer(int type, const observer_t &obs) override
    {
        if (type != VELOC_OBSERVE_CKPT_END)
            return false;
        observers.push_back(obs);
        return true;
    }

    std::string route_file(const std::string &original) override
    {
        char routed[VELOC_MAX_NAME];

        return VELOC_Route_file(original.c_str(), routed) == VELOC_SUCCESS ? routed
                                                                           : std::string();
    }

    bool cleanup(const std::string &which) override
    {
        return VELOC_Cleanup(which.c_str()) == VELOC_SUCCESS;
    }

    bool checkpoint(const std::string &which, int v) override
    {
        return checkpoint_wait() && checkpoint_begin(which, v) &&
               checkpoint_end(checkpoint_mem(VELOC_CKPT_ALL, std::set<int>()));
    }

    bool checkpoint_begin(const std::string &which, int v) override
    {
        name = which;
        version = v;
        return VELOC_Checkpoint_begin(which.c_str(), v) == VELOC_SUCCESS;
    }

    bool checkpoint_mem(int mode, const std::set<int> &ids) override
    {
        std::vector<int> list(ids.begin(), ids.end());
        std::pair<const std::string, objects> *group = current();

        if (group != NULL) {
            for (objects::iterator i = group->second.begin(); i != group->second.end(); ++i) {
                std::ostringstream out;

                if (!takes(mode, ids, i->first))
                    continue;
                i->second.save(out);
                i->second.bytes = out.str();
                if (!out || !protect(i->first, i->second.bytes, group->first))
                    return false;
            }
        }
        list.push_back(0); /* never empty */
        return VELOC_Checkpoint_selective(mode, list.data(), (int)ids.size()) == VELOC_SUCCESS;
    }

    bool checkpoint_end(bool success) override
    {
        bool ok = VELOC_Checkpoint_end(success ? 1 : 0) == VELOC_SUCCESS;

        for (size_t i = 0; ok && success && i < observers.size(); i++)
            observers[i](name, version);
        return ok && success;
    }

    bool checkpoint_wait() override
    {
        return VELOC_Checkpoint_wait() == VELOC_SUCCESS;
    }

    bool checkpoint_finished() override
    {
        return VELOC_Checkpoint_finished() == 1;
    }

    int restart_test(const std::string &which, int v, int target_rank) override
    {
        return is_own(target_rank) ? VELOC_Restart_test(which.c_str(), v) : VELOC_FAILURE;
    }

    bool restart(const std::string &which, int v, int target_rank) override
    {
        return restart_begin(which, v, target_rank) &&
               recover_mem(VELOC_RECOVER_ALL, std::set<int>()) && restart_end(true);
    }

    bool restart_begin(const std::string &which, int v, int target_rank) override
    {
        name = which;
        version = v;
        return is_own(target_rank) && VELOC_Restart_begin(which.c_str(), v) == VELOC_SUCCESS;
    }

    size_t recover_size(int id) override
    {
        int bytes = VELOC_Recover_size(id);

        return bytes < 0 ? 0 : (size_t)bytes;
    }

    bool recover_mem(int mode, const std::set<int> &ids) override
    {
        std::vector<int> list(ids.begin(), ids.end());
        std::pair<const std::string, objects> *group = current();

        if (group != NULL) {
            for (objects::iterator i = group->second.begin(); i != group->second.end(); ++i) {
                if (!takes(mode, ids, i->first))
                    continue;
                i->second.bytes.assign(recover_size(i->first), '\0');
                if (!protect(i->first, i->second.bytes, group->first))
                    return false;
            }
        }
        list.push_back(0);
        if (VELOC_Recover_selective(mode, list.data(), (int)ids.size()) != VELOC_SUCCESS)
            return false;
        if (group == NULL)
            return true;
        for (objects::iterator i = group->second.begin(); i != group->second.end(); ++i) {
            std::istringstream in(i->second.bytes);

            if (takes(mode, ids, i->first) && !i->second.load(in))
                return false;
        }
        return true;
    }

    bool restart_end(bool success) override
    {
        return VELOC_Restart_end(success ? 1 : 0) == VELOC_SUCCESS;
    }
};

} // namespace over_cairn

/* NULL on failure. */
inline client_t *get_client(MPI_Comm comm, const std::string &cfg_file)
{
    int rank = 0;

    if (VELOC_Init(comm, cfg_file.c_str()) != VELOC_SUCCESS)
        return NULL;
    MPI_Comm_rank(comm, &rank);
    return new over_cairn::client(rank);
}

inline client_t *get_client(unsigned int id, const std::string &cfg_file)
{
    if (VELOC_Init_single(id, cfg_file.c_str()) != VELOC_SUCCESS)
        return NULL;
    return new over_cairn::client((int)id);
}

} // namespace veloc

#endif
