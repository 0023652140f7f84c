/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/test_store.h"

int setup(void **state)
{
    struct store_env *e = calloc(1, sizeof(*e));

    test_dir_make(e->dir, sizeof(e->dir));
    assert_int_equal(crn_store_open(crn_fs_posix(), e->dir, 1, &e->st, &e->info), CAIRN_OK);
    *state = e;
    return 0;
}

int teardown(void **state)
{
    struct store_env *e = *state;

    crn_store_close(&e->st);
    test_dir_remove(e->dir);
    free(e);
    return 0;
}

int has(const struct store_env *e, const char *rel)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/%s", e->dir, rel);
    return access(path, F_OK) == 0;
}

void expect(struct store_env *e, const char *states)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_catalog c;
    char text[400] = "";
    size_t i;

    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    for (i = 0; i < c.n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%lld:%s%s",
                       i > 0 ? " " : "", (long long)c.v[i].version,
                       crn_version_state_name(c.v[i].state), c.v[i].is_pinned ? "+pin" : "");
    assert_string_equal(text, states);
    crn_catalog_free(&c);
}
